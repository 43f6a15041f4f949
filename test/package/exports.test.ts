/** `package.json` describes the package that `npm run build` makes. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { packageSubpaths } from "../../src/local/package-build.ts";

const manifest = JSON.parse(readFileSync("package.json", "utf8"));

it("package.json exports exactly the files of src/package, each with types", () => {
  const exported = packageSubpaths().map((name) => [
    `./${name}`,
    { types: `./lib/${name}.d.ts`, default: `./lib/${name}.js` },
  ]);
  expect(manifest.exports).toEqual({
    ...Object.fromEntries(exported),
    "./package.json": "./package.json",
  });
});

it("the package has no dependencies, and hono is its only peer and optional", () => {
  expect(manifest.dependencies).toBeUndefined();
  expect(Object.keys(manifest.peerDependencies)).toEqual(["hono"]);
  expect(manifest.peerDependenciesMeta).toEqual({ hono: { optional: true } });
});

it("package.json and the license file name the same license", () => {
  expect(readFileSync("LICENSE", "utf8")).toContain(`${manifest.license} License`);
});
