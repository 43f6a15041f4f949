/**
 * The sections "The last 24 hours" and "The last minutes" without a browser: which decisions a dialog compares, and what the section says about
 * samples.
 */
import { describe, expect, it } from "vitest";
import type { PolicyView } from "../../../../src/admin/wire.ts";
import type { Comparison, DecidedTraffic } from "../../../../src/console/app/replay/compare.ts";
import {
  type Change,
  changeOfPolicy,
  changeOfRules,
  readWays,
  rulesAfter,
  underLimits,
} from "../../../../src/console/app/what-if/ways.ts";
import {
  changeSummary,
  denialsPlot,
  isInSample,
  noAnswer,
  olderText,
  periodText,
  rangeText,
  sampleText,
  warnings,
} from "../../../../src/console/app/what-if/sample-texts.ts";
import { addedEntry, onlyKeyOf } from "../../../../src/console/app/what-if/of-dialogs.tsx";
import { rule, startMs } from "../audit-entries.ts";
import { instantText } from "../../../../src/console/app/parts/text.ts";
import { knownSamples } from "../replay/known-samples.ts";

const minuteMs = 60_000;
const limitsOf = (limit: number) => [{ name: "api", limit, windowMs: minuteMs, strategy: "sliding-log" }];

const policyWith = (fields: Partial<PolicyView> = {}): PolicyView =>
  ({
    name: "api",
    key: ["ip"],
    mode: { value: "enforce", source: "configuration" },
    limits: { value: limitsOf(20), source: "configuration" },
    configured: { mode: "enforce", limits: limitsOf(20) },
    rules: [],
    refused: [],
    ...fields,
  }) as unknown as PolicyView;

const kinds = ({ ways }: Change): string[] => ways.map(({ title, decider }) => `${title}: ${decider.kind}`);

describe("the ways that a change of rules compares", () => {
  const limitsRule = rule({ id: "l1", kind: "limits", limits: "10/minute" });
  const modeRule = rule({ id: "m1", kind: "mode", mode: "dry-run" });

  it("removing a rule for limits compares with an older rule, or else with the configuration", () => {
    const policy = policyWith({
      limits: { value: limitsOf(10), source: "rule", rule: "l1" },
      rules: [limitsRule] as never,
    });
    expect(changeOfRules(policy, []).ways[1]).toEqual({
      title: "Then",
      decider: { kind: "limits", limits: limitsOf(20) },
    });
    const older = rule({ id: "l0", kind: "limits", limits: "5/minute", strategy: "fixed-window" });
    expect(changeOfRules(policy, [older]).ways[1]).toEqual({
      title: "Then",
      decider: { kind: "written", limits: "5/minute", strategy: "fixed-window" },
    });
  });

  it("ending a dry run compares what the dry run observed, its state now, and its limits when they deny", () => {
    const policy = policyWith({
      mode: { value: "dry-run", source: "rule", rule: "m1" },
      rules: [modeRule] as never,
    });
    expect(kinds(changeOfRules(policy, []))).toEqual(["Observed: recorded", "Now: all-allowed", "Then: limits"]);
  });

  it("the comparison ignores a rule that the configuration refuses", () => {
    const policy = policyWith({ refused: [{ rule: "m1", reason: "…" }] });
    expect(kinds(changeOfRules(policy, [modeRule]))).toEqual(["Now: limits", "Then: limits"]);
  });

  it("a comparison with a rollback removes, changes and restores rules, and a restored rule has precedence", () => {
    const policy = policyWith({ rules: [limitsRule, modeRule] as never });
    const former = rule({ id: "m1", kind: "mode", mode: "off" });
    const restored = rule({ id: "old", kind: "limits", limits: "1/minute" });
    const after = rulesAfter(policy, [
      { before: limitsRule, after: null },
      { before: modeRule, after: former },
      { before: null, after: restored },
    ]);
    expect(after).toEqual([restored, former]);
  });

  it("typed limits are read as the engine reads them, and invalid text compares nothing", async () => {
    const written = (limits: string): Change =>
      changeOfPolicy(policyWith(), underLimits(limitsOf(20)), {
        kind: "written",
        limits,
        strategy: "fixed-window",
      });
    const read = await readWays(written("10/minute"));
    expect(read?.deciders[1]).toMatchObject({
      kind: "limits",
      limits: [{ limit: 10, windowMs: minuteMs, strategy: "fixed-window" }],
    });
    expect(await readWays(written("10 parsecs"))).toBeNull();
  });
});

describe("the key of a new entry", () => {
  it("adding one entry to a list is compared, and adding several or removing one is not", () => {
    expect(addedEntry(["a"], ["a", "b"])).toBe("b");
    expect(addedEntry(["a"], ["b"])).toBeNull();
    expect(addedEntry([], ["a", "b"])).toBeNull();
    expect(addedEntry(["a"], ["a"])).toBeNull();
  });

  it.each([
    ["192.0.2.7", ["ip"], ["192.0.2.7"]],
    ["192.0.2.7", ["header:x-api-key"], null],
    ["2001:db8::/32", ["ip"], null],
    ["partner-42", ["header:x-api-key"], ["partner-42"]],
    [
      ["a", "b"],
      ["tenant", "user"],
      ["a", "b"],
    ],
    ["a", ["tenant", "user"], null],
    [{ key: "partner-42", limits: "9/minute" }, ["header:x-api-key"], ["partner-42"]],
    [{ when: "country == DE", limits: "9/minute" }, ["ip"], null],
  ])("the entry %j of a policy with the key %j matches only the key %j", (entry, parts, key) => {
    expect(onlyKeyOf(entry, parts)).toEqual(key);
  });
});

const traffic = (denied: number, deniedKeys: number): DecidedTraffic => ({
  denied,
  deniedShare: { value: denied / 100, low: 0, high: 1 },
  deniedKeys,
  deniedKeyShare: { value: deniedKeys / 40, low: 0, high: 1 },
  denials: { startMs: 0, stepMs: 10 * minuteMs, counts: Float64Array.of(0, denied, 0) },
  longestDeniedMs: null,
  retrying: null,
});

const comparisonOf = (fields: Partial<Comparison> = {}): Comparison => ({
  source: { ...knownSamples().source, oneKeyIn: 64 },
  requests: 100,
  keys: 40,
  results: [traffic(2, 1), traffic(30, 5)],
  affected: [],
  affectedKeys: 5,
  ...fields,
});

describe("the texts of the section", () => {
  const titles = ["Now", "Then"];

  it("the summary names the denied requests and keys before and after the change", () => {
    expect(changeSummary(comparisonOf(), { titles })).toBe(
      "Then: 30 of 100 requests denied, of 5 keys. Now: 2, of 1 key.",
    );
    const source = { ...comparisonOf().source, fromMs: Date.now() - 660_000, toMs: Date.now() - 60_000 };
    const recent = comparisonOf({ source });
    expect(changeSummary(recent, { titles, key: "k" })).toBe(
      "From the last 10 min: 100 requests. Then: 30 denied. Now: 2.",
    );
    expect(sampleText(recent, "k")).toMatch(/^Counted: 100 requests of the key, from .+ to .+\. Its earlier requests/);
    expect(periodText(recent)).toBe("the last 24 hours");
    const old = { source: { ...source, toMs: startMs, fromMs: startMs - 240_000 } };
    expect(periodText(old, "k")).toBe(`4 min until ${instantText(startMs)}`);
    expect(changeSummary(comparisonOf({ requests: 0 }), { titles, key: "k" })).toBe(
      "The samples have no requests of the key.",
    );
  });

  it("a deployment without samples shows the reason and what to do", () => {
    const of = (fields: object): string | null => noAnswer({ ...knownSamples(), ...fields }, undefined);
    expect(of({ sample: "off" })).toMatch(/SAMPLE is "off".*Set it to "1\/64"/);
    const { source } = knownSamples();
    const empty = { arrivals: 0, keys: 0 };
    expect(of({ ...empty, source: { ...source, requests: 0 } })).toMatch(/has counted no requests/);
    expect(of({ ...empty, source: { ...source, oneKeyIn: 64, requests: 90 } })).toMatch(
      /no key .* is in the sample, which has 1 key in 64.*set SAMPLE to "1\/1"/,
    );
    expect(of({ ...empty, source: { ...source, oneKeyIn: 1, requests: 5 } })).toMatch(/samples .* have not arrived/);
    expect(of({ arrivals: 7 })).toBeNull();
  });

  it("a key is in the sample if its first 24 bits are below the share of the sample", () => {
    const id = (start: string): string => start.padEnd(43, "x");
    expect(isInSample(id("AAAA"), 4_096)).toBe(true);
    expect(isInSample(id("____"), 1)).toBe(true);
    expect(isInSample(id("____"), 2)).toBe(false);
    // 2^24 / 64 = 262,144, which is "BAAA".
    expect(isInSample(id("A___"), 64)).toBe(true);
    expect(isInSample(id("BAAA"), 64)).toBe(false);
    const known = { ...knownSamples(), source: { ...knownSamples().source, oneKeyIn: 64 } };
    expect(noAnswer(known, id("BAAA"))).toMatch(/^This key is not in the sample, which has 1 key in 64/);
  });

  it("few keys, lost requests, old samples and other limits cause warnings", () => {
    const nowMs = Date.now();
    const good = { coverage: 1, storedAtMs: nowMs };
    expect(warnings(good, comparisonOf())).toEqual([]);
    expect(warnings(good, comparisonOf({ keys: 4 }))).toEqual([
      "Only 4 keys of the sample sent requests. This is too few to know the shares of all keys.",
    ]);
    const bad = { coverage: 0.93, storedAtMs: nowMs - 7_200_000 };
    const source = { ...comparisonOf().source, otherLimitsArrivals: 12 };
    expect(warnings(bad, comparisonOf({ source }))).toEqual([
      expect.stringMatching(/^The control plane stored the newest samples 2 h.* ago/),
      expect.stringMatching(/^93 % of the requests/),
      expect.stringMatching(/^12 requests that overrides or rules of keys decided are left out/),
    ]);
  });

  it("samples that could not be read again are shown with their age and the reason", () => {
    const known = { readAtMs: Date.now() - 720_000 };
    expect(olderText(known, new Error("The control plane does not answer."))).toMatch(
      /^These samples were read 12 min.* ago\. Newer ones cannot be read: The control plane does/,
    );
  });

  it("an interval is shown as a range", () => {
    expect(rangeText({ low: 0.001, high: 0.006 })).toBe("0.1 to 0.6 %");
    expect(rangeText({ low: 0, high: 0 })).toBe("0 %");
  });

  it("the plot has a line for each compared set of limits, and one for clients that retry", () => {
    const retrying = {
      denied: 40,
      denials: { startMs: 0, stepMs: 10 * minuteMs, counts: Float64Array.of(0, 40, 5) },
      abandoned: 0,
      longestWaitMs: 0,
    };
    const results = [traffic(2, 1), { ...traffic(30, 5), retrying }];
    const { title, summary, data } = denialsPlot(comparisonOf({ results }), titles);
    expect(title).toBe("Denied requests per 10 min");
    expect(summary).toBe("Now: at most 2; Then: at most 30; Then, if clients retry: at most 40");
    expect(data.times).toEqual([0, 10 * minuteMs, 20 * minuteMs]);
    expect(data.series.map(({ values }) => values[1])).toEqual([2, 30, 40]);
  });
});
