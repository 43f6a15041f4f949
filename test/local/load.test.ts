import { expect, it } from "vitest";
import { runNpm } from "./checkout.ts";

it("npm run load lets in exactly the limit per window, and says so", async () => {
  const run = runNpm(".", "run", "--silent", "load", "--", "--limit", "20", "--windows", "2");
  const exitCode = await run.ended;
  expect(run.output().trimEnd().split("\n")).toEqual([
    "limit      20 per 1s, 50 connections",
    expect.stringMatching(/^requests +\d+ in \d\.\d s, \d+ per second$/),
    "allowed    40 in 2 windows",
    expect.stringMatching(/^refused +\d+$/),
    "errors     0",
    expect.stringMatching(/^latency +p50 \d+ ms, p90 \d+ ms, p99 \d+ ms, most \d+ ms$/),
    "Exactly 20 were let in per window.",
  ]);
  expect(exitCode).toBe(0);
});
