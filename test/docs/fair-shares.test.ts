/** Runs the example of the page about fair shares. */
import { expect, it } from "vitest";
import { pageBlock } from "./page-block.ts";
import { pageModules } from "./page-module.ts";

const importPage = pageModules();

it("the example of fair shares decides as its comments say", async () => {
  const { results } = await importPage<{ readonly results: unknown[] }>(
    pageBlock("explanation/fair-shares", "ts shares"),
  );
  expect(results).toEqual([true, true, "share", true, ["tenant"], true]);
});
