/** An explanation in words: the usage and arithmetic of each limit, the results of the steps, and the next change. */
import { describe, expect, it } from "vitest";
import { stepNames } from "../../src/admin/explain/steps.ts";
import { type Explained, explanationLines } from "../../src/admin/explain/lines.ts";
import type { ExplainedLimit, ExplainedStep } from "../../src/admin/wire.ts";
import { limitSentence, type UsageTerms } from "../../src/strategies/index.ts";

/** A limit of 60 per minute with this account of its units. */
const counted = (name: string, used: number, account: UsageTerms): ExplainedLimit => {
  const capacity = 60;
  const limit = {
    name,
    strategy: "sliding-window-counter",
    limit: capacity,
    capacity,
    windowMs: 60_000,
    allowed: used < capacity,
    remaining: Math.max(0, capacity - used),
    retryAfterMs: 0,
    replenishAfterMs: 3_200,
    resetAfterMs: 60_000,
  };
  const sentence = limitSentence(limit, { used, heldUnits: 0, terms: account });
  return { ...limit, used, lentUnits: 0, account, sentence };
};

const twoWindows = {
  kind: "two-windows",
  currentUnits: 41,
  previousUnits: 43,
  overlapMs: 29_400,
  windowMs: 60_000,
} as const;
const log = (units: number): UsageTerms => ({ kind: "log", units, oldest: { units: 1, leavesInMs: 300_000 } });

const steps = stepNames.map((step): ExplainedStep => ({
  step,
  matches: step === "configured-limits",
  rule: null,
  entry: null,
  decides: false,
}));

const linesOf = (fields: Partial<Explained>) =>
  explanationLines({
    allowed: true,
    reason: "limit",
    mode: "enforce",
    isKeyKnown: true,
    nextChangeInMs: null,
    bannedForMs: 0,
    steps,
    limitsFrom: "configured-limits",
    limits: [],
    keyRules: [],
    policyRules: [],
    reservations: null,
    slices: null,
    ...fields,
  } as Explained);

describe("the arithmetic of a limit", () => {
  it("the usage line has a limit's total, and the limit's own line has the terms of the total and the wait", () => {
    const { usage, limits } = linesOf({ limits: [counted("api", 62, twoWindows)] });
    expect(usage).toBe("62 of 60 in the last minute.");
    const text = "41 in this window and 43 × 0.49 of the one before; the next request fits in 3.2 s.";
    expect(limits).toEqual([{ name: "api", text }]);
  });

  it("a sentence without a calculation is split too: its total moves to the usage line", () => {
    const { usage, limits } = linesOf({ limits: [counted("api", 60, log(60))] });
    expect(usage).toBe("60 of 60 in the last minute.");
    expect(limits[0]?.text).toBe("the oldest leaves in 5 min; the next request fits in 3.2 s.");
  });

  it("the usage line has the total of each limit that denies, or else of the fullest limit", () => {
    const limits = [counted("a", 2, log(2)), counted("b", 9, log(9))];
    expect(linesOf({ limits }).usage).toBe("9 of 60 in the last minute.");
    const denying = [...limits, counted("c", 60, log(60)), counted("d", 61, log(61))];
    expect(linesOf({ limits: denying }).usage).toBe("60 of 60 in the last minute. 61 of 60 in the last minute.");
  });

  it("a limit whose total is not in the usage line keeps its whole sentence", () => {
    const limits = [counted("minute", 60, log(60)), counted("hour", 2, log(2))];
    const [, hour] = linesOf({ limits }).limits;
    expect(hour).toEqual({ name: "hour", text: limits[1]?.sentence });
    expect(linesOf({ limits, reason: "ban" }).usage).toBeNull();
  });

  it("a limit without an account says that the object does not answer", () => {
    const limits = [{ ...counted("api", 0, log(0)), used: null, account: null, sentence: null }];
    expect(linesOf({ limits })).toMatchObject({
      usage: null,
      limits: [{ text: expect.stringMatching(/does not answer/) as string }],
    });
  });
});

describe("the result of a step", () => {
  const step = { step: "key-rule-block", matches: true, decides: true, rule: "r1", entry: null } as const;
  const resultOf = (own: ExplainedStep, fields: Partial<Explained> = {}) =>
    linesOf({ steps: [own, ...steps], ...fields }).steps[0]?.text;

  it("a rule is named by its author and its note, or by its id if the control plane has not sent it", () => {
    const rule = {
      id: "r1",
      kind: "block",
      expiresInMs: null,
      state: "in-effect",
      actor: "ops",
      note: "abuse",
    } as const;
    expect(resultOf(step, { keyRules: [rule] })).toBe("decides (rule by ops: abuse)");
    expect(resultOf({ ...step, entry: 2 })).toBe("decides (rule r1, entry 3)");
  });

  it.each<[Partial<ExplainedStep>, Partial<Explained>, string]>([
    [{ matches: false }, {}, "no match"],
    [{ rule: null }, {}, "matches, but an earlier step decides"],
    [{ matches: null }, {}, "not known, because the object of the key does not answer"],
    [
      { matches: null, step: "configured-deny" },
      { isKeyKnown: false },
      "not known, because only the id of the key is given",
    ],
    [
      { matches: null, step: "configured-deny" },
      {},
      "not known, because its entries compare an attribute that is not given",
    ],
  ])("the step %o of %o reads as %s", (fields, explanation, text) => {
    expect(resultOf({ ...step, decides: false, ...fields }, explanation)).toBe(text);
  });
});

it.each<[Pick<Explained, "allowed" | "reason" | "nextChangeInMs">, string]>([
  [{ allowed: true, reason: "limit", nextChangeInMs: 600_000 }, "A rule behind this ends in 10 min."],
  [{ allowed: true, reason: "dry-run", nextChangeInMs: 3_200 }, "Without further requests, this changes in 3.2 s."],
  [{ allowed: false, reason: "limit", nextChangeInMs: 3_200 }, "Without further requests, this changes in 3.2 s."],
  [{ allowed: true, reason: "limit", nextChangeInMs: null }, "Without further requests, nothing changes."],
])("the next change of %o reads as %s", (explanation, text) => {
  expect(linesOf(explanation).nextChange).toBe(text);
});

it("a key that is allowed and has spent units is full again when the last of its limits is", () => {
  const limits = [{ ...counted("minute", 2, log(2)), resetAfterMs: 3_900 }, counted("unused", 0, log(0))];
  expect(linesOf({ limits }).nextChange).toBe(
    "Without further requests, the outcome stays the same, and the key is full again in 3.9 s.",
  );
});

it.each([
  [[], "the configuration"],
  [["key-rule-limits"], "the configuration"],
  [["key-rule-limits", "policy-rule-limits"], "a policy rule"],
  [["configured-overrides", "policy-rule-limits"], "an override of the configuration"],
  [["policy-rule-overrides", "configured-overrides"], "an override of a policy rule"],
])("with the matching steps %j, the limits without rules of the key come from %s", (matching, from) => {
  const matched = steps.map((step) => ({ ...step, matches: step.matches === true || matching.includes(step.step) }));
  expect(linesOf({ steps: matched }).limitsWithoutKeyRulesFrom).toBe(from);
});

it("the explanation lists bans, open reservations and open slices, with the time when the first slice ends", () => {
  const { open } = linesOf({
    bannedForMs: 42_000,
    reservations: { count: 1, units: 1, nextEndInMs: null },
    slices: { count: 2, units: 12, nextEndInMs: 8_000 },
  });
  expect(open).toEqual([
    "A ban denies the key for 42 s more.",
    "1 open reservation with 1 unit.",
    expect.stringMatching(/^2 slices with 12 units; the first ends in 8 s\. A slice is lent to an isolate/),
  ]);
});
