import { expect, it } from "vitest";
import { runNpm } from "./checkout.ts";

it("npm run bench -- first-seen prints keys per second for per-key objects and for shards", async () => {
  const run = runNpm(".", "run", "--silent", "bench", "--", "first-seen", "--rounds", "1", "--shards", "8");
  const exitCode = await run.ended;
  const figures = [
    expect.stringMatching(/^ {2}per-key +[\d,]+ {2}\([\d,]+\)$/),
    expect.stringMatching(/^ {2}8 shards +[\d,]+ {2}\([\d,]+\)$/),
    expect.stringMatching(/^ {2}sharded\/per-key \d+\.\d$/),
  ];
  expect(run.output().trimEnd().split("\n")).toEqual([
    "first-seen keys per second, 32 callers: median of 1 rounds (each round)",
    "direct object calls",
    ...figures,
    "calls through the service",
    ...figures,
  ]);
  expect(exitCode).toBe(0);
});
