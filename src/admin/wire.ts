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
import type { LoggedKeysView } from "./denial-wire.ts";
import type { RollbackProgress } from "../control/history-calls.ts";
import type {
  DenialRun,
  FirstCounts,
  RequestsPoint,
  Statistics,
  StatisticsPoint,
  TopQuery,
} from "../control/statistics-calls.ts";
import type { AdminRight } from "../policy/vars/secrets.ts";
import type { PolicyMode } from "../policy/runtime-rules.ts";
import type { ProblemDetails } from "../http/wire/problems.ts";
import type { Limit } from "../strategies/index.ts";

export type { DenialPage, DenialView, FoundDenials, LoggedKeysView, LoggedKeyView } from "./denial-wire.ts";
export type * from "./explanation-wire.ts";
export type { KeyHistory, RecordingView } from "./history-wire.ts";
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

/** The parts of a policy, in the order in which a request meets them. */
export type PolicyPart =
  | "mode"
  | "match"
  | "key"
  | "deny"
  | "allow"
  | "missing-key"
  | "ban"
  | "limits"
  | "overrides"
  | "cost"
  | "delay"
  | "object"
  | "failure"
  | "denial";

/** Sentences about one part of a policy. */
export interface PolicyPartText {
  readonly part: PolicyPart;
  readonly title: string;
  readonly sentences: readonly string[];
}

export interface PolicyView {
  readonly name: string;
  /** The parent. Absent for a policy that is within no other one. */
  readonly within?: string;
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
  /** Sentences about the policy in effect. Absent in answers of earlier versions. */
  readonly description?: readonly PolicyPartText[];
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
  /** Only for the action `rollback`, and not for rollbacks by earlier versions. */
  readonly rollback?: RollbackReference;
}

/** The rollback that wrote an entry: the same for all of its entries. */
export interface RollbackReference {
  /** The rules are as they were after this entry. */
  readonly to: number;
  /** The newest entry when the rollback began. */
  readonly from: number;
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
  /** Absent while the control plane is of an earlier version. */
  readonly firstCounts?: readonly FirstCountsView[];
  /** Only with `top` in the query. Null when no policy has denied anything. */
  readonly top?: TopKeyList | null;
}

/** The first minutes, or hours, in which a policy has counts. `policy` is null for the requests of all policies. */
export interface FirstCountsView extends Pick<FirstCounts, "policy"> {
  readonly at: string;
  readonly deniedAt: string | null;
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
  /** Present when `to` is given, and the control plane is not of an earlier version. */
  readonly period?: LoggedKeysView;
}

/** The plain key of an id. */
export interface RevealedKey {
  readonly policy: string;
  readonly id: string;
  readonly key: string;
}

/** The plain keys of several ids, in their order; null for one that is not known. */
export interface RevealedKeys {
  readonly policy: string;
  readonly keys: readonly { readonly id: string; readonly key: string | null }[];
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
