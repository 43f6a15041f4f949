import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { type RecordedRun as Measured } from "../tools/http/record.ts";
import { type Run, runNpm } from "./checkout.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-bench-"));
afterAll(() => rmSync(folder, { recursive: true }));

const bench = (...options: string[]): Run =>
  runNpm(".", "run", "--silent", "bench", "--", "http", ...options);

it("npm run bench -- http measures the selected contestants, checks the targets and draws a plot", async () => {
  const names = ["noop", "check", "check-denied", "binding-denied"];
  // autocannon is always installed, wrk is not.
  const load = ["--generator", "autocannon", "--connections", "4"];
  const run = bench("--quick", "--only", names.join(","), "--out", folder, ...load);
  expect([await run.ended, run.output()]).toEqual([0, expect.stringContaining("Quick")]);
  const measured = JSON.parse(readFileSync(join(folder, "run.json"), "utf8")) as Measured;
  expect(measured.figures.map(({ id }) => id)).toEqual(names);
  for (const { perSecond, alone, loaded } of measured.figures) {
    for (const { median } of [perSecond, alone.p50Ms, loaded.p99Ms]) {
      expect(median).toBeGreaterThan(0);
    }
  }
  expect(measured).toMatchObject({ skipped: [], void: [] });
  expect(run.output()).toMatch(/^\| strict +\| [\d,]+ \([\d,]+ – [\d,]+\) \| +\| \d+\.\d\d \|/m);
  expect(run.output()).toMatch(
    /^\| strict, one key, allowed ÷ no-op object call \| at least 0\.95 \| \d.+ \| (?:met|missed) \|$/m,
  );
  for (const name of ["throughput-light.svg", "latency-dark.svg", "peers-light.svg"]) {
    expect(readFileSync(join(folder, name), "utf8")).toMatch(/^<svg [^]+Headgate, [^]+strict/);
  }
});

it.each([
  [
    "--only",
    "check,nothing",
    /^--only: expected some of plain, plain-json, noop, .*, got "nothing"/,
  ],
  ["--seconds", "11", /^--seconds: expected a number from 0\.1 to 10, got "11"\n$/],
  ["--generator", "ab", /^--generator: expected "wrk" or "autocannon", got "ab"\n$/],
])("npm run bench -- http rejects %s %s", async (option, value, message) => {
  const run = bench(option, value);
  expect(await run.ended).toBe(1);
  expect(run.output()).toMatch(message);
});
