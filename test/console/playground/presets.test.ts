/** The effects that the descriptions of the examples state. */
import { expect, test } from "vitest";
import { presets } from "../../../src/console/playground/model/presets.ts";
import { runsOf, scenarioOf } from "./runs.ts";

/** The number of denials in each lane of an example. */
function denialsOf(id: string): ReadonlyMap<string, number> {
  const preset = presets.find((each) => each.id === id);
  if (preset === undefined) throw new Error(`expected an example "${id}"`);
  const runs = runsOf(scenarioOf(preset.query));
  return new Map(runs.map(({ lane, summary }) => [lane, summary.denied]));
}

test("when clients add a random time to Retry-After, every strategy denies fewer requests", () => {
  const obeying = denialsOf("obey-retry-after");
  const others = [...denialsOf("jitter")].filter(([lane, denied]) => denied >= (obeying.get(lane) ?? 0));
  expect(others).toEqual([]);
});

test("window strategies deny a sixth of a steady client's requests, and bucket strategies hardly any", () => {
  const { "token-bucket": token, "leaky-bucket": leaky, ...windows } = Object.fromEntries(denialsOf("steady"));
  expect(new Set(Object.values(windows))).toEqual(new Set([100]));
  expect([token, leaky]).toEqual([1, 0]);
});
