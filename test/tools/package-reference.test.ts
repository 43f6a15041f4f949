/** The generated parts of the pages about the npm package are up to date. */
import { expect, it } from "vitest";
import { outdated } from "./generated.ts";
import { packageReference } from "./package-reference.ts";

it("the pages about the npm package show its types and comments", () => {
  expect(outdated(packageReference())).toEqual([]);
});
