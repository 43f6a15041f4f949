import { expect, it } from "vitest";
import { cellsOf } from "../tools/table.ts";
import { type Run, runNpm } from "./checkout.ts";

const propagation = (...options: string[]): Run =>
  runNpm(".", "run", "--silent", "bench", "--", "propagation", ...options);

it("npm run bench -- propagation finds no late decision after changed key rules, and every isolate follows policy rules in time", async () => {
  const run = propagation("--keys", "50", "--policies", "2");
  const exitCode = await run.ended;
  const [, ...rows] = cellsOf(run.output());
  const results = Object.fromEntries(rows.map(([name, ...cells]) => [name, cells.at(-1)]));
  expect(results).toEqual({
    "first policy rule ever made": "met",
    "policy rule": "met",
    "policy rule, while watched": "met",
    "key rule, at the next strict decision": "0 of 250 decisions late, 0 changes unconfirmed: met",
    "key rule, remembered denials": "met",
    "key rule, leased": "met",
    "key rule, eventual": "met",
  });
  expect(exitCode).toBe(0);
});

it("npm run bench -- propagation rejects a number that is not positive", async () => {
  const run = propagation("--keys", "0");
  expect(await run.ended).toBe(1);
  expect(run.output()).toBe('--keys: expected an integer from 1 to 100000, got "0"\n');
});
