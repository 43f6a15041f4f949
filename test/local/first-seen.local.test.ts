import { expect, it } from "vitest";
import { runNpm } from "./checkout.ts";

it("npm run first-seen prints keys per second for per-key objects and for shards", async () => {
  const run = runNpm(".", "run", "--silent", "first-seen", "--", "--rounds", "1", "--shards", "8");
  const exitCode = await run.ended;
  const figures = [
    expect.stringMatching(/^ {2}an object each +[\d,]+ {2}\([\d,]+\)$/),
    expect.stringMatching(/^ {2}8 shards +[\d,]+ {2}\([\d,]+\)$/),
    expect.stringMatching(/^ {2}sharded ÷ each {2}\d+\.\d$/),
  ];
  expect(run.output().trimEnd().split("\n")).toEqual([
    "first-seen keys per second, 32 callers; the median of 1 rounds, and each",
    "the objects alone",
    ...figures,
    "through the service",
    ...figures,
  ]);
  expect(exitCode).toBe(0);
});
