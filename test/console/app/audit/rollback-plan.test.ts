/** The preview of a rollback and the undo of single entries, compared with a naive replay of the history. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AuditedRule, AuditEntryView } from "../../../../src/admin/wire.ts";
import { hasEnded, isSameRule, type RuleChange, ruleIn } from "../../../../src/console/app/api/rules.ts";
import { concernedBy, History as AuditHistory, rollbackPlan } from "../../../../src/console/app/audit/history.ts";
import { forAll } from "../../../for-all.ts";
import { entry, rule, startMs } from "../audit-entries.ts";

type Rules = ReadonlyMap<string, AuditedRule>;

interface History {
  /** The newest entry first. */
  readonly entries: readonly AuditEntryView[];
  /** The rules after each entry. The first element has the rules before all entries. */
  readonly states: readonly Rules[];
}

const undoOption = (own: AuditEntryView, entries: readonly AuditEntryView[], now: number) =>
  new AuditHistory(entries).undoOption(own, now);

/** Few ids and contents, so that rules change often and also return to an earlier content. */
const step = fc.record({
  id: fc.constantFrom("a", "b", "c"),
  isDeleted: fc.boolean(),
  mode: fc.constantFrom("enforce", "dry-run", "off"),
  endsAfterMs: fc.constantFrom(null, 1_000, 60_000),
});

function historyOf(steps: readonly { [Name in keyof StepOf]: StepOf[Name] }[]): History {
  const entries: AuditEntryView[] = [];
  const states: Rules[] = [new Map()];
  for (const { id, isDeleted, mode, endsAfterMs } of steps) {
    const rules = new Map(states.at(-1));
    const before = rules.get(id) ?? null;
    if (isDeleted && before === null) continue;
    const expiresAt = endsAfterMs === null ? null : new Date(startMs + endsAfterMs).toISOString();
    const revision = (before?.revision ?? 0) + 1;
    const after = isDeleted ? null : rule({ id, mode, expiresAt, revision });
    if (after === null) rules.delete(id);
    else rules.set(id, after);
    entries.unshift(entry({ seq: entries.length + 1, action: "create", before, after }));
    states.push(rules);
  }
  return { entries, states };
}
type StepOf = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

const history = fc.array(step, { minLength: 1, maxLength: 12 }).map(historyOf);
const nowMs = fc.constantFrom(startMs, startMs + 1_000, startMs + 30_000, startMs + 90_000);

const live = (rules: Rules, now: number): AuditedRule[] => [...rules.values()].filter((each) => !hasEnded(each, now));

/**
 * The rules after steps. Each step restores the content that it names.
 * @throws Error when a step does not fit the present rules
 */
function applied(rules: readonly AuditedRule[], steps: readonly RuleChange[]): AuditedRule[] {
  const result = new Map(rules.map((each) => [each.id, each]));
  for (const { before, after } of steps) {
    const id = ruleIn({ before, after })?.id ?? "";
    if ((result.get(id) ?? null) !== before) throw new Error(`expected ${id} as the step has it`);
    if (after === null) result.delete(id);
    else result.set(id, after);
  }
  return [...result.values()];
}

/** The effects of rules, regardless of their revisions. */
const effects = (rules: readonly AuditedRule[]): string[] =>
  rules.map(({ id, mode, expiresAt }) => `${id} ${mode ?? ""} ${expiresAt ?? ""}`).toSorted();

describe("the preview of a rollback", () => {
  it(
    "a rollback leads from the present rules to those after the entry, except for rules that have ended",
    forAll([history, fc.nat(12), nowMs], ({ entries, states }, offset, now) => {
      const to = offset % states.length;
      const present = live(states.at(-1) ?? new Map(), now);
      const { steps, ended } = rollbackPlan(entries, to, now);
      const target = states[to] ?? new Map();
      expect(effects(applied(present, steps))).toEqual(effects(live(target, now)));
      // Only rules that existed at the target and have since changed are listed as ended.
      for (const each of ended) expect(target.get(each.id)).toEqual(each);
    }),
  );

  it(
    "a rollback has no step for an unchanged rule",
    forAll([history, fc.nat(12), nowMs], ({ entries, states }, offset, now) => {
      const { steps } = rollbackPlan(entries, offset % states.length, now);
      const idle = steps.filter(({ before, after }) => isSameRule(before, after));
      expect(idle).toEqual([]);
    }),
  );

  it("a rollback ignores resets and reveals, which change no rule", () => {
    const made = entry({ seq: 1, after: rule() });
    const reset = entry({ seq: 2, action: "reset", policy: "api", keyId: "k" });
    expect(rollbackPlan([reset, made], 1, startMs)).toEqual({ steps: [], ended: [] });
    expect(rollbackPlan([reset, made], 0, startMs).steps).toEqual([{ before: rule(), after: null }]);
  });

  it("a rollback names the policies and counts the keys that it affects", () => {
    const key = rule({ id: "r2", policy: "login", scope: "key", kind: "block", keyId: "k1" });
    const steps = [rule(), key, { ...key, id: "r3" }].map((each) => ({
      before: each,
      after: null,
    }));
    expect(concernedBy(steps.slice(0, 1))).toBe("policy api");
    expect(concernedBy(steps)).toBe("policies api, login, with rules of 1 key");
  });
});

describe("the undo of one entry", () => {
  it(
    "an undo restores the previous rule, or is refused because the rule changed again",
    forAll([history, nowMs], ({ entries, states }, now) => {
      const present = live(states.at(-1) ?? new Map(), now);
      for (const each of entries) {
        const option = undoOption(each, entries, now);
        const isLast = !entries.some(({ rule: id, seq }) => id === each.rule && seq > each.seq);
        if (!("step" in option)) continue;
        expect(isLast).toBe(true);
        const others = present.filter(({ id }) => id !== each.rule);
        const { before } = each;
        const former = before === null || hasEnded(before, now) ? [] : [before];
        expect(effects(applied(present, [option.step]))).toEqual(effects([...others, ...former]));
      }
    }),
  );

  const made = rule({ revision: 1 });
  const changed = rule({ mode: "off", revision: 2 });
  it.each([
    ["a new rule is removed", { after: made }, { before: made, after: null }],
    ["a removed rule is restored", { before: made }, { before: null, after: made }],
    ["a changed rule gets its former content", { before: made, after: changed }, { before: changed, after: made }],
    [
      "a changed rule is removed if its former version would have ended",
      { before: rule({ expiresAt: "2026-11-22T12:00:00.000Z" }), after: changed },
      { before: changed, after: null },
    ],
  ])("%s", (_, change, expected) => {
    const own = entry({ seq: 1, ...change });
    expect(undoOption(own, [own], startMs)).toEqual({ step: expected });
  });

  it.each([
    ["a reset", { action: "reset" as const }, /usage/],
    ["a reveal", { action: "reveal" as const }, /seen the key/],
    ["the end of a rule", { action: "expire" as const, before: made }, /reached its end/],
    [
      "the removal of a rule that would have ended",
      { action: "delete" as const, before: rule({ expiresAt: "2026-11-22T12:00:00.000Z" }) },
      /would have ended/,
    ],
  ])("an entry for %s cannot be undone, and the reason is stated", (_, change, reason) => {
    const own = entry({ seq: 1, ...change });
    expect(undoOption(own, [own], startMs)).toEqual({ obstacle: expect.stringMatching(reason) });
  });

  it("a change that was followed by another change of the same rule cannot be undone alone", () => {
    const [first, second] = [
      entry({ seq: 1, after: made }),
      entry({ seq: 2, action: "replace", before: made, after: changed }),
    ];
    expect(undoOption(first, [second, first], startMs)).toEqual({
      obstacle: "entry 2 changed the rule again",
    });
  });

  it("the entry of an undone change names the entry that undid it", () => {
    const first = entry({ seq: 1, after: made });
    const undo = entry({ seq: 2, action: "delete", before: made });
    expect(undoOption(first, [undo, first], startMs)).toEqual({ obstacle: "entry 2 undid it" });
  });

  it("a removed rule can be restored once for each removal", () => {
    const removed = entry({ seq: 1, action: "delete", before: made });
    const copy = { ...made, id: "r2" };
    const again = entry({ seq: 2, after: copy });
    expect(undoOption(removed, [again, removed], startMs)).toEqual({
      obstacle: "entry 2 undid it",
    });
    const removedAgain = entry({ seq: 3, action: "delete", before: copy });
    const all = [removedAgain, again, removed];
    expect(undoOption(removed, all, startMs)).toEqual({ step: { before: null, after: made } });
  });
});
