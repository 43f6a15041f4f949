/**
 * The view "Keys" without a browser: limits of boosts, the rule that a change creates or replaces, and sentences about
 * effects.
 */
import { describe, expect, it } from "vitest";
import type { ExplainedStep, Explanation, FullLimit, RuleView } from "../../../../src/admin/wire.ts";
import {
  afterBoost,
  extension,
  laterRule,
  limitsWithoutRules,
  obstacles,
  replacedRule,
  replacementNotes,
  scaledLimits,
  writtenLimit,
} from "../../../../src/console/app/keys/rules.ts";
import { labelOf, partsOfLabel, soughtKey } from "../../../../src/console/app/keys/known-keys.ts";
import { ruleText } from "../../../../src/console/app/parts/rule-text.ts";
import { isResultOf, planOf, type RulePlan, undoStep } from "../../../../src/console/app/api/rules.ts";
import { compiledLimit, parseLimits } from "../../../../src/strategies/index.ts";

/** Limits as the admin API returns them. */
const answered = (limits: Parameters<typeof parseLimits>[0]): FullLimit[] =>
  JSON.parse(JSON.stringify(parseLimits(limits, { policy: "api" })));

const everyStrategy = [
  "5/10s",
  { limit: 7, window: "90s", strategy: "sliding-log" },
  { limit: 7, window: "1h", strategy: "sliding-window-counter", align: "clock" },
  { limit: 7, window: "2m", strategy: "sliding-buckets", precision: "30s", edge: "drop" },
  { limit: 7, window: "3m", strategy: "sliding-buckets", buckets: 9 },
  { limit: 7, window: "1s", strategy: "token-bucket", burst: 20, refill: "interval" },
  { limit: 7, window: "1500ms", strategy: "leaky-bucket", mode: "police", burst: 3 },
  { limit: 7, window: "2d", strategy: "fixed-window", elastic: true },
  { limit: 7, window: "day", strategy: "fixed-window", align: "calendar", name: "daily" },
  { limit: 9, window: "month", timezone: "Europe/Berlin" },
  { limit: 3, window: "30s", strategy: "concurrency" },
];

describe("limits of a boost", () => {
  it("writing and reading a limit of any strategy gives the same limit", () => {
    const limits = answered(everyStrategy);
    const again = limits.map((limit) => writtenLimit(limit, "api"));
    expect(answered(again as never)).toEqual(limits);
  });

  it.each([2, 10])("multiplying limits and bursts by %i keeps the counters of every strategy", (factor) => {
    const limits = answered(everyStrategy);
    const scaled = scaledLimits(limits, factor, true);
    const written = parseLimits(scaled.map((each) => writtenLimit(each, "api")) as never, {
      policy: "api",
    });
    const identities = (list: readonly object[]): string[] => list.map((each) => compiledLimit(each as never).identity);
    expect(identities(written)).toEqual(identities(limits));
    expect(written.map(({ limit }) => limit)).toEqual(limits.map(({ limit }) => limit * factor));
    const bursts = written.map((each) => Reflect.get(each, "burst"));
    expect(bursts).toEqual(limits.map(({ burst }) => (burst === undefined ? burst : burst * factor)));
  });

  it("a boost keeps the number of concurrency slots unless the operator chooses otherwise", () => {
    const limits = answered(["5/10s", { limit: 3, window: "30s", strategy: "concurrency" }]);
    const units = (scalesSlots: boolean): number[] => scaledLimits(limits, 5, scalesSlots).map(({ limit }) => limit);
    expect(units(false)).toEqual([25, 3]);
    expect(units(true)).toEqual([25, 15]);
  });

  it("a boosted limit never exceeds the greatest number of units", () => {
    const limits = scaledLimits(
      answered({ limit: 500_000_000_000_000, window: "1h", strategy: "fixed-window" }),
      10,
      false,
    );
    expect(limits[0]?.limit).toBe(999_999_999_999_999);
    expect(answered(limits.map((limit) => writtenLimit(limit, "api")) as never)).toHaveLength(1);
  });

  it("only limits with windows longer than a boost still count, after the boost, what was spent during it", () => {
    const limits = answered(["5/10s", "100/day", "5000/month"]);
    expect(afterBoost(limits, 600_000)).toEqual([
      "What the key spends meanwhile counts afterwards, too: against 100 per day and 5,000 per calendar month. It may then be denied until that window has passed.",
    ]);
    expect(afterBoost(limits, null)).toEqual([]);
    expect(afterBoost(answered("5/10s"), 600_000)).toEqual([]);
  });
});

const at = (instantMs: number): string => new Date(instantMs).toISOString();

const ruleOf = (changed: Partial<RuleView>): RuleView => ({
  id: "r1",
  policy: "api",
  scope: "key",
  kind: "limits",
  keyId: "k",
  limits: "50/10s",
  startsAt: at(0),
  expiresAt: at(600_000),
  note: null,
  actor: "alice",
  revision: 1,
  state: "applied",
  appliedAt: at(1),
  ...changed,
});

describe("the rule that a change makes or replaces", () => {
  const key = { policy: "api", id: "k" };

  it("a change creates a new rule when the key has no rule of this kind", () => {
    const replaced = replacedRule([ruleOf({ kind: "block" })], "limits", 600_000);
    const content = { kind: "limits", limits: "9/1s", for: "10m" } as const;
    expect(planOf(key, content, replaced)).toEqual({
      kind: "create",
      rule: { ...key, ...content },
    });
  });

  it.each([
    ["ends sooner than the new one", at(300_000), 600_000],
    ["ends with the new one", at(600_000), 600_000],
    ["has an end, and the new one has none", at(600_000), null],
    ["has no end, and the new one has none", null, null],
  ])("a boost replaces existing limits when their rule %s", (_, expiresAt, endMs) => {
    const rule = ruleOf({ expiresAt });
    expect(replacedRule([rule], "limits", endMs)).toBe(rule);
  });

  it("existing limits that end after a boost are not replaced, and take effect again after the boost", () => {
    const lasting = ruleOf({ expiresAt: null, limits: "20/10s" });
    expect(replacedRule([lasting], "limits", 600_000)).toBeNull();
    expect(laterRule([lasting], null, 600_000, ["limits"])).toBe(lasting);
    expect(laterRule([ruleOf({})], null, 600_000, ["limits"])).toBeNull();
  });

  it("when a key has two boosts, a change replaces the newer one, and the older one takes effect later", () => {
    const older = ruleOf({ id: "r1", expiresAt: null });
    const newer = ruleOf({ id: "r2" });
    const replaced = replacedRule([newer, older], "limits", 900_000);
    expect(replaced).toBe(newer);
    expect(laterRule([newer, older], replaced, 900_000, ["limits"])).toBe(older);
  });

  it("when a rule ends, the first of the remaining rules in the order of precedence decides", () => {
    const limits = ruleOf({ id: "r3", expiresAt: null });
    const allow = ruleOf({ id: "r2", kind: "allow" });
    const block = ruleOf({ id: "r1", kind: "block" });
    const rules = [limits, allow, block];
    expect(laterRule(rules, null, 0)).toBe(block);
    expect(laterRule(rules, block, 0)).toBe(allow);
    expect(laterRule(rules, block, 600_000)).toBe(limits);
    expect(laterRule([block], block, 0)).toBeNull();
  });

  it("a new block replaces an existing block even if that one lasts longer, and never replaces an orphan rule", () => {
    const block = ruleOf({ kind: "block", expiresAt: null });
    expect(replacedRule([block], "block", 600_000)).toBe(block);
    expect(replacedRule([{ ...block, state: "orphan" }], "block", 600_000)).toBeNull();
  });

  it("changing the end of a rule keeps its content and its note, unless a note is given", () => {
    const rule = ruleOf({ strategy: "sliding-log", note: "import" });
    expect(extension(rule, { for: "1h" })).toEqual({
      kind: "replace",
      before: rule,
      content: {
        kind: "limits",
        limits: "50/10s",
        strategy: "sliding-log",
        for: "1h",
        note: "import",
      },
    });
    expect(extension(rule, { note: "forever" })).toMatchObject({ content: { note: "forever" } });
  });

  it("the result of a replacement whose response was lost is recognized by its revision and its content", () => {
    const before = ruleOf({});
    const plan = extension(before, { for: "1h" }) as Extract<RulePlan, { kind: "replace" }>;
    const isResult = (rule: RuleView): boolean => isResultOf(before, plan.content, rule);
    const result = ruleOf({ revision: 2, expiresAt: at(3_600_000) });
    expect(isResult(result)).toBe(true);
    expect(isResult({ ...result, limits: "51/10s" })).toBe(false);
    expect(isResult({ ...result, revision: 3 })).toBe(false);
    expect(isResult({ ...result, expiresAt: null })).toBe(false);
    expect(isResult(before)).toBe(false);
  });

  it("undoing the replacement of a boost restores the old boost for its remaining time, or only removes the new one if no time remains", () => {
    const before = ruleOf({});
    const after = ruleOf({ revision: 2, limits: "100/10s", expiresAt: at(900_000) });
    expect(undoStep({ before, after }, 599_999)).toEqual({ before: after, after: before });
    expect(undoStep({ before, after }, 600_000)).toEqual({ before: after, after: null });
  });
});

/** In the order of precedence. */
const stepNames: readonly ExplainedStep["step"][] = [
  "mode",
  "policy-rule-deny",
  "policy-rule-allow",
  "configured-deny",
  "configured-allow",
  "missing-key",
  "ban",
  "key-rule-block",
  "key-rule-allow",
  "key-rule-limits",
  "policy-rule-overrides",
  "configured-overrides",
  "policy-rule-limits",
  "configured-limits",
];

const explained = (changed: Partial<Explanation> = {}, matching: readonly string[] = []) =>
  ({
    mode: "enforce",
    bannedForMs: 0,
    steps: stepNames.map((step) => ({
      step,
      matches: step === "configured-limits" || matching.includes(step),
      rule: null,
      entry: null,
      decides: false,
    })),
    limitsWithoutKeyRules: answered("5/10s"),
    lines: { limitsWithoutKeyRulesFrom: "the configuration" },
    ...changed,
  }) as Explanation;

describe("sentences about effects", () => {
  it("the limits that apply without rules of the key are named with their source", () => {
    expect(limitsWithoutRules(explained())).toBe("5 per 10 s, from the configuration");
  });

  it("several limits are listed together", () => {
    const limits = answered(["5/10s", "1000/month", { limit: 3, window: "1m", strategy: "concurrency" }]);
    expect(limitsWithoutRules(explained({ limitsWithoutKeyRules: limits }))).toBe(
      "5 per 10 s and 1,000 per calendar month and 3 at once, from the configuration",
    );
  });

  it.each([
    ["limits", "mode", /policy is off/],
    ["limits", "policy-rule-deny", /deny list comes first, and still denies/],
    ["limits", "configured-allow", /allow list comes first, and still allows/],
    ["limits", "missing-key", /onMissingKey/],
    ["limits", "ban", /banned for 42 s more/],
    ["limits", "key-rule-block", /A rule blocks this key/],
    ["limits", "key-rule-allow", /allows this key without charge/],
    ["allow", "key-rule-block", /A rule blocks this key/],
    ["block", "configured-allow", /still allows/],
  ] as const)("a rule of the kind %s has no effect while the step %s matches", (kind, step, text) => {
    const [first = ""] = obstacles(kind, explained({ bannedForMs: 42_000 }, [step]));
    expect(first).toMatch(text);
  });

  it.each(["block", "allow", "limits"] as const)(
    "a rule of the kind %s decides when only later steps match",
    (kind) => {
      expect(obstacles(kind, explained({}, ["policy-rule-overrides"]))).toEqual([]);
    },
  );

  it("the form for a block warns that a dry run denies nothing, and the form for limits that unknown entries may decide first", () => {
    expect(obstacles("block", explained({ mode: "dry-run" })).join()).toMatch(/dry run/);
    expect(obstacles("allow", explained({ mode: "dry-run" }))).toEqual([]);
    const steps = explained().steps.map((step) => ({
      ...step,
      matches: step.step === "configured-deny" ? null : step.matches,
    }));
    expect(obstacles("limits", explained({ steps })).join()).toMatch(/not known/);
  });

  it("rules are described by their effect, and a replaced rule also by its author", () => {
    expect(ruleText(ruleOf({ limits: "50/10s; 5/s" }))).toBe("limits 50/10s; 5/s");
    const limits = [
      { limit: 50, window: "10s", strategy: "token-bucket", burst: 60 },
      { limit: 3, window: "1m" },
    ];
    expect(ruleText(ruleOf({ limits }))).toBe("limits 50/10s, token-bucket, burst 60; 3/1m");
    expect(replacementNotes(null)).toEqual([]);
    expect(replacementNotes(ruleOf({ expiresAt: null }))).toEqual([
      "This replaces the rule of alice: limits 50/10s, without an end.",
    ]);
  });
});

describe("plain keys as text", () => {
  it.each([
    [["ip"], ["192.0.2.1"]],
    [
      ["ip", "header:x-user"],
      ["192.0.2.1", "a, b=c"],
    ],
    [
      ["header:x-user", "path"],
      [null, "/a"],
    ],
    [
      ["global", "ip"],
      [null, "2001:db8::1"],
    ],
  ])("for a policy with the key parts %j, the values %j can be read from the label of a key", (parts, key) => {
    expect(partsOfLabel(labelOf(parts, { key }), parts)).toEqual(key);
  });

  it.each(["header:x-api-key=…abcd", "tenant=a, ip=192.0.2.1", "ip=192.0.2.1"])(
    "no key parts are read from the label %s, which does not show the key of the policy",
    (label) => {
      expect(partsOfLabel(label, ["header:x-api-key"])).toBeNull();
    },
  );

  describe("the key that an operator types", () => {
    const typed = { key: [""], id: "", tenant: "", attributes: "" };

    it("key parts are trimmed, and an empty part is reported as missing", () => {
      const key = [" 198.51.100.23 ", " "];
      expect(soughtKey({ ...typed, key }, ["ip", "path"])).toEqual({
        key: ["198.51.100.23", null],
      });
      expect(soughtKey({ ...typed, id: " a1 " }, ["ip"])).toEqual({ id: "a1" });
      expect(soughtKey(typed, ["global"])).toEqual({});
    });

    it("input that names no key, or both a key and an id, is refused", () => {
      expect(() => soughtKey({ ...typed, key: [" "] }, ["ip"])).toThrow("Expected a value of ip");
      const both = { ...typed, key: ["192.0.2.1"], id: "a1" };
      expect(() => soughtKey(both, ["ip"])).toThrow("got both");
      expect(() => soughtKey({ ...typed, tenant: "t", id: "a1" }, ["ip"])).toThrow("got both");
    });

    it("attributes are read one per line, and a line without a value is refused", () => {
      const withAttributes = (attributes: string): unknown => soughtKey({ ...typed, attributes }, ["global"]);
      expect(withAttributes(" country = DE\n\njwt:plan=pro=1 ")).toEqual({
        attributes: { country: "DE", "jwt:plan": "pro=1" },
      });
      expect(() => withAttributes("country DE")).toThrow("got country DE");
    });
  });
});
