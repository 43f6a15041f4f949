/** The middleware in the README equals the Worker of the page about the middleware, which a test runs. */
import { expect, it } from "vitest";
import { pageBlock } from "./page-block.ts";
import { readPage } from "./pages.ts";

it("every line of the README's middleware is in the Worker of the page about the middleware", () => {
  const blocks = readPage("README.md").blocks.filter(({ language }) => language === "ts");
  const lines = blocks.flatMap(({ text }) => text.split("\n"));
  const whole = pageBlock("how-to/limit-a-hono-app", "ts worker").split("\n");
  expect(lines.length).toBeGreaterThan(3);
  expect(whole).toEqual(expect.arrayContaining(lines));
});
