/** The generated parts of the pages about the npm package are up to date. */
import { expect, it } from "vitest";
import { outdated } from "./generated.ts";
import { packageReference } from "./package-reference.ts";

it("the pages show the types and comments of the package", () => {
  expect(outdated(packageReference())).toEqual([]);
});
