/** The arithmetic and the steps of a key's explanation in words. */
import { describe, expect, it } from "vitest";
import type { ExplainedLimit, Explanation } from "../../../src/console/app/api/answers.ts";
import { arithmeticLines, totalsText } from "../../../src/console/app/keys/arithmetic.ts";
import { nextChangeText, stepResult } from "../../../src/console/app/keys/steps.ts";

const limit = (name: string, allowed: boolean, sentence: string | null): ExplainedLimit =>
  ({ name, allowed, sentence, remaining: allowed ? 5 : 0, capacity: 10 }) as ExplainedLimit;

const explained = (fields: Partial<Explanation>): Explanation =>
  ({
    reason: "limit",
    isKeyKnown: true,
    keyRules: [],
    policyRules: [],
    limits: [],
    ...fields,
  }) as unknown as Explanation;

const sum =
  "62 of 60 in the last minute: 41 in this window and 43 × 0.49 of the one before; the next request fits in 3.2 s.";

describe("the arithmetic of a limit", () => {
  it("the page's first sentence has the total, and the arithmetic has the terms and the wait", () => {
    const explanation = explained({ limits: [limit("api", false, sum)] });
    expect(totalsText(explanation)).toBe("62 of 60 in the last minute.");
    expect(arithmeticLines(explanation)).toEqual([
      {
        name: "api",
        text: "41 in this window and 43 × 0.49 of the one before; the next request fits in 3.2 s.",
      },
    ]);
  });

  it.each([
    ["5 of 5 in the last 10 minutes; the next request fits in 9 min 58 s.", /^the next request/],
    ["1 of 5 in the last 10 minutes; 4 more fit now.", /^4 more fit now\.$/],
    ["5 of 5 in the last minute.", /^5 of 5 in the last minute\.$/],
  ])("%s is one line of the arithmetic, so that no line appears or vanishes", (sentence, line) => {
    const explanation = explained({ limits: [limit("api", false, sentence)] });
    expect(arithmeticLines(explanation)).toEqual([{ name: "api", text: expect.stringMatching(line) }]);
    expect(totalsText(explanation)).toBe(`${sentence.replace(/[;.].*$/, "")}.`);
  });

  it("notes between the total and the wait are arithmetic", () => {
    const sentence = "2 of 2 in the last hour; the oldest leaves in 5 min; the next request fits in 5 min.";
    const explanation = explained({ limits: [limit("api", false, sentence)] });
    expect(arithmeticLines(explanation)).toEqual([
      { name: "api", text: "the oldest leaves in 5 min; the next request fits in 5 min." },
    ]);
  });

  it("limits that the first sentence leaves out keep their whole sentence", () => {
    const other = "2 of 9 in the last hour; 7 more fit now.";
    const limits = [limit("minute", false, sum), limit("hour", true, other)];
    expect(arithmeticLines(explained({ limits }))[1]).toEqual({ name: "hour", text: other });
    expect(totalsText(explained({ limits, reason: "ban" }))).toBe("");
  });

  it("a limit without a sentence says that the object does not answer", () => {
    const limits = [limit("api", true, null)];
    expect(arithmeticLines(explained({ limits }))[0]?.text).toMatch(/does not answer/);
  });
});

describe("the result of a step", () => {
  const step = { step: "key-rule-block", matches: true, decides: true, rule: "r1", entry: null } as const;
  const rule = { id: "r1", actor: "ops", note: "abuse" };

  it("a rule is named by its author and its note, or by its id without the control plane", () => {
    const keyRules = [rule] as unknown as Explanation["keyRules"];
    expect(stepResult(step, explained({ keyRules }))).toBe("decides (rule by ops: abuse)");
    expect(stepResult(step, explained({}))).toBe("decides (rule r1)");
  });

  it.each([
    [{ matches: false }, {}, "no match"],
    [{ decides: false, rule: null }, {}, "matches, but an earlier step decides"],
    [{ matches: null }, {}, "not known, because the object of the key does not answer"],
    [
      { matches: null, step: "configured-deny" as const },
      { isKeyKnown: false },
      "not known, because only the id of the key is given",
    ],
    [
      { matches: null, step: "configured-deny" as const },
      {},
      "not known, because its entries compare an attribute that is not given",
    ],
  ])("the step %o of %o reads as %s", (fields, explanation, text) => {
    expect(stepResult({ ...step, ...fields, decides: false }, explained(explanation))).toBe(text);
  });
});

it.each<[Pick<Explanation, "allowed" | "reason" | "nextChangeInMs">, string]>([
  [{ allowed: true, reason: "limit", nextChangeInMs: 600_000 }, "A rule behind this ends in 10 min."],
  [{ allowed: true, reason: "dry-run", nextChangeInMs: 3_200 }, "Without further requests, this changes in 3.2 s."],
  [{ allowed: false, reason: "limit", nextChangeInMs: 3_200 }, "Without further requests, this changes in 3.2 s."],
  [{ allowed: true, reason: "limit", nextChangeInMs: null }, "Without further requests, nothing changes."],
])("the next change of %o reads as %s", (explanation, text) => {
  expect(nextChangeText(explanation)).toBe(text);
});
