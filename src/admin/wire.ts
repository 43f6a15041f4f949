/**
 * The answers of the admin API: the only declarations of them. Types only, so the console imports them too. The document
 * `http/wire/admin-openapi.json` describes every field.
 */
import type {
  Actor,
  AuditEntry,
  OutcomeName,
  Rule,
  RuleKind,
  RuleState,
  TailMessage,
  TopKey,
} from "../control/protocol.ts";
import type { RollbackProgress } from "../control/history-calls.ts";
import type { DenialRun, RequestsPoint, Statistics, StatisticsPoint, TopQuery } from "../control/statistics-calls.ts";
import type { AdminRight } from "../policy/vars/secrets.ts";
import type { FailureMode, Policy } from "../policy/policy.ts";
import type { PolicyMode, RulesVersion } from "../policy/runtime-rules.ts";
import type { DenialReason } from "../limiter/isolate/outcome.ts";
import type { ProblemDetails } from "../http/wire/problems.ts";
import type { UsageTerms, Limit, LimitDecision } from "../strategies/index.ts";

export type { DenialPage, DenialView, FoundDenials } from "./denial-wire.ts";
export type { AdminRight, OutcomeName, PolicyMode, ProblemDetails, RuleKind, TailMessage };

/** The caller. */
export interface OperatorView extends Actor {
  readonly may: readonly AdminRight[];
}

/** Limits as an operator writes them: notation, or objects with the fields of a limit. */
export type WrittenLimits = string | Readonly<Record<string, unknown>> | readonly unknown[];

/** The fields of a rule's kind, as the operator wrote them. */
interface RuleContentView {
  readonly limits?: WrittenLimits;
  readonly strategy?: string;
  /** The factor by which a boost multiplied the limits that the key had; absent for limits written otherwise. */
  readonly factor?: number;
  readonly mode?: PolicyMode;
  readonly entries?: readonly unknown[];
  readonly overrides?: readonly unknown[];
}

/** A rule as an audit entry records it, without its later state. */
export interface AuditedRule
  extends RuleContentView, Pick<Rule, "id" | "policy" | "scope" | "note" | "actor" | "revision"> {
  readonly kind: RuleKind;
  /** The id of the key; null for a rule of a policy. */
  readonly keyId: string | null;
  readonly startsAt: string;
  readonly expiresAt: string | null;
}

export interface RuleView extends AuditedRule {
  /** The plain key; only for a caller that reveals it, and null when it is not known. */
  readonly key?: string | null;
  readonly state: RuleState;
  readonly appliedAt: string | null;
}

/** The answer to a deletion that the key's object has not confirmed yet. */
export interface PendingDeletion {
  readonly state: "pending";
}

export interface RulePage {
  readonly rules: readonly RuleView[];
  readonly next: string | null;
}

/** A limit with the fields of its strategy. */
export interface FullLimit extends Limit {
  readonly burst?: number;
  readonly timezone?: string;
  readonly buckets?: number;
  /** In milliseconds. */
  readonly precision?: number;
}

/** Where a part of a policy comes from. */
export interface PartSource {
  readonly source: "configuration" | "rule";
  /** The id of the rule. */
  readonly rule?: string;
}

interface SourcedPart<Value> extends PartSource {
  readonly value: Value;
}

/** Entries of one source. */
export interface EntriesPart extends PartSource {
  readonly count: number;
}

export interface PolicyView {
  readonly name: string;
  readonly key: readonly string[];
  readonly mode: SourcedPart<PolicyMode>;
  readonly limits: SourcedPart<readonly FullLimit[]>;
  /** The mode and the limits that are in effect when no rule sets them. */
  readonly configured: { readonly mode: PolicyMode; readonly limits: readonly FullLimit[] };
  /** In the order in which they apply. */
  readonly allow: readonly EntriesPart[];
  readonly deny: readonly EntriesPart[];
  readonly overrides: readonly EntriesPart[];
  readonly rules: readonly RuleView[];
  /** Rules that do not fit the policy, and have no effect. */
  readonly refused: readonly { readonly rule: string | null; readonly reason: string }[];
  readonly epoch: number;
  readonly version: number;
}

export interface PolicyList {
  readonly policies: readonly PolicyView[];
}

export interface AuditEntryView extends Pick<
  AuditEntry,
  "seq" | "actor" | "via" | "action" | "policy" | "rule" | "note"
> {
  readonly at: string;
  readonly keyId: string | null;
  readonly before: AuditedRule | null;
  readonly after: AuditedRule | null;
}

export interface AuditPage {
  readonly entries: readonly AuditEntryView[];
  readonly next: string | null;
}

/** The entries that an undo has written, the newest first, and the rules that it has restored. */
export interface UndoView {
  readonly entries: readonly AuditEntryView[];
  readonly rules: readonly RuleView[];
}

/** How far a rollback is. */
export interface RollbackView extends Pick<RollbackProgress, "state" | "note" | "total" | "examined" | "changed"> {
  readonly to: number;
  readonly actor: string;
  readonly startedAt: string;
  readonly endedAt: string | null;
}

/** The answer to a rollback, with the first rules that it has restored. */
export interface BegunRollback extends RollbackView {
  readonly rules: readonly RuleView[];
}

/** The latest rollback; null when there was none. */
export interface LatestRollback {
  readonly rollback: RollbackView | null;
}

export interface StatisticsPointView extends Omit<StatisticsPoint, "atMs"> {
  readonly at: string;
}

export interface StatisticsView extends Pick<Statistics, "stepMs"> {
  readonly from: string;
  readonly to: string;
  readonly latencyBoundsMs: readonly number[];
  readonly points: readonly StatisticsPointView[];
  readonly originFailures: readonly { readonly at: string; readonly count: number }[];
  /** Requests of all policies by step. A step without a point has none. */
  readonly requests: readonly RequestsPointView[];
  readonly denialRuns: readonly DenialRunView[];
}

export interface RequestsPointView extends Omit<RequestsPoint, "atMs"> {
  readonly at: string;
}

export interface DenialRunView extends Pick<DenialRun, "policy"> {
  readonly since: string;
  readonly last: string;
}

/** A frequent key. The true count is from `count - error` to `count`. */
export interface TopKeyView extends Pick<TopKey, "count" | "error"> {
  readonly id: string;
  /** The plain key; only for a caller that reveals it, and null when it is not known. */
  readonly key?: string | null;
}

export interface TopKeyList extends Pick<TopQuery, "policy" | "by"> {
  /** The start of the first hour that is counted. */
  readonly from: string;
  readonly keys: readonly TopKeyView[];
}

/** The plain key of an id. */
export interface RevealedKey {
  readonly policy: string;
  readonly id: string;
  readonly key: string;
}

/** A sampled denial. */
export type TailEntryView = TailMessage["entries"][number];

/** A ticket for one WebSocket of the tail. */
export interface TailTicket {
  readonly ticket: string;
  readonly expiresAt: string;
}

/** The first line of the samples. */
export interface SamplesHeaderLine {
  readonly policy: string;
  readonly from: string;
  readonly to: string;
  /** `off`, or one key in how many: `1/16`. */
  readonly sample: string;
  /** The number of arrivals in the answer. */
  readonly arrivals: number;
  /** Arrivals and settlements for which beats had no room. */
  readonly lost: number;
  /** Arrivals for which storage had no room. */
  readonly dropped: number;
  readonly requests: number;
  /** The share of the sampled keys' arrivals that the answer contains. */
  readonly coverage: number;
  readonly storedAt: string | null;
  readonly ageMs: number | null;
}

/** An arrival in the samples. Only an arrival with a reservation has the last three items. */
export type ArrivalRow = [
  atMs: number,
  cost: number,
  outcome: string,
  ttlMs?: number,
  settledAtMs?: number | null,
  settledCost?: number,
];

/** A settlement whose arrival is not in the line. */
export type SettlementRow = [spentAtMs: number, cost: number, settledAtMs: number, actualCost: number];

/** A line of the samples, for one key and chunk. */
export interface SampleLine {
  readonly id: string;
  readonly arrivals: readonly ArrivalRow[];
  readonly settlements?: readonly SettlementRow[];
  readonly hasOtherLimits?: true;
}

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

type ExplainedReason = DenialReason | "allow" | "dry-run" | "off" | "object-silent";

/** The outcome that a request of cost 1 would have now, and the reasons. */
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
  /** Unless it is `strict`, isolates decide some requests locally and report them to the object later. */
  readonly consistency: Policy["consistency"]["kind"];
  /** Whether a request of cost 1 is allowed, if no step with an unknown result matches. */
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
