/** Laws of key rules, on random sequences of rules, requests and restarts. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import type { Charge, KeyRule } from "../../../src/limiter/protocol.ts";
import { parseLimits } from "../../../src/strategies/index.ts";
import { call, charge } from "../../fakes/calls.ts";
import { startMs } from "../../fakes/isolate.ts";
import { TestObject } from "../../fakes/test-object.ts";
import { forAllCounted } from "../../for-all.ts";

const baseLimit = 10;
const windowMs = 60_000;

interface DrawnRule {
  readonly kind: KeyRule["kind"];
  readonly limit: number;
  /** How long the rule lasts; null without an expiry. */
  readonly lastsMs: number | null;
}

type Step =
  | { readonly act: "check"; readonly cost: number; readonly otherCost: number }
  | { readonly act: "rules"; readonly rules: readonly DrawnRule[]; readonly version: number }
  | { readonly act: "pass"; readonly ms: number }
  | { readonly act: "evict" };

const lasting = fc.oneof(fc.constant(null), fc.constantFrom(1, 10_000, 59_999, 60_000, 90_000));
const drawnRule: fc.Arbitrary<DrawnRule> = fc.record({
  kind: fc.constantFrom("limits", "limits", "allow", "block"),
  limit: fc.integer({ min: 1, max: 20 }),
  lastsMs: lasting,
});
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      act: fc.constant("check" as const),
      cost: fc.integer({ min: 1, max: 8 }),
      otherCost: fc.integer({ min: 1, max: 3 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      act: fc.constant("rules" as const),
      rules: fc.array(drawnRule, { maxLength: 4 }),
      version: fc.integer({ min: 1, max: 6 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      act: fc.constant("pass" as const),
      ms: fc.constantFrom(1, 9_999, 10_000, 30_000, 60_000),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ act: "evict" as const }) },
);

/** A naive reference: a list of spends for each policy, in fixed windows that open with the first spend. */
class Reference {
  nowMs = startMs;
  #rules: (DrawnRule & { readonly setAtMs: number })[] = [];
  #version = 0;
  readonly #windows = {
    p: { openedAtMs: -windowMs, used: 0 },
    q: { openedAtMs: -windowMs, used: 0 },
  };

  setRules(rules: readonly DrawnRule[], version: number): void {
    if (version < this.#version) return;
    this.#version = version;
    this.#rules = rules.map((rule) => ({ ...rule, setAtMs: this.nowMs }));
  }

  get live(): readonly DrawnRule[] {
    return this.#rules.filter(({ setAtMs, lastsMs }) => lastsMs === null || this.nowMs < setAtMs + lastsMs);
  }

  /** Whether both policies allow the request, and which step decides the policy `p`. */
  check(cost: number, otherCost: number): { isAllowed: boolean; step: KeyRule["kind"] } {
    const has = (kind: KeyRule["kind"]) => this.live.find((rule) => rule.kind === kind);
    if (has("block") !== undefined) return { isAllowed: false, step: "block" };
    const isExempt = has("allow") !== undefined;
    const [p, q] = [this.#opened("p"), this.#opened("q")];
    const fits = isExempt || p.used + cost <= (has("limits")?.limit ?? baseLimit);
    const isAllowed = fits && q.used + otherCost <= baseLimit;
    if (isAllowed) {
      if (!isExempt) this.#spend("p", cost);
      this.#spend("q", otherCost);
    }
    return { isAllowed, step: isExempt ? "allow" : "limits" };
  }

  #opened(policy: "p" | "q"): { openedAtMs: number; used: number } {
    const window = this.#windows[policy];
    return this.nowMs < window.openedAtMs + windowMs ? window : { openedAtMs: this.nowMs, used: 0 };
  }

  #spend(policy: "p" | "q", cost: number): void {
    const window = this.#opened(policy);
    this.#windows[policy] = { ...window, used: window.used + cost };
  }
}

const limitsOf = (limit: number) => parseLimits(`${limit}/minute`, { policy: "p", strategy: "fixed-window" });

const rulesFrom = (drawn: readonly DrawnRule[], nowMs: number): KeyRule[] =>
  drawn.map(({ kind, limit, lastsMs }, index) => ({
    id: `r${index}`,
    ...(lastsMs !== null && { expiresAtMs: nowMs + lastsMs }),
    ...(kind === "limits" ? { kind, limits: limitsOf(limit) } : { kind }),
  }));

let decided = { block: 0, allow: 0, limits: 0, denied: 0 };

test("every sequence of rules, requests and restarts is decided as a naive reference decides it", async () => {
  decided = { block: 0, allow: 0, limits: 0, denied: 0 };
  await forAllCounted(
    [fc.array(step, { minLength: 5, maxLength: 40 })],
    async (steps) => {
      const object = new TestObject();
      const reference = new Reference();
      const results: [actual: boolean, expected: boolean][] = [];
      for (const each of steps) {
        if (each.act === "rules") {
          object.limiter.setRules("k", "p", rulesFrom(each.rules, object.nowMs), {
            epoch: 1,
            version: each.version,
          });
          reference.setRules(each.rules, each.version);
        } else if (each.act === "pass") {
          object.advance(each.ms);
          reference.nowMs = object.nowMs;
        } else if (each.act === "evict") {
          // oxlint-disable-next-line no-await-in-loop
          await object.evict();
        } else {
          const charges: Charge[] = [charge("10/minute", each.cost), charge("10/minute", each.otherCost, "q")];
          const { decisions } = object.limiter.check(call(charges));
          const expected = reference.check(each.cost, each.otherCost);
          results.push([decisions.every(({ allowed }) => allowed), expected.isAllowed]);
          decided[expected.step]++;
          if (!expected.isAllowed) decided.denied++;
        }
      }
      expect(results.map(([actual]) => actual)).toEqual(results.map(([, expected]) => expected));
    },
    200,
  )();
  for (const count of Object.values(decided)) expect(count).toBeGreaterThan(20);
});

test("the wait of a denial is exact even if rules expire before its end", async () => {
  let checked = 0;
  await forAllCounted(
    [
      fc.array(drawnRule, { minLength: 1, maxLength: 4 }),
      fc.array(fc.integer({ min: 1, max: 10 }), { minLength: 1, maxLength: 8 }),
      fc.constantFrom("fixed-window", "sliding-log", "token-bucket", "sliding-window-counter"),
      fc.integer({ min: 1, max: 20 }),
    ],
    (drawn, costs, strategy, cost) => {
      const object = new TestObject();
      const base = (units: number) => charge("10/minute", units, "p", strategy);
      const rules = rulesFrom(drawn, startMs).map((rule) =>
        rule.kind === "limits"
          ? {
              ...rule,
              limits: parseLimits(`${rule.limits[0]?.limit}/minute`, { policy: "p", strategy }),
            }
          : rule,
      );
      for (const units of costs) {
        object.limiter.check(call(base(units)));
        object.advance(700);
      }
      object.limiter.setRules("k", "p", rules, { epoch: 1, version: 1 });
      const [denial] = object.limiter.check(call(base(cost))).decisions;
      fc.pre(denial?.allowed === false);
      const wait = denial?.retryAfterMs ?? null;
      const deniedAtMs = object.nowMs;
      const isAllowedAfter = (ms: number): boolean => {
        object.nowMs = deniedAtMs + ms;
        return object.limiter.look(call(base(cost))).decisions[0]?.allowed === true;
      };
      const results =
        wait === null ? [false, isAllowedAfter(3_600_000)] : [isAllowedAfter(wait - 1), isAllowedAfter(wait)];
      expect(results).toEqual([false, wait !== null]);
      checked++;
    },
    200,
  )();
  expect(checked).toBeGreaterThanOrEqual(200);
});

test("a charge is stale if and only if the object has seen a newer version with a different text", async () => {
  const version = fc.record({ epoch: fc.integer({ min: 1, max: 2 }), version: fc.nat({ max: 4 }) });
  let stale = 0;
  await forAllCounted(
    [
      fc.array(fc.record({ version, key: fc.constantFrom("k1", "k2"), crashes: fc.boolean() }), {
        minLength: 3,
        maxLength: 20,
      }),
    ],
    (calls) => {
      const object = new TestObject();
      // Each key has stored state. Then the newer version of any decided call is confirmed in the key's row.
      for (const key of ["k1", "k2"]) {
        object.limiter.check({ ...call(charge("100000/hour"), key), durability: "confirmed" });
      }
      const seen: Record<string, number> = { k1: 0, k2: 0 };
      const orderOf = (each: { epoch: number; version: number }) => each.epoch * 10 + each.version;
      let highestInMemory = 0;
      for (const { version: each, key, crashes } of calls) {
        if (crashes) {
          object.crash();
          highestInMemory = 0;
        }
        const rules = { ...each, text: `[${each.epoch},${each.version}]` };
        const charges = [{ ...charge("100000/hour"), rules }];
        const reply = object.limiter.check({ key, charges });
        highestInMemory = Math.max(highestInMemory, seen[key] ?? 0);
        const isStale = orderOf(each) < highestInMemory;
        expect(reply.stale !== undefined).toBe(isStale);
        if (isStale) stale++;
        else {
          highestInMemory = orderOf(each);
          seen[key] = orderOf(each);
        }
      }
    },
  )();
  expect(stale).toBeGreaterThan(50);
});
