/** `package.json` describes the package that `npm run build` creates. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { packageSubpaths } from "../../../src/cli/package-build.ts";
import * as client from "../../../src/sdk/package/client.ts";
import * as hono from "../../../src/sdk/package/hono.ts";
import * as limiter from "../../../src/sdk/package/limiter.ts";
import * as strategies from "../../../src/sdk/package/strategies.ts";
import * as testing from "../../../src/sdk/package/test.ts";

const manifest = JSON.parse(readFileSync("package.json", "utf8"));

it("package.json exports exactly the files of src/sdk/package, each with types", () => {
  const exported = packageSubpaths().map((name) => [
    `./${name}`,
    { types: `./lib/${name}.d.ts`, default: `./lib/${name}.js` },
  ]);
  expect(manifest.exports).toEqual({
    ".": { types: "./lib/index.d.ts", default: "./lib/index.js" },
    ...Object.fromEntries(exported),
    "./package.json": "./package.json",
  });
});

it("the package has no dependencies, and its only peer dependency is hono, which is optional", () => {
  expect(manifest.dependencies).toBeUndefined();
  expect(Object.keys(manifest.peerDependencies)).toEqual(["hono"]);
  expect(manifest.peerDependenciesMeta).toEqual({ hono: { optional: true } });
});

it("package.json and the license file name the same license", () => {
  expect(readFileSync("LICENSE", "utf8")).toContain(`${manifest.license} License`);
});

/** Imports a module whose code throws. */
const errorOfRoot = async (): Promise<string> =>
  import("../../../src/sdk/package/index.ts").then(() => "none").catch((error: Error) => error.message);

it("importing headgate itself fails with an error that names the subpath of each part", async () => {
  const error = await errorOfRoot();
  expect(error).toMatch(/^"headgate" has no exports of its own: import /);
  expect(error).toContain('admin and rateLimit from "headgate/hono"');
  for (const name of packageSubpaths()) expect(error).toContain(`"headgate/${name}"`);
});

it("the module headgate itself has a hint for every value that a subpath exports", () => {
  const source = readFileSync("src/sdk/package/index.ts", "utf8");
  const hints = [...source.matchAll(/^ {2}in\w+ as (\w+),/gm)];
  const hinted = new Set(hints.map(([, name]) => name));
  const values = [client, hono, limiter, strategies, testing].flatMap((subpath) => Object.keys(subpath));
  expect(hinted).toEqual(new Set([...values, "ControlPlane", "RateLimiter", "default"]));
});
