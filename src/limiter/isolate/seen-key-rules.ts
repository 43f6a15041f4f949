/** The last key rules that objects have reported to this isolate, for decisions while an object gives no answer. */
import { BoundedMap } from "../../policy/bounded-map.ts";
import { isLive, type KeyRule } from "../protocol.ts";
import { policyKey, type Spend } from "./outcome.ts";
import { ruleSizeBytes } from "./ruled-outcome.ts";

/** Bound the memory of an isolate. */
const maximumKeys = 4_096;
const maximumBytes = 2_000_000;

export class SeenKeyRules {
  readonly #byKey = new BoundedMap<KeyRule>(maximumKeys, {
    mostBytes: maximumBytes,
    bytesOf: ruleSizeBytes,
  });

  /** Notes the rules of a reply, and drops those that it no longer reports. */
  note(group: readonly Spend[], rules: readonly (KeyRule | null)[] | undefined): void {
    if (rules === undefined && this.#byKey.size === 0) return;
    for (const [index, spend] of group.entries()) {
      const rule = rules?.[index] ?? null;
      if (rule === null) this.#byKey.delete(policyKey(spend));
      else this.#byKey.set(policyKey(spend), rule);
    }
  }

  /** The rule of a key; null without one, and after it has expired by the isolate's clock. */
  ruleOf(spend: Spend, nowMs: number): KeyRule | null {
    if (this.#byKey.size === 0) return null;
    const rule = this.#byKey.get(policyKey(spend));
    return rule !== undefined && isLive(rule, nowMs) ? rule : null;
  }
}
