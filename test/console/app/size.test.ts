/** The size of the console on the network. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";

const folder = "dist/console/assets";
const names = readdirSync(folder);

/** The file, and all files that it imports statically. */
function loadedWith(name: string, known: Set<string> = new Set()): Set<string> {
  if (known.has(name)) return known;
  known.add(name);
  const text = readFileSync(join(folder, name), "utf8");
  for (const [, imported = ""] of text.matchAll(/(?:from|import)\s*"\.\/([\w-]+\.js)"/g)) {
    loadedWith(imported, known);
  }
  return known;
}

const gzippedBytes = (name: string): number => gzipSync(readFileSync(join(folder, name))).length;

const entry = names.find((name) => /^console-.+\.js$/.test(name)) ?? "";
const style = names.filter((name) => name.endsWith(".css"));

/** The files of the views, which the entry point imports on demand. */
const viewFiles = [...readFileSync(join(folder, entry), "utf8").matchAll(/\bimport\("\.\/([\w-]+\.js)"\)/g)].map(
  ([, name = ""]) => name,
);

const wireBytes = (name: string): number =>
  [...new Set([...style, ...loadedWith(entry), ...loadedWith(name)])]
    .map(gzippedBytes)
    .reduce((sum, size) => sum + size, 0);

it("each view of the console except the playground loads less than 60 kB, gzipped", () => {
  const sizes = viewFiles.map(wireBytes).toSorted((one, other) => one - other);
  expect(sizes).toHaveLength(8);
  expect(sizes.at(-2)).toBeLessThan(60_000);
});

it("the page preloads the modules of the entry point and of the overview, so that they load together", () => {
  const page = readFileSync("dist/console/index.html", "utf8");
  const named = [...page.matchAll(/rel="modulepreload" href="assets\/([\w-]+\.js)"/g)];
  const overview = viewFiles[0] ?? "";
  expect(readFileSync(join(folder, overview), "utf8")).toContain("Skip to the top denied keys");
  const expected = new Set([...loadedWith(entry), ...loadedWith(overview)]);
  expect(new Set(named.map(([, name]) => name))).toEqual(expected);
});

it("the engine of the playground is loaded on demand", () => {
  const worker = names.find((name) => /^playground-worker-.+\.js$/.test(name)) ?? "";
  expect(worker).not.toBe("");
  expect(viewFiles.map((name) => [...loadedWith(name)]).flat()).not.toContain(worker);
});
