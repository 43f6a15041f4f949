/**
 * A naive reference for stale calls to one object. Until the object crashes, no call is decided by older policy rules
 * than an earlier call of any key. After a crash, this still holds for each key whose row has state of the policy: for
 * calls whose writes were confirmed, and for all calls up to the last write that was kept.
 */
import type { PolicyRules, RulesVersion } from "../../../src/policy/runtime-rules.ts";
import type { Checks } from "./checks.ts";
import { type DecidedCall, isRefused, spentCharges } from "./decided-calls.ts";
import type { SimulatedObject } from "./key-objects.ts";
import { windowMs } from "./configuration.ts";

/**
 * The tolerance in which rounding may make the reference and the object differ. Within it, the reference requires
 * nothing.
 */
const marginMs = 1_000;

interface SeenRules extends PolicyRules {
  readonly turn: number;
  /** Whether the row of the key had state of the policy. Then the write of these rules must be confirmed. */
  readonly mustLast: boolean;
}

export const isOlder = (one: RulesVersion, other: RulesVersion): boolean =>
  one.epoch < other.epoch || (one.epoch === other.epoch && one.version < other.version);

const newestOf = (all: readonly SeenRules[]): SeenRules | null =>
  all.reduce<SeenRules | null>((newest, each) => (newest === null || isOlder(newest, each) ? each : newest), null);

const nameOf = (key: string, policy: string): string => `${policy} ${key}`;

export class StaleReference {
  readonly #checks: Checks;
  readonly #object: SimulatedObject;
  /** The rules in calls since the object's last restart, by policy. */
  readonly #inMemory = new Map<string, SeenRules>();
  /** The rules in calls, by policy and key. */
  readonly #byKey = new Map<string, SeenRules[]>();
  readonly #spentAtMs = new Map<string, number>();
  /** Whether the row of a key had lasting state of a policy before the current turn. */
  #lastingBefore = new Map<string, boolean>();

  constructor(object: SimulatedObject, checks: Checks) {
    this.#object = object;
    this.#checks = checks;
  }

  begins(): void {
    this.#lastingBefore = new Map();
    for (const name of this.#byKey.keys()) this.#lastingBefore.set(name, this.#hasState(name));
  }

  decided(call: DecidedCall): void {
    const { key, charges, reply } = call;
    if (isRefused(reply)) this.#checkRefusal(call);
    else
      for (const { policy, rules } of charges) {
        if (rules === undefined) continue;
        const required = this.#required(key, policy);
        const isNewest = required === null || !isOlder(rules, required) || rules.text === required.text;
        this.#checks.check(
          "stale calls: no call is decided by older policy rules than an earlier one",
          isNewest,
          () => `${policy} ${key}: ${describe(rules)} after ${describe(required)}`,
        );
        this.#note(key, policy, rules);
      }
    for (const { charge } of spentCharges(call)) {
      if (charge.cost > 0) this.#spentAtMs.set(nameOf(key, charge.policy), this.#object.nowMs);
    }
  }

  crashed(lastTurn: number): void {
    this.#inMemory.clear();
    for (const [name, seen] of this.#byKey) {
      const left = seen.filter(({ turn, mustLast }) => mustLast || turn <= lastTurn);
      const newest = this.#hasState(name) ? newestOf(left) : null;
      this.#byKey.set(name, newest === null ? [] : [{ ...newest, turn: 0, mustLast: true }]);
    }
  }

  #note(key: string, policy: string, rules: PolicyRules): void {
    const name = nameOf(key, policy);
    const seen = this.#byKey.get(name) ?? [];
    const newest = newestOf(seen);
    const isNewer = newest === null || isOlder(newest, rules);
    const noted = {
      ...rules,
      turn: this.#object.storage.turn,
      mustLast: isNewer && this.#lastingBefore.get(name) === true,
    };
    if (isNewer) this.#byKey.set(name, [...seen, noted]);
    const known = this.#inMemory.get(policy);
    if (known === undefined || isOlder(known, rules)) this.#inMemory.set(policy, noted);
  }

  #required(key: string, policy: string): SeenRules | null {
    const ofKey = this.#byKey.get(nameOf(key, policy)) ?? [];
    const inMemory = this.#inMemory.get(policy);
    // Entries from before the crash are only those that the crash left. Later entries are also in memory.
    return newestOf([...ofKey.filter(({ turn }) => turn === 0), ...(inMemory === undefined ? [] : [inMemory])]);
  }

  #checkRefusal({ key, charges, reply: { stale = [] } }: DecidedCall): void {
    for (const { policy, ...newer } of stale) {
      const own = charges.find((charge) => charge.policy === policy)?.rules;
      this.#checks.check(
        "stale calls: a refused call gets rules that are newer than its own",
        own !== undefined && isOlder(own, newer) && own.text !== newer.text,
        () => `${policy} ${key}: ${describe(own ?? null)} was refused by ${describe(newer)}`,
      );
    }
  }

  /** Whether the stored row of a key has units of the policy that still count, or live key rules. */
  #hasState(name: string): boolean {
    const [policy = "", key = ""] = name.split(" ");
    const row = this.#object.storage.rows.get(`k ${key}`);
    if (row === undefined) return false;
    const [, , , , meters, , , , rules = []] = JSON.parse(row) as unknown[][];
    const nowMs = this.#object.nowMs;
    const spentAtMs = this.#spentAtMs.get(name) ?? Number.NEGATIVE_INFINITY;
    const hasUnits =
      (meters as [string][]).some(([each]) => each === policy) && nowMs < spentAtMs + windowMs - marginMs;
    const hasRules = (rules as [string, number, number, number, { expiresAtMs?: number }[]][]).some(
      ([each, , , , list]) =>
        each === policy && list.some(({ expiresAtMs = Number.POSITIVE_INFINITY }) => expiresAtMs > nowMs + marginMs),
    );
    return hasUnits || hasRules;
  }
}

const describe = (rules: PolicyRules | null): string =>
  rules === null ? "none" : `(${rules.epoch}, ${rules.version}) ${rules.text}`;
