/**
 * A naive reference for the key rules in one object: the newest set of rules that the object has received for each
 * policy and key. Rules expire by the object's clock, and a ban takes precedence over rules that block or allow.
 */
import type { RulesVersion } from "../../../src/policy/runtime-rules.ts";
import type { KeyRule } from "../../../src/limiter/protocol.ts";
import type { Checks } from "./checks.ts";
import { type DecidedCall, isRefused } from "./decided-calls.ts";
import type { SimulatedObject } from "./key-objects.ts";
import type { RuleLedger } from "./rule-ledger.ts";
import { isOlder } from "./stale-reference.ts";

interface ReceivedSet {
  readonly version: RulesVersion;
  readonly rules: readonly KeyRule[];
}

/** Within this time of a rule's expiry, the requests of the object are checked to the millisecond. */
const nearMs = 2;

const nameOf = (key: string, policy: string): string => `${policy} ${key}`;

export class KeyRuleReference {
  readonly #checks: Checks;
  readonly #object: SimulatedObject;
  readonly #ledger: RuleLedger;
  readonly #sets = new Map<string, ReceivedSet>();

  constructor(object: SimulatedObject, ledger: RuleLedger, checks: Checks) {
    this.#object = object;
    this.#ledger = ledger;
    this.#checks = checks;
  }

  /** Records that the object has confirmed a push. */
  received(key: string, policy: string, rules: readonly KeyRule[], version: RulesVersion): void {
    const known = this.#sets.get(nameOf(key, policy));
    if (known !== undefined && isOlder(version, known.version)) return;
    this.#sets.set(nameOf(key, policy), { version, rules });
    this.#ledger.checkPush(this.#object, { key, policy, rules });
  }

  decided(call: DecidedCall): void {
    const { key, charges, reply } = call;
    if (isRefused(reply)) return;
    for (const [index, { policy }] of charges.entries()) {
      const decision = reply.decisions[index];
      if (decision === undefined) continue;
      const isBanned = decision.bannedForMs > 0;
      const actual = reply.keyRules?.[index] ?? null;
      const rules = this.#sets.get(nameOf(key, policy))?.rules ?? [];
      const expected = decidingRule(rules, this.#object.nowMs, isBanned);
      const holds = actual?.id === expected?.id && actual?.kind === expected?.kind && obeys(decision, expected);
      const describe = (): string =>
        `${policy} ${key} at ${this.#object.nowMs}: ${JSON.stringify(actual)} decided, expected ${JSON.stringify(expected)}`;
      this.#checks.check("key rules: a decision obeys the rules that its object has received", holds, describe);
      if (rules.some((rule) => isNearEnd(rule, this.#object.nowMs))) {
        this.#checks.check("key rules: a rule ends on its millisecond by the object's clock", holds, describe);
      }
      this.#checkLimits(call, index, expected);
      this.#ledger.checkDecision(this.#object, { key, policy, actual, isBanned });
    }
  }

  #checkLimits({ charges, reply }: DecidedCall, index: number, rule: KeyRule | null): void {
    if (rule?.kind === "block" || rule?.kind === "allow") return;
    const limits = rule === null ? charges[index]?.limits : rule.limits;
    const capacities = reply.decisions[index]?.limits.map(({ capacity }) => capacity) ?? [];
    this.#checks.check(
      "precedence: the limits that decide are those that the table states",
      JSON.stringify(capacities) === JSON.stringify(limits?.map(({ limit }) => limit)),
      () => `${charges[index]?.policy}: ${capacities.join()} under ${JSON.stringify(rule)}`,
    );
  }
}

const isLive = ({ expiresAtMs }: KeyRule, nowMs: number): boolean => expiresAtMs === undefined || nowMs < expiresAtMs;

const isNearEnd = ({ expiresAtMs }: KeyRule, nowMs: number): boolean =>
  expiresAtMs !== undefined && Math.abs(nowMs - expiresAtMs) <= nearMs;

function decidingRule(rules: readonly KeyRule[], nowMs: number, isBanned: boolean): KeyRule | null {
  const kinds = isBanned ? ["limits"] : ["block", "allow", "limits"];
  for (const kind of kinds) {
    const found = rules.find((rule) => rule.kind === kind && isLive(rule, nowMs));
    if (found !== undefined) return found;
  }
  return null;
}

const obeys = ({ allowed }: { readonly allowed: boolean }, rule: KeyRule | null): boolean =>
  (rule?.kind !== "block" || !allowed) && (rule?.kind !== "allow" || allowed);
