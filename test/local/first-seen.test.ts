import { expect, it } from "vitest";
import { runNpm } from "./checkout.ts";

it("npm run first-seen tells keys per second with an object each and with shards", async () => {
  const run = runNpm(".", "run", "--silent", "first-seen", "--", "--rounds", "1", "--shards", "8");
  const exitCode = await run.ended;
  expect(run.output().trimEnd().split("\n")).toEqual([
    "first-seen keys per second, 32 connections; the median of 1 rounds, and each",
    expect.stringMatching(/^an object each +[\d,]+ {2}\([\d,]+\)$/),
    expect.stringMatching(/^8 shards +[\d,]+ {2}\([\d,]+\)$/),
    expect.stringMatching(/^sharded ÷ each {2}\d+\.\d$/),
  ]);
  expect(exitCode).toBe(0);
});
