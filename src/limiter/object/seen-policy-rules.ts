/**
 * The newest policy rules that an object has seen. A call under older rules is not decided, and its reply has the newer
 * ones. The object keeps them by policy in memory, and by key and policy in the key's row while the row stores anything
 * of the policy.
 */
import { compareVersions, type PolicyRules } from "../../policy/runtime-rules.ts";
import { BoundedMap } from "../../policy/bounded-map.ts";
import { isCount } from "../../strategies/index.ts";
import type { Charge, StaleRules } from "../protocol.ts";

/** Longer texts are stored in a row of their own, which is written only when the text changes. */
const mostInlineCharacters = 1_000;

/** An estimate. The keys of an object share the texts. */
const bytesEach = 200;

/** Most objects have one text for each policy. */
const mostShared = 64;
const sharedTexts = new BoundedMap<string>(mostShared);

/** Returns the same string for equal texts: each row that is read has a copy, and the keys need not keep one each. */
export function sharedText(text: string): string {
  const shared = sharedTexts.get(text);
  if (shared === undefined) sharedTexts.set(text, text);
  return shared ?? text;
}

export type RulesByPolicy = ReadonlyMap<string, PolicyRules>;

export class SeenPolicyRules {
  // Not bounded: policies are named by the configuration, never by a request.
  readonly #byPolicy = new Map<string, PolicyRules>();

  get(policy: string): PolicyRules | null {
    return this.#byPolicy.get(policy) ?? null;
  }

  /** Notes the rules of a policy. Returns the newest that are known. */
  note(policy: string, rules: PolicyRules): PolicyRules {
    const known = this.#byPolicy.get(policy);
    if (known !== undefined && compareVersions(rules, known) <= 0) return known;
    this.#byPolicy.set(policy, rules);
    return rules;
  }

  /** Notes the rules of all charges. Returns the newer rules of those that are older than known rules. */
  staleOf(charges: readonly Charge[]): readonly StaleRules[] {
    let stale: StaleRules[] | null = null;
    for (const { policy, rules } of charges) {
      if (rules === undefined) continue;
      const newest = this.note(policy, rules);
      // Rules with the same text decide alike, so the call is not stale. The next beat brings the newer version.
      if (compareVersions(rules, newest) >= 0 || rules.text === newest.text) continue;
      stale ??= [];
      const { epoch, version, text } = newest;
      stale.push({ policy, epoch, version, text });
    }
    return stale ?? none;
  }
}

const none: readonly never[] = [];

/** The policy rules that are stored with one key. */
export class KeyPolicyRules {
  readonly #byPolicy = new Map<string, PolicyRules>();

  get sizeBytes(): number {
    return this.#byPolicy.size * bytesEach;
  }

  get all(): RulesByPolicy {
    return this.#byPolicy;
  }

  /** Returns whether the rules are newer than those that the key has. */
  note(policy: string, rules: PolicyRules): boolean {
    const known = this.#byPolicy.get(policy);
    if (compareVersions(rules, known ?? noVersion) <= 0) return false;
    this.#byPolicy.set(policy, rules);
    return true;
  }

  /** A list of `[policy, epoch, version, text]`, where a number stands for a text in a row of its own. */
  snapshot(isStored: (policy: string) => boolean, numberOf: (text: string) => number): unknown[] {
    return [...this.#byPolicy]
      .filter(([policy]) => isStored(policy))
      .map(([policy, { epoch, version, text }]) => [
        policy,
        epoch,
        version,
        text.length > mostInlineCharacters ? numberOf(text) : text,
      ]);
  }

  /** Reads a `snapshot`. Leaves out rules that this version did not write, and those whose text is missing. */
  static revived(stored: readonly unknown[], textOf: (number: number) => string | undefined): KeyPolicyRules {
    const revived = new KeyPolicyRules();
    for (const row of stored) {
      if (!Array.isArray(row)) continue;
      const [policy, epoch, version, written]: unknown[] = row;
      const text = typeof written === "number" ? textOf(written) : written;
      if (typeof policy !== "string" || typeof text !== "string") continue;
      if (isCount(epoch) && isCount(version)) revived.#byPolicy.set(policy, { epoch, version, text: sharedText(text) });
    }
    return revived;
  }
}

/** The version of an isolate before its first beat. */
const noVersion = { epoch: 0, version: 0 };
