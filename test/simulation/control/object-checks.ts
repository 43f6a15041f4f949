/** Observes the calls of all objects, and compares them with naive references. */
import type { RulesVersion } from "../../../src/policy/runtime-rules.ts";
import type { KeyRule } from "../../../src/limiter/protocol.ts";
import type { Checks } from "./checks.ts";
import { decidedCalls } from "./decided-calls.ts";
import type { Completed, SimulatedObject, ObjectObserver } from "./key-objects.ts";
import { KeyRuleReference } from "./key-rule-reference.ts";
import type { RuleLedger } from "./rule-ledger.ts";
import type { SpendReference } from "./spend-reference.ts";
import { StaleReference } from "./stale-reference.ts";

interface References {
  readonly stale: StaleReference;
  readonly keyRules: KeyRuleReference;
}

export class ObjectChecks implements ObjectObserver {
  readonly #checks: Checks;
  readonly #ledger: RuleLedger;
  readonly #spends: SpendReference;
  readonly #references = new Map<SimulatedObject, References>();
  /** The text of each version of rules, by policy. */
  readonly #texts = new Map<string, string>();

  constructor(checks: Checks, ledger: RuleLedger, spends: SpendReference) {
    this.#checks = checks;
    this.#ledger = ledger;
    this.#spends = spends;
  }

  begins(object: SimulatedObject): void {
    this.#of(object).stale.begins();
  }

  completed(object: SimulatedObject, call: Completed): void {
    const { stale, keyRules } = this.#of(object);
    if (call.name === "setRules") {
      const [key, policy, rules, version] = call.args as [string, string, readonly KeyRule[], RulesVersion];
      keyRules.received(key, policy, rules, version);
    }
    for (const decided of decidedCalls(call)) {
      for (const { policy, rules } of decided.charges) {
        if (rules !== undefined) this.#checkText(`${policy} ${rules.epoch} ${rules.version}`, rules.text);
      }
      stale.decided(decided);
      keyRules.decided(decided);
    }
    this.#spends.completed(object, call);
  }

  crashed(object: SimulatedObject, lastTurn: number): void {
    this.#of(object).stale.crashed(lastTurn);
    this.#spends.unsure.add(object.id);
  }

  #checkText(version: string, text: string): void {
    const known = this.#texts.get(version) ?? text;
    this.#texts.set(version, known);
    this.#checks.check(
      "versions: one version of a policy has one text",
      known === text,
      () => `${version}: ${text} and ${known}`,
    );
  }

  #of(object: SimulatedObject): References {
    const known = this.#references.get(object);
    if (known !== undefined) return known;
    const created = {
      stale: new StaleReference(object, this.#checks),
      keyRules: new KeyRuleReference(object, this.#ledger, this.#checks),
    };
    this.#references.set(object, created);
    return created;
  }
}
