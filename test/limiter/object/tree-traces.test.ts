/** Drawn traces on trees of one to four levels, which an object and the reference decide alike. */
import { deepStrictEqual } from "node:assert";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import type { Charge, CheckReply, KeyRule, RefundCall } from "../../../src/limiter/protocol.ts";
import { type LimitInput, parseLimits } from "../../../src/strategies/index.ts";
import { VirtualObject } from "../../fakes/virtual-object.ts";
import { MemoryStorage } from "../../../src/sdk/testing/memory-storage.ts";
import { startMs } from "../../fakes/isolate.ts";
import { forAll } from "../../for-all.ts";
import { type Decided, type Reply, TreeReference } from "./tree-reference.ts";

interface DrawnLevel {
  readonly limit: number;
  readonly windowMs: number;
  readonly strategy: string;
  readonly hasLongLimit: boolean;
  readonly mode: "enforced" | "dry-run" | "banning";
  /** The guarantee of each key in the first limit of its parent; null for none. A limit with fewer units is not shared. */
  readonly guaranteed: number | "fair" | null;
}

interface Step {
  readonly kind:
    | "check"
    | "look"
    | "reserve"
    | "settle"
    | "renew"
    | "refund"
    | "forget"
    | "exempt"
    | "pass"
    | "restart";
  /** The child at each level below the root, as far as the request goes. */
  readonly path: readonly number[];
  /** One for each level, repeated as needed. */
  readonly costs: readonly number[];
  /** The level that the request leaves out; none if it is not in the path. */
  readonly skipped: number;
  readonly isProvisional: boolean;
  /** The part of each limit in percent that the class of the request may use, by level, repeated as needed. */
  readonly upTo: readonly number[];
  readonly weight: number;
  /** Which of the earlier spends or reservations is meant. */
  readonly pick: number;
  readonly ms: number;
}

// Longer than the ten seconds for which an idle object stays in memory: otherwise a restart loses spends on purpose.
const windowsMs = [30_000, 60_000, 600_000];

const level = fc.record<DrawnLevel>({
  limit: fc.integer({ min: 1, max: 12 }),
  windowMs: fc.constantFrom(...windowsMs),
  strategy: fc.constantFrom("sliding-log", "fixed-window"),
  hasLongLimit: fc.boolean(),
  mode: fc.constantFrom("enforced", "enforced", "enforced", "dry-run", "banning"),
  guaranteed: fc.constantFrom<(number | "fair" | null)[]>(null, "fair", 1, 2, 4),
});

const steps = fc.array(
  fc.record<Step>({
    kind: fc.constantFrom(
      ...(["check", "check", "check", "look", "reserve", "reserve", "settle", "settle", "renew", "refund"] as const),
      ...(["forget", "exempt", "pass", "pass", "pass", "restart"] as const),
    ),
    path: fc.array(fc.integer({ min: 0, max: 1 }), { maxLength: 3 }),
    costs: fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 4 }),
    skipped: fc.integer({ min: 0, max: 12 }),
    isProvisional: fc.boolean(),
    upTo: fc.array(fc.constantFrom(100, 100, 100, 70), { minLength: 1, maxLength: 4 }),
    weight: fc.integer({ min: 1, max: 3 }),
    pick: fc.nat({ max: 1_000 }),
    ms: fc.constantFrom(1, 50, 999, 5_000, 29_999, 30_000, 60_000),
  }),
  { minLength: 10, maxLength: 80 },
);

const root = "root";
const provisionalMs = 1_000;
const ttlMs = 20_000;
const allow: KeyRule = { id: "rule", kind: "allow" };
const ban = {
  strikes: parseLimits({ limit: 2, window: "1m", strategy: "sliding-log" }),
  term: parseLimits({ limit: 1, window: "45s", strategy: "fixed-window" }),
};

/** The charge of a level without its key and cost. */
function policyOf(
  { limit, windowMs, strategy, hasLongLimit, mode, guaranteed }: DrawnLevel,
  index: number,
  drawn: readonly DrawnLevel[],
) {
  const long: LimitInput = { limit: 2 * limit, window: "1h", strategy: "sliding-log" };
  const aligned = strategy === "fixed-window" ? { align: "clock" } : {};
  const first: LimitInput = { limit, window: `${windowMs}ms`, strategy, ...aligned };
  const inputs = hasLongLimit ? [first, long] : [first];
  const policy = `level-${index}`;
  return {
    policy,
    limits: parseLimits(inputs, { policy }),
    ...(mode === "dry-run" && { isDryRun: true }),
    ...(mode === "banning" && { ban }),
    ...(index > 0 &&
      guaranteed !== null &&
      (guaranteed === "fair" || guaranteed <= (drawn[index - 1]?.limit ?? 0)) && {
        share: { parent: `level-${index - 1}`, limit: 0, guaranteed, weight: 1 },
      }),
  };
}

/** An object and the reference, to which each step is applied. */
class Trace {
  readonly #object = new VirtualObject(new MemoryStorage(), startMs);
  readonly #reference = new TreeReference();
  readonly #policies: readonly Omit<Charge, "cost">[];
  readonly #isBanning: readonly boolean[];
  readonly #ids: string[] = [];
  /** The latest check that was allowed, until it is given back. */
  #spent: { readonly call: Omit<RefundCall, "key">; readonly atMs: number } | null = null;
  #version = 0;

  constructor(drawn: readonly DrawnLevel[]) {
    this.#policies = drawn.map(policyOf);
    this.#isBanning = drawn.map(({ mode }) => mode === "banning");
  }

  async apply(step: Step): Promise<void> {
    const { kind, ms } = step;
    if (kind === "pass") await this.#object.pass(ms);
    else if (kind === "restart") {
      await this.#object.evict();
      this.#reference.restart();
    } else this[kind](step);
  }

  get #nowMs(): number {
    return this.#object.nowMs;
  }

  #chargesOf({ path, costs, skipped, upTo, weight }: Step): Charge[] {
    const charges = this.#policies.slice(0, path.length + 1).map((policy, index): Charge => {
      const key = [root, ...path.slice(0, index)].join(" ");
      const percent = upTo[index % upTo.length] ?? 100;
      return {
        ...policy,
        cost: costs[index % costs.length] ?? 1,
        ...(key !== root && { key }),
        ...(percent < 100 && { upTo: percent }),
        ...(policy.share !== undefined && { share: { ...policy.share, weight } }),
      };
    });
    return charges.length === 1 ? charges : charges.filter((_, index) => index !== skipped);
  }

  protected check(step: Step): void {
    const charges = this.#chargesOf(step);
    const provisional = step.isProvisional ? { provisionalMs } : {};
    const reply = this.#object.limiter.check({ key: root, charges, ...provisional });
    const expected = this.#reference.check(root, charges, this.#nowMs, provisional.provisionalMs);
    compare(reply, expected);
    if (!charges.every(({ isDryRun }, index) => isDryRun === true || reply.decisions[index]?.allowed)) return;
    // A child that was not charged still names its part of what its parent spent.
    const spent = charges.map((charge, index) => {
      const isSpent = reply.decisions[index]?.allowed === true && reply.keyRules?.[index]?.kind !== "allow";
      return { ...charge, spentAtMs: isSpent ? (reply.spentAtMs[index] ?? 0) : 0 };
    });
    this.#spent = { call: { charges: spent, ...provisional }, atMs: this.#nowMs };
  }

  protected look(step: Step): void {
    const charges = this.#chargesOf(step);
    const { decisions } = this.#object.limiter.look({ key: root, charges });
    deepStrictEqual(decisions.map(compared), this.#reference.look(root, charges, this.#nowMs));
  }

  protected reserve(step: Step): void {
    const charges = this.#chargesOf(step);
    const id = `id-${this.#ids.length}`;
    const reply = this.#object.limiter.reserveTree({ key: root, charges, id, ttlMs });
    const expected = this.#reference.reserve(root, charges, id, ttlMs, this.#nowMs);
    compare(reply, expected);
    expect(reply.isOpen).toBe(expected.isOpen);
    this.#ids.push(id);
  }

  protected settle({ pick, costs, isProvisional: hasCosts }: Step): void {
    const id = this.#ids[pick % this.#ids.length] ?? "unknown";
    const costOf = (index: number): number => costs[hasCosts ? index % costs.length : 0] ?? 0;
    const ofLevels = hasCosts && { costs: [0, 1, 2, 3].map(costOf) };
    const { settled } = this.#object.limiter.settle({ key: root, id, cost: costOf(0), ...ofLevels });
    expect(settled).toBe(this.#reference.settle(id, costOf, this.#nowMs));
  }

  protected renew({ pick }: Step): void {
    const id = this.#ids[pick % this.#ids.length] ?? "unknown";
    const { isOpen } = this.#object.limiter.renew({ key: root, id });
    expect(isOpen).toBe(this.#reference.renew(id, this.#nowMs));
  }

  /** Gives back the latest check, if that is still possible. */
  protected refund(): void {
    if (this.#spent === null || this.#nowMs - this.#spent.atMs >= provisionalMs) return;
    this.#object.limiter.refundTree({ key: root, ...this.#spent.call });
    this.#reference.refund();
    this.#spent = null;
  }

  protected forget(step: Step): void {
    const { key = root, policy } = this.#chargesOf(step).at(-1) ?? { policy: "none" };
    // A refund would give back what was not spent since.
    this.#spent = null;
    this.#object.limiter.forget({ key, policy });
    this.#reference.forget(key, policy);
  }

  /** Sets or ends a rule that allows the key of a level. */
  protected exempt(step: Step): void {
    const { key = root, policy } = this.#chargesOf(step).at(-1) ?? { policy: "none" };
    if (this.#isBanning[this.#policies.findIndex((each) => each.policy === policy)] !== false) return;
    const isExempt = step.isProvisional;
    this.#object.limiter.setRules(key, policy, isExempt ? [allow] : [], { epoch: 1, version: ++this.#version });
    this.#reference.exempt(key, policy, isExempt);
  }
}

const compared = (decision: CheckReply["decisions"][number]): Decided => {
  const { allowed, limits, retryAfterMs, bannedForMs, reason = null } = decision;
  if (reason === "keys") throw new TypeError("expected room for all keys");
  return {
    allowed,
    remaining: limits.map(({ remaining }) => remaining),
    retryAfterMs,
    bannedForMs,
    reason,
  };
};

function compare({ decisions, isFirm = false, firmForMs = 1_000 }: CheckReply, expected: Reply): void {
  // Much faster than the matchers of vitest.
  deepStrictEqual(decisions.map(compared), expected.decisions);
  expect(expected.firmForMs).toContain(isFirm ? firmForMs : 0);
}

it.for([1, 2, 3, 4])(
  "an object decides, reserves, settles and gives back the charges of %i levels as a list of all spends does",
  (count) =>
    forAll(
      [fc.array(level, { minLength: count, maxLength: count }), steps],
      async (drawn, trace) => {
        const object = new Trace(drawn);
        // oxlint-disable-next-line no-await-in-loop
        for (const step of trace) await object.apply(step);
      },
      2_000,
      150,
    )(),
);
