/** The answer of `POST /keys/explain`: types only, re-exported by `wire.ts`. */
import type { FailureMode, Policy } from "../policy/policy.ts";
import type { PolicyMode, RulesVersion } from "../policy/runtime-rules.ts";
import type { DenialReason } from "../limiter/isolate/outcome.ts";
import type { LimitDecision, UsageTerms } from "../strategies/index.ts";
import type { FullLimit } from "./wire.ts";

/** The steps that give limits. */
export type LimitsStep =
  | "key-rule-limits"
  | "policy-rule-overrides"
  | "configured-overrides"
  | "policy-rule-limits"
  | "configured-limits";

/** The steps of a decision. */
export type StepName =
  | "mode"
  | "policy-rule-deny"
  | "policy-rule-allow"
  | "configured-deny"
  | "configured-allow"
  | "missing-key"
  | "ban"
  | "key-rule-block"
  | "key-rule-allow"
  | LimitsStep;

/** The result of one step. */
export interface StepResult {
  /**
   * Null when it is unknown: only the id of the key is given, entries compare an attribute that is not given, or the
   * key's object did not answer.
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
export interface ExplainedLimit extends Readonly<LimitDecision> {
  /** The units that count now; null when the key's object did not answer. */
  readonly used: number | null;
  /** Units that are lent to isolates, which count as used. */
  readonly lentUnits: number;
  /** The terms that add up to `used`; null when the key's object did not answer. */
  readonly account: UsageTerms | null;
  /** The terms as a sentence. */
  readonly sentence: string | null;
}

/** A runtime rule about this key or its policy. */
export interface ExplainedRule {
  readonly id: string;
  readonly kind: string;
  /** As in the rule; absent also when the control plane did not answer. */
  readonly factor?: number;
  /** Null when the rule does not expire. */
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

/** A level of a tree, as if its key alone were charged. */
export interface ExplainedLevel {
  readonly policy: string;
  /** The partition key of this level. */
  readonly id: string;
  readonly mode: PolicyMode;
  readonly allowed: boolean;
  readonly reason: ExplainedReason;
  /** 0 when allowed; null when waiting does not help. */
  readonly retryAfterMs: number | null;
  readonly limits: readonly ExplainedLimit[];
  /** The outcome in one sentence. */
  readonly text: string;
}

type ExplainedReason = DenialReason | "allow" | "dry-run" | "off" | "object-silent";

/** The outcome that a request of cost 1 would have now, and the reasons. */
export interface Explanation {
  /** The partition key. */
  readonly id: string;
  /** The key as its requests spell it, such as `ip=2001:db8:0:0::/64`. Only when the caller spells it otherwise. */
  readonly key?: string;
  readonly policy: string;
  readonly mode: PolicyMode;
  /** False when the request had only the id: the entries of lists and overrides are then not compared. */
  readonly isKeyKnown: boolean;
  /** Whether the key's object answered. If not, `onError` decides. */
  readonly hasObjectAnswered: boolean;
  readonly onError: FailureMode;
  /** Unless it is `strict`, isolates decide some requests locally and report them to the object later. */
  readonly consistency: Policy["consistency"]["kind"];
  /** Whether a request of cost 1 is allowed by all levels, if no step with an unknown result matches. */
  readonly allowed: boolean;
  readonly reason: ExplainedReason;
  /** 0 when allowed; null when waiting does not help. */
  readonly retryAfterMs: number | null;
  /** When the outcome or its reason next changes without any request or new rule; null for never. */
  readonly nextChangeInMs: number | null;
  readonly bannedForMs: number;
  readonly steps: readonly ExplainedStep[];
  /** The step that gives the limits. */
  readonly limitsFrom: LimitsStep;
  readonly limits: readonly ExplainedLimit[];
  /** The same limits with all fields of their strategies; without the key's rules while the key's object does not answer. */
  readonly limitsInEffect: readonly FullLimit[];
  /** The limits that this key has when none of its own rules sets limits. */
  readonly limitsWithoutKeyRules: readonly FullLimit[];
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
  /** The levels that must all allow a request, the root first and this key last. Absent unless the policy is within another one. */
  readonly levels?: readonly ExplainedLevel[];
  /** The explanation in words, by part. */
  readonly lines: ExplanationLines;
  /** The same words as lines of plain text. The first is the outcome. */
  readonly text: readonly string[];
}

export interface ExplanationLines {
  readonly outcome: string;
  /** The totals of the limits that decide, such as "62 of 60 in the last minute."; null where no limit decides. */
  readonly usage: string | null;
  readonly nextChange: string;
  /** A ban, reservations and slices. */
  readonly open: readonly string[];
  /** The source of the limits, such as "a policy rule". */
  readonly limitsFrom: string;
  /** The source of the limits that the key has when none of its own rules sets limits. */
  readonly limitsWithoutKeyRulesFrom: string;
  /** The arithmetic of each limit, without the total if `usage` has it. */
  readonly limits: readonly NamedLine[];
  /** The result of each step. */
  readonly steps: readonly NamedLine[];
}

export interface NamedLine {
  readonly name: string;
  readonly text: string;
}
