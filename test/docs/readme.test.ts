/** The claims of the README: its middleware, its badges and its figures equal what the project has. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { pageBlock } from "./page-block.ts";
import { readPage, rowsOf } from "./pages.ts";

const readme = readPage("README.md");
const { license, dependencies } = JSON.parse(readFileSync("package.json", "utf8")) as {
  readonly license: string;
  readonly dependencies?: object;
};

it("every line of the README's middleware is in the Worker of the page about the middleware", () => {
  const blocks = readme.blocks.filter(({ language }) => language === "ts");
  const lines = blocks.flatMap(({ text }) => text.split("\n"));
  const whole = pageBlock("how-to/limit-a-hono-app", "ts worker").split("\n");
  expect(lines.length).toBeGreaterThan(3);
  expect(whole).toEqual(expect.arrayContaining(lines));
});

it("the badges of the README state the license and the number of dependencies in package.json", () => {
  const badges = readme.links.filter((link) => link.startsWith("https://img.shields.io/badge/"));
  const stated = badges.map((link) => link.replace("https://img.shields.io/badge/", ""));
  const count = Object.keys(dependencies ?? {}).length;
  expect(stated).toEqual([`license-${license}-blue`, `package_dependencies-${count}-blue`]);
});

it("the speed in the README is that of strict checks in the table of benchmark results", () => {
  const [, ratio, rate] =
    /have ([\d.]+)\s+times the rate of a Durable Object call that does nothing[^:]+: ([\d,]+)\s+per second/.exec(
      readme.text,
    ) ?? [];
  const rows = rowsOf(readPage("docs/benchmarks/results.md"), "contestant");
  const start = rows.findIndex(([name]) => name === "**Headgate, /check**");
  const [name, perSecond, ofFloor = ""] = rows[start + 1] ?? [];
  expect([name, perSecond, ofFloor.split(" ")[0]]).toEqual(["strict", rate, ratio]);
});
