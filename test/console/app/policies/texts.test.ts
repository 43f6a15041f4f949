/** Lists of entries and limits as texts that operators edit, and the numbers of a dry run. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { PolicyView, RuleView, WrittenLimits } from "../../../../src/admin/wire.ts";
import {
  changedEntries,
  decisionsText,
  editedLimits,
  linesOf,
  mergeLines,
  modeDecisionsText,
  previewOf,
  readLimits,
  readLines,
} from "../../../../src/console/app/policies/texts.ts";
import { decisionsOf } from "../../../../src/console/app/keys/denials.ts";
import { authorText, policyWithout } from "../../../../src/console/app/parts/rule-text.ts";
import { limitsWritten } from "../../../../src/console/app/policies/written-limits.ts";
import { forAll } from "../../../for-all.ts";
import { rule } from "../audit-entries.ts";

describe("entries as lines", () => {
  const text = fc.string({ minLength: 1, maxLength: 8 });
  const listed = fc.oneof(text, fc.array(text, { minLength: 1, maxLength: 3 }));
  it(
    "writing a list of any texts as lines and reading it gives the same list",
    forAll([fc.array(listed, { maxLength: 5 })], (entries) => {
      expect(readLines(linesOf(entries))).toEqual({ entries });
    }),
  );

  it("the problem of invalid JSON names its line", () => {
    expect(readLines('192.0.2.1\n\n["a", ')).toEqual({
      problem: expect.stringMatching(/^Line 3: expected JSON/),
    });
  });

  const line = fc.constantFrom("a", "b", "c", "d", "e", "f");
  const lines = fc.uniqueArray(line, { maxLength: 6 });
  it(
    "typed changes apply to a newer list: entries that other operators added stay, and only entries that the operator removed go",
    forAll([lines, lines, lines], (base, typed, fresh) => {
      const merged = mergeLines(linesOf(base), linesOf(typed), linesOf(fresh));
      const result = merged.split("\n").filter((each) => each !== "");
      const { added, removed } = changedEntries(base, typed);
      const expected = [...fresh.filter((each) => !removed.includes(each)), ...added];
      expect(result.toSorted()).toEqual([...new Set(expected)].toSorted());
    }),
  );
});

it("limits can be in notation or JSON, and an empty text or invalid JSON is a problem", () => {
  expect(readLimits(" 100/minute ")).toEqual({ limits: "100/minute" });
  expect(readLimits('[{"limit": 5, "window": "1m"}]')).toEqual({
    limits: [{ limit: 5, window: "1m" }],
  });
  expect(readLimits(" ")).toEqual({ problem: expect.stringMatching(/Expected limits/) });
  expect(readLimits("[")).toEqual({ problem: expect.stringMatching(/Expected JSON/) });
});

describe("the preview of changed limits", () => {
  const preview = (limits: WrittenLimits, strategy = ""): object =>
    previewOf(typeof limits === "string" ? limits : JSON.stringify(limits), strategy, "api", limitsWritten);

  it("the problem of invalid limits says what is wrong with them", () => {
    expect(preview("abc", "sliding-log")).toEqual({
      content: null,
      problem: expect.stringMatching(/expected limits such as .*got "abc"$/),
      effect: "…",
    });
    expect(preview("8/10 parsecs")).toMatchObject({ problem: expect.stringMatching(/parsecs/) });
  });

  it("edited limits are read as the engine reads them, with their strategy", () => {
    const effect = (limits: WrittenLimits, strategy?: string): unknown =>
      Reflect.get(preview(limits, strategy), "effect");
    expect(effect("8/10s", "sliding-log")).toBe("8 per 10 s, sliding-log");
    expect(effect("8/10s")).toBe("8 per 10 s, with the strategy of the configuration");
    const bucket = { limit: 5, window: "1m", strategy: "token-bucket", burst: 9 };
    expect(effect([bucket], "sliding-log")).toBe("5 per minute, token-bucket, burst 9");
  });

  it.each([
    ["12/10s; 100/1h", "sliding-log", /^12\/10s; 100\/1h$/],
    [[{ limit: 5, window: "1m", burst: 9 }], "token-bucket", /^\[/],
  ])("the editor starts with the limits in effect: %j", (written, strategy, text) => {
    const value = limitsWritten(written, strategy, "api").limits;
    const limits = { value, source: "configuration" } as const;
    const edited = editedLimits({ name: "api", limits, rules: [] });
    expect(edited.strategy).toBe(strategy);
    expect(edited.text).toMatch(text);
    const read = readLimits(edited.text);
    const again = "limits" in read ? limitsWritten(read.limits, strategy, "api").limits : null;
    expect(again).toEqual(value);
  });
});

describe("the state of a policy without a rule", () => {
  const limits = [{ name: "api", limit: 100, windowMs: 60_000, strategy: "sliding-log" }];
  const older = rule({ id: "old", kind: "limits", limits: "9/h", actor: "amy" });
  const policy = (fields: Partial<PolicyView>): PolicyView =>
    ({
      configured: { mode: "enforce", limits },
      rules: [],
      refused: [],
      deny: [],
      ...fields,
    }) as unknown as PolicyView;
  const newer = { id: "new", kind: "limits" } as const;

  it("without its newest rule, a policy has the mode and the limits of the configuration", () => {
    expect(policyWithout(policy({}), { kind: "mode", id: "r1" })).toBe("enforce, from the configuration");
    expect(policyWithout(policy({}), newer)).toBe("100 per minute, from the configuration");
  });

  it("without its newest rule, a policy follows an older rule of the same kind, unless the configuration refuses that rule", () => {
    const rules = [rule({ id: "new", kind: "limits" }), older] as RuleView[];
    expect(policyWithout(policy({ rules }), newer)).toBe("limits 9/h, from a rule by amy, without an end");
    const refused = [{ rule: "old", reason: "…" }];
    expect(policyWithout(policy({ rules, refused }), newer)).toMatch(/^100 per minute/);
  });

  it("removing a rule keeps the entries of other rules and of the configuration", () => {
    const deny = [
      { count: 2, source: "rule", rule: "new" },
      { count: 3, source: "configuration" },
    ] as const;
    const without = (id: string, list: PolicyView["deny"]): string =>
      policyWithout(policy({ deny: list }), { kind: "deny", id });
    expect(without("new", deny)).toBe("without these entries; 3 other deny entries stay");
    expect(without("new", deny.slice(0, 1))).toBe("no deny entries");
  });
});

it("a policy's rule is shown with the author of its last change and the time of this change", () => {
  const since = (at: string): string => new Date(at).toLocaleTimeString("en-GB");
  const [began, changed] = ["2026-11-22T14:30:49.000Z", "2026-11-22T14:31:11.000Z"] as const;
  const made: RuleView = { ...rule({ startsAt: began }), state: "applied", appliedAt: began };
  const replaced: RuleView = { ...made, actor: "alice", revision: 2, appliedAt: changed };
  expect(authorText(made)).toMatch(new RegExp(`^by ops, since .*${since(began)}$`));
  expect(authorText(replaced)).toMatch(new RegExp(`^by alice, since .*${since(changed)}$`));
  // The API returns no time of the last change for a rule of a key.
  expect(authorText({ ...replaced, keyId: "k1" })).toBe("by alice");
});

describe("the numbers of the last hour", () => {
  const point = (policy: string, outcomes: object) => ({
    at: "2026-11-22T12:00:00Z",
    policy,
    outcomes,
    nearLimit: 0,
    latency: [],
    latencySumMs: 0,
  });
  const points = [
    point("api", { allowed: 90, "dry-run-denied": 5 }),
    point("api", { denied: 2, banned: 1, blocked: 1, exempt: 1, "fallback-closed": 1 }),
    point("login", { denied: 7 }),
  ];

  it("the numbers of the last hour count all decisions of the policy, its denials and its dry-run denials", () => {
    expect(decisionsOf({ points }, "api")).toEqual({ all: 101, denied: 4, wouldBeDenied: 5 });
  });

  it.each([
    [{ all: 0, denied: 0, wouldBeDenied: 0 }, "enforce", "No requests in the last hour."],
    [{ all: 1, denied: 0, wouldBeDenied: 0 }, "off", "1 request in the last hour."],
    [
      { all: 200, denied: 0, wouldBeDenied: 9 },
      "dry-run",
      "200 requests in the last hour, 9 (4.5 %) would have been denied.",
    ],
    [
      { all: 200, denied: 0, wouldBeDenied: 9 },
      "enforce",
      "200 requests in the last hour, 0 (0 %) denied, 9 (4.5 %) would have been denied.",
    ],
  ] as const)("the numbers %o of a policy in the mode %s are described as: %s", (decisions, mode, text) => {
    expect(decisionsText(decisions, mode)).toBe(text);
  });

  describe("a dry run that a rule began less than an hour ago", () => {
    const at = (time: string): string => `2026-11-22T${time}Z`;
    const dryRun = {
      name: "api",
      mode: { value: "dry-run", source: "rule", rule: "r1" },
      rules: [{ ...rule(), state: "applied", appliedAt: at("12:30:40.000") }],
    } as const;
    const enforced = { ...point("api", { allowed: 40, denied: 60 }), at: at("12:29:00.000") };
    const mixed = { ...point("api", { allowed: 9, denied: 5, "dry-run-denied": 7 }) };
    const minutes = [enforced, { ...mixed, at: at("12:30:00.000") }];
    const textOf = (counted: typeof minutes, to: string): string =>
      modeDecisionsText({ points: counted, from: at("11:31:00.000"), to }, dryRun);

    it("the share of dry-run denials is computed from the requests since the first whole minute of the dry run", () => {
      const whole = { ...point("api", { allowed: 43, "dry-run-denied": 57 }) };
      const time = new Date(at("12:31:00.000")).toLocaleTimeString("en-GB");
      expect(textOf([...minutes, { ...whole, at: at("12:31:00.000") }], at("12:32:10.000"))).toBe(
        `100 requests since ${time}, 57 (57 %) would have been denied.`,
      );
    });

    it("before the first whole minute of a dry run, its denials are shown as a number without a share", () => {
      const [began, whole] = ["12:30:00", "12:31:00"].map((time) =>
        new Date(at(`${time}.000`)).toLocaleTimeString("en-GB"),
      );
      expect(textOf(minutes, at("12:31:00.000"))).toBe(
        `7 requests would have been denied since ${began}. Their share is counted from ${whole}.`,
      );
    });
  });
});
