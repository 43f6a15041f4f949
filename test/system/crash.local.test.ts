import { expect, it } from "vitest";
import { type Run, runNpm } from "./checkout.ts";

const crash = (...options: string[]): Run => runNpm(".", "run", "--silent", "bench", "--", "crash", ...options);

const figures = /^\d+, \d+(?: units by kill; max \d+| units admitted before each kill)$/;

it("npm run bench -- crash kills workerd under load, and no durability setting admits more than it promises", async () => {
  const run = crash("--kills", "2");
  const exitCode = await run.ended;
  const lines = run.output().trimEnd().split("\n");
  const promised = (durability: string, promise: string): unknown[] => [
    `durability  ${durability}`,
    "kills       2 with SIGKILL, 16 connections",
    expect.stringMatching(/^admitted {4}\d+ of 6000, \d+ above the limit$/),
    expect.stringMatching(/^lost {8}/),
    expect.stringMatching(/^last second /),
    promise,
  ];
  expect(lines).toEqual([
    ...promised("confirmed", "The limit was never exceeded."),
    ...promised("relaxed", "No kill lost more than the units of the last second."),
  ]);
  expect(lines.filter((line) => /^(?:lost|last)/.test(line)).map((line) => line.slice(12))).toEqual(
    Array.from({ length: 4 }, () => expect.stringMatching(figures)),
  );
  // With confirmed writes, a crash loses no spend, so the total is exactly the limit.
  expect(lines[2]).toMatch(/, 0 above the limit$/);
  expect(lines[3]).toMatch(/^lost {8}0, 0 /);
  expect(exitCode).toBe(0);
});

it.each([
  ["--durability", "sure", 'expected "confirmed" or "relaxed"'],
  ["--kills", "0", "expected an integer from 1 to 999999999"],
])("npm run bench -- crash rejects %s %s", async (option, value, expected) => {
  const run = crash(option, value);
  expect(await run.ended).toBe(1);
  expect(run.output()).toBe(`${option}: ${expected}, got "${value}"\n`);
});
