/** The sample of denials for the live tail. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type SampledDenial, TailSample } from "../../../src/control/isolate/tail-and-alerts.ts";
import { forAllCounted } from "../../for-all.ts";

const denialOf = (policy: string, key = "k"): SampledDenial => ({
  atMs: 0,
  policy,
  outcome: "denied",
  violated: ["p"],
  retryAfterMs: 1_000,
  cost: 1,
  colo: "FRA",
  key,
  plain: null,
});

describe("the tail sample", () => {
  it("a sample of a single policy has its first 20 denials", () => {
    const sample = new TailSample();
    for (let number = 0; number < 100; number++) sample.add(denialOf("p", `k${number}`));
    expect(sample.wants("p")).toBe(false);
    expect(sample.drain().map(({ key }) => key)).toEqual(Array.from({ length: 20 }, (_, number) => `k${number}`));
    expect(sample.wants("p")).toBe(true);
    expect(sample.drain()).toEqual([]);
  });

  it("a flood of one policy hides no later denial of another", () => {
    const sample = new TailSample();
    for (let number = 0; number < 1_000; number++) sample.add(denialOf("flood"));
    expect(sample.wants("quiet")).toBe(true);
    sample.add(denialOf("quiet"));
    const policies = sample.drain().map(({ policy }) => policy);
    expect(policies.filter((policy) => policy === "quiet")).toHaveLength(1);
    expect(policies).toHaveLength(20);
  });

  it("every policy has its equal share of the sample, or all of its denials", async () => {
    let full = 0;
    const names = fc.array(fc.constantFrom("a", "b", "c", "d", "e"), {
      maxLength: 200,
      size: "max",
    });
    await forAllCounted([names], (policies) => {
      const sample = new TailSample();
      for (const policy of policies) {
        sample.add(denialOf(policy));
      }
      const kept = sample.drain();
      expect(kept.length).toBe(Math.min(20, policies.length));
      const count = (list: readonly string[], name: string): number => list.filter((each) => each === name).length;
      const keptNames = kept.map(({ policy }) => policy);
      const most = Math.max(0, ...keptNames.map((name) => count(keptNames, name)));
      for (const name of new Set(policies)) {
        const least = Math.min(count(policies, name), most - 1);
        expect(count(keptNames, name)).toBeGreaterThanOrEqual(least);
      }
      if (policies.length > 20) full++;
    })();
    expect(full).toBeGreaterThan(20);
  });
});
