/** Compares docs/reference/versions.md with package.json, wrangler.toml, and the formats that this version stores. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { rowVersion } from "../../src/limiter/object/key-row.ts";
import { createMeter, parseLimits } from "../../src/strategies/index.ts";
import { readPage, rowsOf } from "./pages.ts";

const page = readPage("docs/reference/versions.md");

const withoutCode = (text = ""): string => text.replaceAll("`", "");

interface Package {
  readonly engines: { readonly node: string };
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
}

it("the versions page states the versions of tools in package.json and wrangler.toml", () => {
  const read = (path: string): Package => JSON.parse(readFileSync(path, "utf8")) as Package;
  const { engines, devDependencies, peerDependencies } = read("package.json");
  const tools = read("test/tools/package.json").devDependencies;
  const [, date] = /^compatibility_date = "(.+)"$/m.exec(readFileSync("wrangler.toml", "utf8")) ?? [];
  const majors = Object.entries({ ...devDependencies, ...tools })
    .filter(([name]) => /^typescript(?:-\d+)?$/.test(name))
    .map(([, version]) => /(\d+)(?=\.\d+\.\d+$)/.exec(version)?.[0] ?? "")
    .toSorted();
  const rows = rowsOf(page, "tool").map(([tool, supported, tested]) => [
    tool,
    withoutCode(supported),
    withoutCode(tested),
  ]);
  expect(rows).toEqual([
    ["Node.js", engines.node, devDependencies["node"]],
    ["wrangler", expect.any(String), devDependencies["wrangler"]],
    ["workerd (compatibility)", expect.any(String), date],
    ["hono", peerDependencies["hono"], devDependencies["hono"]],
    ["TypeScript", majors.join(" and "), devDependencies["typescript"]],
  ]);
  expect(Object.keys(peerDependencies)).toEqual(["hono"]);
});

it("the versions page states the storage formats that this version writes", () => {
  const meter = createMeter(parseLimits("5/minute"));
  meter.consume(1, 1_800_000_000_000);
  const [snapshotVersion] = meter.snapshot() as [number];
  const formats = rowsOf(page, "what").map(([, format]) => withoutCode(format));
  expect(formats.slice(0, 2)).toEqual([String(rowVersion), String(snapshotVersion)]);
});
