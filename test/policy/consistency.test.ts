import { describe, expect, it } from "vitest";
import { parseConfig } from "../../src/policy/vars/config.ts";
import { problemsIn } from "./parsed.ts";

const policy = { name: "p", limits: "10/minute" };
const consistencyOf = (fields: object): unknown =>
  parseConfig({ KEY_SECRET: "s", POLICIES: [{ ...policy, ...fields }] }).policies[0]?.consistency;
const problemsWith = (fields: object): [string, unknown][] =>
  problemsIn({ KEY_SECRET: "s", POLICIES: [{ ...policy, ...fields }] }).map(({ field, accepted }) => [
    field.replace("[0].", ""),
    accepted,
  ]);

describe("the consistency of a policy", () => {
  it.for<[object, object]>([
    [{}, { kind: "strict" }],
    [{ consistency: "strict" }, { kind: "strict" }],
    [{ consistency: "leased" }, { kind: "leased" }],
    [{ consistency: "eventual" }, { kind: "eventual", syncEveryMs: 1_000 }],
    [
      { consistency: "eventual", syncEvery: "100ms" },
      { kind: "eventual", syncEveryMs: 100 },
    ],
    [
      { consistency: "eventual", syncEvery: "10s" },
      { kind: "eventual", syncEveryMs: 10_000 },
    ],
  ])("the fields %j give the consistency %j", ([fields, expected]) => {
    expect(consistencyOf(fields)).toEqual(expected);
  });

  it.for([
    ["consistency", "sometimes", {}],
    ["consistency", true, {}],
    ["syncEvery", "99ms", { consistency: "eventual" }],
    ["syncEvery", "11s", { consistency: "eventual" }],
    ["syncEvery", 1_000, { consistency: "eventual" }],
    ["syncEvery", "1s", {}],
    ["syncEvery", "1s", { consistency: "strict" }],
    ["syncEvery", "1s", { consistency: "leased" }],
  ] as const)("the field %s rejects %j together with the fields %j", ([field, value, others]) => {
    expect(problemsWith({ ...others, [field]: value }).map(([name]) => name)).toEqual([field]);
  });

  it.for<[object, RegExp]>([
    [{ strategy: "concurrency" }, /concurrency/],
    [{ strategy: "leaky-bucket" }, /leaky-bucket queue/],
    [{ limits: { limit: 1, window: "1m", strategy: "fixed-window", elastic: true } }, /an elastic window/],
    [{ count: { status: ["401"] } }, /count/],
    [{ cost: { from: "response-header:x", reserve: 1, max: 5 } }, /a cost from the response/],
    [{ ban: "10m" }, /ban/],
    [
      {
        overrides: [{ key: "1.2.3.4", limits: { limit: 5, window: "1m", strategy: "concurrency" } }],
      },
      /concurrency/,
    ],
  ])("a policy with %j must be strict", ([fields, what]) => {
    for (const consistency of ["leased", "eventual"]) {
      expect(problemsWith({ ...fields, consistency })).toEqual([["consistency", expect.stringMatching(what)]]);
    }
    expect(problemsWith(fields)).toEqual([]);
  });

  it("eventual consistency with large sliding logs gives a warning", () => {
    const warningsOf = (limit: number, consistency: string): readonly string[] =>
      parseConfig({
        KEY_SECRET: "s",
        POLICIES: [{ name: "p", limits: `${limit}/hour`, strategy: "sliding-log", consistency }],
      }).warnings;
    expect(warningsOf(100_000, "eventual")).toEqual([
      expect.stringMatching(/^POLICIES\[0\]\.consistency: .* each sync of a key may transfer \d+ kB/),
    ]);
    expect(warningsOf(100_000, "leased")).toEqual([]);
    expect(warningsOf(1_000, "eventual")).toEqual([]);
  });

  it.for(["leased", "eventual"])("the consistency %s is valid with all other fields", (consistency) => {
    for (const strategy of ["fixed-window", "sliding-log", "sliding-window-counter", "token-bucket"]) {
      expect(problemsWith({ consistency, strategy, cost: 3 })).toEqual([]);
    }
    const police = { limit: 5, window: "1m", strategy: "leaky-bucket", mode: "police" };
    expect(problemsWith({ consistency, limits: police })).toEqual([]);
  });
});
