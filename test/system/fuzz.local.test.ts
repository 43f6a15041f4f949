import { expect, it } from "vitest";
import { type Run, runNpm } from "./checkout.ts";

const fuzz = (...options: string[]): Run => runNpm(".", "run", "--silent", "bench", "--", "fuzz", ...options);

const resultCount = (name: string): unknown =>
  expect.stringMatching(new RegExp(`^${name.padEnd(11)} (?:[a-z0-9-]+ \\d+(?:, |$))+$`));

it("npm run bench -- fuzz finds no Headgate error and no unexplained quota in 3,000 random requests", async () => {
  const run = fuzz("--requests", "3000", "--seed", "1");
  const exitCode = await run.ended;
  expect(run.output().trimEnd().split("\n")).toEqual([
    "seed        1",
    expect.stringMatching(/^requests {4}3000 in [\d.]+ s, [\d,]+ per second, 24 connections$/),
    resultCount("sent"),
    resultCount("origin"),
    resultCount("Headgate"),
    resultCount("workerd"),
    expect.stringMatching(/^keys {8}\d{3} checked at the end$/),
    resultCount("log"),
    "No error response of Headgate, and no quota beyond the limits.",
  ]);
  expect(exitCode).toBe(0);
});

it.each([
  ["--requests", "0", "expected an integer from 1 to 999999999"],
  ["--seed", "now", "expected an integer from 1 to 999999999"],
  ["--connections", "1000", "expected an integer from 1 to 200"],
])("npm run bench -- fuzz rejects %s %s", async (option, value, expected) => {
  const run = fuzz(option, value);
  expect(await run.ended).toBe(1);
  expect(run.output()).toBe(`${option}: ${expected}, got "${value}"\n`);
});
