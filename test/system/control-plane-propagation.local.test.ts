import { expect, it } from "vitest";
import { cellsOf } from "../tools/table.ts";
import { type Run, runNpm } from "./checkout.ts";

const propagation = (...options: string[]): Run =>
  runNpm(".", "run", "--silent", "bench", "--", "propagation", ...options);

it("npm run bench -- propagation finds that every isolate applies changed rules, and that no decision after a key rule is outdated", async () => {
  const run = propagation("--keys", "50", "--policies", "2");
  await run.ended;
  const [, ...rows] = cellsOf(run.output());
  const results = Object.fromEntries(rows.map(([name, ...cells]) => [name, cells.at(-1)]));
  // The benchmark compares times with its targets, which a busy machine may miss.
  const measured = expect.stringMatching(/^(?:met|missed)/);
  expect(results).toEqual({
    "first policy rule ever made": measured,
    "policy rule": measured,
    "policy rule, while watched": measured,
    "key rule, at the next strict decision": "0 of 250 decisions late, 0 changes unconfirmed: met",
    "key rule, remembered denials": measured,
    "key rule, leased": measured,
    "key rule, eventual": measured,
  });
});

it("npm run bench -- propagation rejects a number that is not positive", async () => {
  const run = propagation("--keys", "0");
  expect(await run.ended).toBe(1);
  expect(run.output()).toBe('--keys: expected an integer from 1 to 100000, got "0"\n');
});
