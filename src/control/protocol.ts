/**
 * The calls to the control plane object: beats of isolates, and calls of the admin API. All of them are plain data. As in
 * limiter/protocol.ts, fields are only added: an older caller leaves them out, and an older object ignores them.
 */
import type { ObjectSettings } from "../policy/placement.ts";
import type { PolicyMode, PolicyRule, PolicyRules } from "../policy/runtime-rules.ts";
import type { KeyRule, StaleRules } from "../limiter/protocol.ts";
import type { Rollback, RollbackEnds, RollbackProgress, RollbackReply, Undo, Undone } from "./history-calls.ts";
import type { DenialBatch, DeniedKeys, DeniedKeysQuery, DenialsQuery, LoggedDenials } from "./denial-calls.ts";
import type { SampleIndex, SamplesQuery, Statistics, StatisticsQuery, TopQuery } from "./statistics-calls.ts";
import type { KnownRecordings, NewRecordings, RecordedBatch, RecordingMethods } from "./recording-calls.ts";
import type { CountedKey } from "./space-saving.ts";

/** The name of the one instance. */
export const controlPlaneName = "control-plane";

/** The outcomes that statistics count, in the order of the metric's documentation. */
export const outcomeNames = [
  "allowed",
  /** On the allowlist, or allowed by a key rule: not charged. */
  "exempt",
  /** Denied by a limit. */
  "denied",
  "banned",
  /** On the blocklist, or blocked by a key rule, or without a required key part. */
  "blocked",
  /** Would have been denied, but the policy is in dry run. */
  "dry-run-denied",
  /** Decided without the object's answer, by `onError`. */
  "fallback-local",
  "fallback-open",
  "fallback-closed",
] as const;
export type OutcomeName = (typeof outcomeNames)[number];

/** Upper bounds of the latency histogram's buckets, in milliseconds; the last bucket has no bound. */
export const latencyBoundsMs = [
  1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048, 4_096, 8_192,
] as const;

/** A partition key among the most frequent of a sketch. */
export interface TopKey extends CountedKey {
  /** The plain key, sealed. An isolate sends it at most once an hour for each key, and never when `REVEAL` is off. */
  readonly sealed?: string;
}

/** The counts of one isolate for one policy. Zeros are left out. */
export interface PolicyCounts {
  readonly outcomes: Partial<Record<OutcomeName, number>>;
  /** Decisions after which less than 20 % of a limit was left. Such a decision is also counted by its outcome. */
  readonly nearLimit: number;
  /**
   * Each bucket with its decisions. A bucket is an index into `latencyBoundsMs`, or its length for those above all
   * bounds.
   */
  readonly latency: readonly (readonly [bucket: number, decisions: number])[];
  /** Sum of the latencies, in milliseconds. */
  readonly latencySumMs: number;
  readonly topDenied: readonly TopKey[];
  /** Upper bound on the count of any key that `topDenied` leaves out. Default: 0, the list is complete. */
  readonly mostOtherDenied?: number;
  /** By cost. */
  readonly topSpenders: readonly TopKey[];
  /** Upper bound on the cost of any key that `topSpenders` leaves out. Default: 0, the list is complete. */
  readonly mostOtherSpent?: number;
  /** Requests that this policy denied. One that several policies deny counts for the first of them. Default: 0. */
  readonly deniedRequests?: number;
  /**
   * The units that settlements gave back. `topSpenders` contains them: its costs are those at the decisions, plus what
   * settlements charged in addition.
   */
  readonly topRefunded?: readonly CountedKey[];
  /** Upper bound on the refunds of any key that `topRefunded` leaves out. Default: 0, the list is complete. */
  readonly mostOtherRefunded?: number;
}

/** Sampled traffic of one policy. */
export interface SampleBatch {
  /** One key in this many is sampled. */
  readonly oneKeyIn: number;
  /** The result of `encodeSamples`, in base64url. Empty without events. */
  readonly events: string;
  /** The number of arrivals in `events`. */
  readonly arrivals: number;
  /** Arrivals and settlements of sampled keys for which the batch had no room. */
  readonly lost: number;
}

/** The counts of one isolate since its previous batch. A batch counts once. */
export interface StatisticsBatch extends RecordedBatch {
  /** From 1, in the order of the isolate's batches. */
  readonly seq: number;
  /** How many milliseconds before the beat the batch was closed. */
  readonly agoMs: number;
  /** The minute of the counts, by the isolate's clock. Default: that in which the batch was closed. */
  readonly countedInMs?: number;
  readonly policies: Readonly<Record<string, PolicyCounts>>;
  /** Requests that the origin did not answer. */
  readonly originFailures: number;
  /** Requests that at least one enforced policy decided. Absent if the isolate's version does not count them. */
  readonly requests?: number;
  /** Sampled traffic by policy, of policies that have any. At most 1,000 events in all. */
  readonly samples?: Readonly<Record<string, SampleBatch>>;
  /** Denials for the log, at most 48 entries. */
  readonly denials?: DenialBatch;
}

/** A denial for the live tail. */
export interface TailEntry {
  readonly agoMs: number;
  readonly policy: string;
  readonly outcome: OutcomeName;
  /** The names of the limits that denied. */
  readonly violated: readonly string[];
  readonly retryAfterMs: number | null;
  readonly cost: number;
  readonly colo: string;
  /** The partition key. */
  readonly key: string;
  readonly sealed?: string;
}

/** A message of the tail's WebSocket, as JSON: denials of one isolate. */
export interface TailMessage {
  readonly entries: readonly (Omit<TailEntry, "agoMs"> & { readonly atMs: number })[];
}

/** A key of a policy in `ALERT_KEYS` that has passed a share of its limit. */
export interface KeyAlert {
  readonly policy: string;
  readonly key: string;
  readonly limit: string;
  readonly percent: 80 | 90 | 100;
}

/**
 * The limits of each policy for keys without rules and overrides of their own. Empty for a policy whose mode is `off`.
 */
export type LimitsInEffect = Readonly<Record<string, PolicyInfo["limits"]>>;

/** A policy in an isolate's configuration. */
export interface PolicyInfo {
  readonly name: string;
  readonly mode: PolicyMode;
  readonly objects: ObjectSettings;
  /** The limits in effect for a key without rules or overrides. */
  readonly limits: readonly { readonly name: string; readonly limit: number; readonly windowMs: number }[];
}

export interface BeatCall extends KnownRecordings {
  /** The sender: 128 random bits as text. */
  readonly isolate: string;
  /** The epoch that the isolate knows; 0 for none. */
  readonly epoch: number;
  /** The versions of rules that the isolate knows, by policy. Policies without rules may be absent. */
  readonly versions: Readonly<Record<string, number>>;
  /** Identifies the code's version and the isolate's policies with their placement. */
  readonly deployment: string;
  /** The policies of this deployment. Present in an isolate's first beat, and after a reply with `wantsPolicies`. */
  readonly policies?: readonly PolicyInfo[];
  /** Identifies the isolate's `KEY_SECRET` without revealing it: a part of the HMAC of a constant. Default: unknown. */
  readonly secretId?: string;
  /** Every batch that is not stored yet, the oldest first. */
  readonly batches: readonly StatisticsBatch[];
  /** At most 20. Empty unless the last reply had `isTailed`. */
  readonly tail: readonly TailEntry[];
  readonly alerts: readonly KeyAlert[];
}

export interface BeatReply extends NewRecordings {
  readonly epoch: number;
  /**
   * The rules of each policy whose version differs from the isolate's. In a new epoch, policies that are not listed
   * have no rules.
   */
  readonly changed: readonly StaleRules[];
  /** The isolate's batches up to this number are stored, and need not be sent again. */
  readonly storedSeq: number;
  /** Whether a console or a tail is open. Beats are then due every second. */
  readonly isWatched: boolean;
  readonly isTailed: boolean;
  /** Whether any rule was ever made. Until then only counts travel, and beats are due less often. */
  readonly hasRules: boolean;
  readonly wantsPolicies: boolean;
}

/** The person or program that makes a change. */
export interface Actor {
  /** The name of the token, or the e-mail of the Access JWT. */
  readonly name: string;
  readonly via: "token" | "access" | "system";
}

/** The body of a rule by scope and kind, as it is enforced. */
export type RuleBody =
  | { readonly scope: "key"; readonly rule: WithoutId<KeyRule> }
  | { readonly scope: "policy"; readonly rule: WithoutId<PolicyRule> };

type WithoutId<Each> = Each extends unknown ? Omit<Each, "id" | "expiresAtMs"> : never;

export type RuleKind = KeyRule["kind"] | PolicyRule["kind"];

/** A new rule, or the new content of a rule. */
export type RuleInput = RuleBody & {
  readonly policy: string;
  /** The partition key; null for a policy rule. */
  readonly key: string | null;
  /** The plain key, sealed; null for a policy rule, and when only the partition key is known. */
  readonly sealedKey: string | null;
  /** Limits and entries as the operator wrote them. */
  readonly written: unknown;
  readonly expiresAtMs: number | null;
  readonly note: string | null;
  /** Where the key's object is; null for a policy rule. */
  readonly objects: ObjectSettings | null;
  /** Identifies the `KEY_SECRET` from which `key` was derived, as in `BeatCall`. Default: unknown. */
  readonly secretId?: string;
};

/** A rule as it is stored. */
export type Rule = RuleInput & {
  readonly id: string;
  /** The version of the rule itself, for its ETag. */
  readonly revision: number;
  /** The (epoch, version) of the policy's rules, or of the key's rules, that contains this rule. */
  readonly epoch: number;
  readonly version: number;
  readonly startsAtMs: number;
  readonly actor: string;
  /** When the key's object confirmed the rule; null while the push is pending. For a policy rule: when it was made. */
  readonly appliedAtMs: number | null;
  /** Absent in audit entries. */
  readonly state?: RuleState;
};

export type RuleState =
  /** The key's object has confirmed the rule. For a policy rule: isolates get it with their next beat. */
  | "applied"
  /** The key's object has not confirmed the rule yet. The control plane repeats the push. */
  | "pending"
  /** Without effect: no recent deployment has the policy, or its partition keys come from another `KEY_SECRET`. */
  | "orphan";

export interface AuditEntry {
  readonly seq: number;
  readonly atMs: number;
  readonly actor: string;
  readonly via: Actor["via"];
  readonly action: "create" | "replace" | "delete" | "expire" | "rollback" | NotedAction["action"];
  readonly policy: string | null;
  /** The partition key; null for a policy rule. Default: that of the rule. */
  readonly key?: string | null;
  readonly rule: string | null;
  /** The rule before and after; null when there was or is none. */
  readonly before: Rule | null;
  readonly after: Rule | null;
  readonly note: string | null;
  /** Only for the action `rollback`. Absent in entries of earlier versions. */
  readonly rollback?: RollbackEnds;
}

export interface Done<Value> {
  readonly kind: "done";
  readonly value: Value;
  /** Whether the key's object has not confirmed the change yet. */
  readonly isPending?: boolean;
}

/** Why a change was refused. */
export type RefusedChange =
  | { readonly kind: "unknown" }
  /** `If-Match` names another revision. */
  | { readonly kind: "outdated"; readonly revision: string }
  /** The `Idempotency-Key` was used with another body. */
  | { readonly kind: "key-reused" }
  /** Another rollback began before this one had ended. */
  | { readonly kind: "replaced" }
  /** The later entry `seq` has changed a rule that the undo would change. */
  | { readonly kind: "changed-since"; readonly seq: number }
  /** The rules of an undo already have their earlier content, or would have expired by now. */
  | { readonly kind: "nothing-to-undo" }
  | { readonly kind: "too-many"; readonly most: number }
  /** The policy's rules, as the text that isolates receive, would exceed `mostBytes`. */
  | { readonly kind: "too-large"; readonly mostBytes: number };

export type Changed<Value> = Done<Value> | RefusedChange;

export interface Page<Item> {
  readonly items: readonly Item[];
  /** The cursor of the next page; null on the last page. */
  readonly cursor: string | null;
}

export interface RuleQuery {
  readonly policy?: string;
  readonly kind?: RuleKind;
  readonly key?: string;
  readonly cursor?: string;
  readonly limit: number;
}

/** The runtime state of a policy: its rules, newest first, and their version. */
export interface PolicyState extends PolicyRules {
  readonly rules: readonly Rule[];
}

/**
 * Sets parts of a policy's rules. A part whose rule is null removes the rules of its kind. The rules of other kinds
 * stay.
 */
export interface PolicyChange {
  readonly policy: string;
  readonly parts: readonly { readonly kind: PolicyRule["kind"]; readonly rule: RuleInput | null }[];
}

export interface RuleCreation {
  readonly input: RuleInput;
  readonly actor: Actor;
  /** The `Idempotency-Key` and a hash of its request; null for a request without this field. */
  readonly idempotency: { readonly key: string; readonly requestHash: string } | null;
}

/** `revision` comes from `If-Match`. */
export interface RuleReplacement {
  readonly id: string;
  readonly revision: number;
  readonly input: RuleInput;
  readonly actor: Actor;
}

export interface RuleDeletion {
  readonly id: string;
  readonly revision: number;
  readonly actor: Actor;
  readonly note: string | null;
}

/** `epoch` and `version` come from `If-Match`. */
export interface PolicyPatch extends PolicyChange {
  readonly epoch: number;
  readonly version: number;
  readonly actor: Actor;
  readonly note: string | null;
}

/** An action that changes no rule. */
export interface NotedAction {
  readonly action: "reset" | "reveal" | "record" | "stop-recording";
  readonly policy: string;
  readonly key: string;
  readonly actor: Actor;
  readonly note: string | null;
}

/** The methods of the control plane object. Its `fetch` answers the WebSocket of the tail, with a ticket in the query. */
export interface ControlPlaneMethods extends RecordingMethods {
  beat(call: BeatCall): BeatReply;
  /** The state of a policy. Its version is 0 when the policy has never had rules. */
  policyState(policy: string): PolicyState;
  rules(query: RuleQuery): Page<Rule>;
  rule(id: string): Rule | null;
  /**
   * Answers after the key's object has confirmed the rule, or after a second with `isPending`. Answers `unknown` to a
   * repeated request whose rule no longer exists.
   */
  createRule(call: RuleCreation): Promise<Changed<Rule>>;
  replaceRule(call: RuleReplacement): Promise<Changed<Rule>>;
  deleteRule(call: RuleDeletion): Promise<Changed<null>>;
  changePolicy(call: PolicyPatch): Changed<PolicyState>;
  /** All entries are undone, or none. Answers `unknown` if one does not exist, or has changed no rule. */
  undo(call: Undo): Promise<Changed<Undone>>;
  /** Answers with the first rules that were restored: when the rollback has ended, or about a second after it began. */
  rollback(call: Rollback): Promise<RollbackReply>;
  /** The latest rollback; null when there was none. */
  rollbackProgress(): RollbackProgress | null;
  note(action: NotedAction): void;
  noteAll(actions: readonly NotedAction[]): void;
  audit(query: { readonly cursor?: string; readonly limit: number }): Page<AuditEntry>;
  /** For 15 s after the call, beats are due every second. */
  statistics(query: StatisticsQuery): Statistics;
  top(query: TopQuery): readonly TopKey[];
  samples(query: SamplesQuery): SampleIndex;
  /** The events of the chunks that still exist, in the order of the ids. */
  sampleChunks(policy: string, ids: readonly number[]): readonly ArrayBuffer[];
  /** For 15 s after the call, beats are due every second. */
  denials(query: DenialsQuery): LoggedDenials;
  deniedKeys(query: DeniedKeysQuery): DeniedKeys;
  /** The sealed key of a partition key in the top lists, the tail, the log of denials or a rule; null when none is known. */
  sealedKey(policy: string, key: string): string | null;
  sealedKeys(policy: string, keys: readonly string[]): readonly (string | null)[];
  /** The rules of all policies that have or had any. */
  rulesOfPolicies(): readonly StaleRules[];
  /**
   * Prometheus text exposition format.
   * @param limits the limits in effect, by policy. Default: the limits in the deployments' configuration
   */
  metrics(limits?: LimitsInEffect): string;
  /** A ticket for one WebSocket of the tail, valid for 30 s. */
  ticket(actor: Actor): { readonly ticket: string; readonly expiresAtMs: number };
}
