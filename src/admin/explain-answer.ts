/** The answer of `POST /api/keys/explain`: what would happen to a request of cost 1 now, and why. Plain data. */
import type { FailureMode, Policy, PolicyMode, RulesVersion } from "../policy/vars/index.ts";
import type { DenialReason } from "../limiter/isolate/outcome.ts";
import type { AccountTerms, Limit, LimitDecision } from "../strategies/index.ts";

/**
 * The steps of a decision, in the order of precedence: the first that matches decides. The last five give limits, by
 * which the key's usage then decides. The first of these five that matches gives the limits that are shown, even if an
 * earlier step decides.
 */
export const stepNames = [
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
] as const;
export type StepName = (typeof stepNames)[number];

/** The steps that give limits. */
export type LimitsStep = Extract<StepName, `${string}-limits` | `${string}-overrides`>;

/** The result of one step. */
export interface StepResult {
  /**
   * Null: not known, because only the id of the key is given, because entries compare an attribute that is not given, or
   * because the key's object did not answer.
   */
  readonly matches: boolean | null;
  /** The id of the runtime rule that matches; null for the configuration. */
  readonly rule: string | null;
  /** The position of the entry that matches, in its list or in its rule. */
  readonly entry: number | null;
}

export interface ExplainedStep extends StepResult {
  readonly step: StepName;
  /** True for exactly one step. */
  readonly decides: boolean;
}

/** A limit in effect for the key. */
export interface ExplainedLimit extends LimitDecision {
  /** The units that count now; null when the key's object did not answer. */
  readonly used: number | null;
  /** Units that are lent to isolates, which count as used. */
  readonly lentUnits: number;
  /** The terms that add up to `used`; null when the key's object did not answer. */
  readonly account: AccountTerms | null;
  /** The terms as a sentence. */
  readonly sentence: string | null;
}

/** A runtime rule about this key or its policy. */
export interface ExplainedRule {
  readonly id: string;
  readonly kind: string;
  /** Null: the rule does not expire. */
  readonly expiresInMs: number | null;
  /** `pending`: stored by the control plane, and not in effect yet. `orphan`: without effect. */
  readonly state: "in-effect" | "pending" | "orphan";
  /** Null when the control plane did not answer. */
  readonly actor: string | null;
  readonly note: string | null;
}

/** Reservations, or slices: units that are lent to isolates. */
export interface ExplainedUnits {
  readonly count: number;
  readonly units: number;
  readonly nextEndInMs: number | null;
}

export type ExplainedReason = DenialReason | "allow" | "dry-run" | "off" | "object-silent";

export interface Explanation {
  /** The partition key. */
  readonly id: string;
  readonly policy: string;
  readonly mode: PolicyMode;
  /** False when the request had only the id: the entries of lists and overrides are then not compared. */
  readonly isKeyKnown: boolean;
  /** Whether the key's object answered. If not, `onError` decides. */
  readonly hasObjectAnswered: boolean;
  readonly onError: FailureMode;
  /** Unless it is strict, isolates decide some requests by themselves, and the object learns of them later. */
  readonly consistency: Policy["consistency"]["kind"];
  /** The outcome of a request of cost 1, if no step matches that is not known. */
  readonly allowed: boolean;
  readonly reason: ExplainedReason;
  /** 0 when allowed; null when waiting does not help. */
  readonly retryAfterMs: number | null;
  /** When the outcome or its reason next changes without any request or new rule; null: never. */
  readonly nextChangeInMs: number | null;
  readonly bannedForMs: number;
  readonly steps: readonly ExplainedStep[];
  /** The step that gives the limits. */
  readonly limitsFrom: LimitsStep;
  readonly limits: readonly ExplainedLimit[];
  /** The same limits with all fields of their strategies; without the key's rules while the key's object does not answer. */
  readonly limitsInEffect: readonly Limit[];
  /** The limits of this key once none of its own rules gives it limits. */
  readonly limitsWithoutKeyRules: readonly Limit[];
  /** The newest first. */
  readonly keyRules: readonly ExplainedRule[];
  readonly policyRules: readonly ExplainedRule[];
  readonly reservations: ExplainedUnits | null;
  readonly slices: ExplainedUnits | null;
  readonly versions: {
    /** The policy rules of the isolate that answers; null without a control plane. */
    readonly isolate: RulesVersion | null;
    /** The policy rules that the control plane has; null when it did not answer. */
    readonly controlPlane: RulesVersion | null;
    /** The policy rules that the key's object has stored. */
    readonly object: RulesVersion | null;
    /** The key rules that the key's object has stored. */
    readonly key: RulesVersion | null;
  };
  /** The explanation as lines of plain text. */
  readonly text: readonly string[];
}
