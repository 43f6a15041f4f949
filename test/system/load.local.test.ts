import { expect, it } from "vitest";
import { type Run, runNpm } from "./checkout.ts";

const load = (...options: string[]): Run => runNpm(".", "run", "--silent", "bench", "--", "load", ...options);

const exact = (objects: string): unknown[] => [
  `objects    ${objects}`,
  "limit      20 per 1s, 50 connections",
  expect.stringMatching(/^requests +\d+ in \d\.\d s, \d+ per second$/),
  "allowed    40 in 2 windows",
  expect.stringMatching(/^denied +\d+$/),
  "errors     0",
  expect.stringMatching(/^latency +p50 \d+ ms, p90 \d+ ms, p99 \d+ ms, max \d+ ms$/),
  "Every window admitted exactly 20.",
];

it("npm run bench -- load admits exactly the limit in each window for per-key and sharded objects, and reports this", async () => {
  const run = load("--limit", "20", "--windows", "2");
  const exitCode = await run.ended;
  expect(run.output().trimEnd().split("\n")).toEqual([...exact("per-key"), ...exact("sharded, 32")]);
  expect(exitCode).toBe(0);
});

it("npm run bench -- load --objects measures only one kind of objects", async () => {
  const run = load("--limit", "20", "--windows", "2", "--objects", "sharded", "--shards", "3");
  await run.ended;
  expect(run.output().trimEnd().split("\n")).toEqual(exact("sharded, 3"));
});

it.each([
  ["--objects", "single", 'expected "per-key" or "sharded"'],
  ["--shards", "0", "expected an integer from 1 to 4096"],
  ["--shards", "4097", "expected an integer from 1 to 4096"],
  ["--limit", "1.5", "expected an integer from 1 to 999999999"],
])("npm run bench -- load rejects %s %s", async (option, value, expected) => {
  const run = load(option, value);
  expect(await run.ended).toBe(1);
  expect(run.output()).toBe(`${option}: ${expected}, got "${value}"\n`);
});

it("npm run bench -- load rejects --shards when it measures no sharded objects", async () => {
  const run = load("--objects", "per-key", "--shards", "8");
  expect(await run.ended).toBe(1);
  expect(run.output()).toBe('--shards: expected only with --objects sharded, got "8"\n');
});
