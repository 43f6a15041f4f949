import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { type RecordedRun as Measured } from "./record.ts";
import { type Run, runNpm } from "../../system/checkout.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-bench-"));
afterAll(() => rmSync(folder, { recursive: true }));

const bench = (...options: string[]): Run => runNpm(".", "run", "--silent", "bench", "--", "http", ...options);

it("npm run bench -- http measures the selected contestants and their floors, checks the goals and draws a plot", async () => {
  // autocannon is always installed, but wrk is not.
  const load = ["--generator", "autocannon", "--connections", "4"];
  const names = ["check-leased", "check-denied", "binding-denied"];
  const run = bench("--quick", "--only", names.join(","), "--out", folder, ...load);
  expect([await run.ended, run.output()]).toEqual([0, expect.stringContaining("Quick")]);
  const measured = JSON.parse(readFileSync(join(folder, "run.json"), "utf8")) as Measured;
  expect(measured.figures.map(({ id }) => id)).toEqual(["plain-json", "noop", ...names]);
  for (const { perSecond, loaded } of measured.figures) {
    for (const value of [perSecond.median, loaded.p99Ms]) expect(value).toBeGreaterThan(0);
  }
  const callsOf = (of: string): number | null | undefined =>
    measured.figures.find(({ id }) => id === of)?.callsPerThousand;
  // A request at the end of a turn may not yet have called its object.
  expect(callsOf("noop")).toBeGreaterThan(900);
  expect(callsOf("check-denied")).toBe(0);
  expect(measured).toMatchObject({ skipped: [], void: [] });
  expect(run.output()).toMatch(/^\| denied +\| [\d,]+ \| \d+\.\d\d \(\d+\.\d\d – \d+\.\d\d\) \|/m);
  expect(run.output()).toMatch(
    /^\| denied ÷ JSON request and response \| at least 0\.80 \| \d.+ \| (?:met|missed) \|$/m,
  );
  for (const theme of ["light", "dark"]) {
    expect(readFileSync(join(folder, `http-${theme}.svg`), "utf8")).toMatch(/^<svg [^]+Headgate, [^]+denied/);
  }
});

it.each([
  ["--only", "check,nothing", /^--only: expected some of plain, plain-json, noop, .*, got "nothing"/],
  ["--seconds", "11", /^--seconds: expected a number from 0\.1 to 10, got "11"\n$/],
  ["--generator", "ab", /^--generator: expected "wrk" or "autocannon", got "ab"\n$/],
  ["--record", "--goals", /^--record: expected a run of everything, got --goals, --only or/],
])("npm run bench -- http rejects %s %s", async (option, value, message) => {
  const run = bench(option, value);
  expect(await run.ended).toBe(1);
  expect(run.output()).toMatch(message);
});
