/** The answers of the admin API that the console reads. `admin-openapi.json` documents every field. */

export type Right = "read" | "write" | "reveal";

export interface Operator {
  readonly name: string;
  readonly via: "token" | "access";
  readonly may: readonly Right[];
}

/** Problem details (RFC 9457). */
export interface ProblemAnswer {
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly errors?: readonly { readonly field: string; readonly accepted: string }[];
}

export type Mode = "enforce" | "dry-run" | "off";
export type RuleKind = "limits" | "allow" | "block" | "mode" | "deny" | "overrides";

/** Limits as an operator writes them: notation, or objects with the fields of a limit. */
export type WrittenLimits = string | Readonly<Record<string, unknown>> | readonly unknown[];

/** A rule as the audit log has it. It also has the fields of its kind. */
export interface AuditedRule {
  readonly id: string;
  readonly policy: string;
  readonly scope: "key" | "policy";
  readonly kind: RuleKind;
  readonly keyId: string | null;
  readonly limits?: WrittenLimits;
  readonly strategy?: string;
  readonly mode?: Mode;
  readonly entries?: readonly unknown[];
  readonly overrides?: readonly unknown[];
  readonly startsAt: string;
  readonly expiresAt: string | null;
  readonly note: string | null;
  readonly actor: string;
  readonly revision: number;
}

export interface Rule extends AuditedRule {
  /** The plain key; only in answers to calls with `reveal=true`. */
  readonly key?: string | null;
  readonly state: "pending" | "applied" | "orphan";
  readonly appliedAt: string | null;
}

export interface RulePage {
  readonly rules: readonly Rule[];
  readonly next: string | null;
}

export interface Limit {
  readonly name: string;
  readonly limit: number;
  readonly windowMs: number;
  readonly strategy: string;
}

/** A limit with the fields of its strategy. */
export interface FullLimit extends Limit {
  /** Calendar windows only. */
  readonly period?: "day" | "week" | "month" | "year";
  readonly burst?: number;
  /** In milliseconds. */
  readonly precision?: number;
  readonly [option: string]: unknown;
}

interface Sourced<Value> {
  readonly value: Value;
  readonly source: "configuration" | "rule";
  readonly rule?: string;
}

export interface EntriesPart {
  readonly count: number;
  readonly source: "configuration" | "rule";
  readonly rule?: string;
}

export interface Policy {
  readonly name: string;
  readonly key: readonly string[];
  readonly mode: Sourced<Mode>;
  readonly limits: Sourced<readonly FullLimit[]>;
  /** The mode and the limits that are in effect when no rule sets them. */
  readonly configured: { readonly mode: Mode; readonly limits: readonly FullLimit[] };
  readonly allow: readonly EntriesPart[];
  readonly deny: readonly EntriesPart[];
  readonly overrides: readonly EntriesPart[];
  readonly rules: readonly Rule[];
  readonly refused: readonly { readonly rule: string | null; readonly reason: string }[];
  readonly epoch: number;
  readonly version: number;
}

export interface AuditEntry {
  readonly seq: number;
  readonly at: string;
  readonly actor: string;
  readonly via: "token" | "access" | "system";
  readonly action: "create" | "replace" | "delete" | "expire" | "reset" | "reveal" | "rollback";
  readonly policy: string | null;
  readonly keyId: string | null;
  readonly rule: string | null;
  readonly before: AuditedRule | null;
  readonly after: AuditedRule | null;
  readonly note: string | null;
}

/** How far a rollback is. */
export interface RollbackProgress {
  readonly state: "running" | "done" | "failed";
  readonly startedAt: string;
  readonly total: number | null;
  readonly examined: number;
}

export interface AuditPage {
  readonly entries: readonly AuditEntry[];
  readonly next: string | null;
}

export type Outcome =
  | "allowed"
  | "exempt"
  | "denied"
  | "banned"
  | "blocked"
  | "dry-run-denied"
  | "fallback-local"
  | "fallback-open"
  | "fallback-closed";

export interface StatisticsPoint {
  readonly at: string;
  readonly policy: string;
  readonly outcomes: Readonly<Partial<Record<Outcome, number>>>;
  readonly nearLimit: number;
  /** Each bucket with its decisions. A bucket is an index into `latencyBoundsMs`, or its length. */
  readonly latency: readonly (readonly [bucket: number, decisions: number])[];
  readonly latencySumMs: number;
}

export interface Statistics {
  readonly from: string;
  readonly to: string;
  readonly stepMs: number;
  readonly latencyBoundsMs: readonly number[];
  readonly points: readonly StatisticsPoint[];
  readonly originFailures: readonly { readonly at: string; readonly count: number }[];
}

/** The true count is from `count - error` to `count`. */
export interface TopKey {
  readonly id: string;
  readonly count: number;
  readonly error: number;
  readonly key?: string | null;
}

export interface TopKeys {
  readonly policy: string;
  readonly by: "denied" | "cost";
  readonly keys: readonly TopKey[];
}

export interface ExplainedStep {
  readonly step: string;
  /** Null: not known. */
  readonly matches: boolean | null;
  readonly rule: string | null;
  readonly entry: number | null;
  readonly decides: boolean;
}

export interface ExplainedLimit extends Limit {
  readonly capacity: number;
  readonly allowed: boolean;
  readonly remaining: number;
  readonly retryAfterMs: number | null;
  readonly replenishAfterMs: number;
  readonly resetAfterMs: number;
  readonly used: number | null;
  readonly lentUnits: number;
  /** One sentence with the arithmetic; null when the object does not answer. */
  readonly sentence: string | null;
}

export interface ExplainedRule {
  readonly id: string;
  readonly kind: RuleKind;
  readonly expiresInMs: number | null;
  readonly state: "in-effect" | "pending" | "orphan";
  readonly actor: string | null;
  readonly note: string | null;
}

/** Reservations, or units that are lent to isolates. */
export interface OpenUnits {
  readonly count: number;
  readonly units: number;
  readonly nextEndInMs: number | null;
}

export interface Explanation {
  readonly id: string;
  readonly policy: string;
  readonly mode: Mode;
  /** False when the call has only the id: lists and overrides are then not compared. */
  readonly isKeyKnown: boolean;
  readonly hasObjectAnswered: boolean;
  readonly allowed: boolean;
  readonly reason: string;
  readonly retryAfterMs: number | null;
  readonly nextChangeInMs: number | null;
  readonly bannedForMs: number;
  readonly steps: readonly ExplainedStep[];
  readonly limitsFrom: string;
  readonly limits: readonly ExplainedLimit[];
  /** The same limits with the fields of their strategies. */
  readonly limitsInEffect: readonly FullLimit[];
  /** The limits once no rule of the key gives it limits. */
  readonly limitsWithoutKeyRules: readonly FullLimit[];
  readonly keyRules: readonly ExplainedRule[];
  readonly policyRules: readonly ExplainedRule[];
  readonly reservations: OpenUnits | null;
  readonly slices: OpenUnits | null;
  /** Lines for people. The first is the outcome. */
  readonly text: readonly string[];
}

/** A message of the tail's WebSocket. */
export interface TailMessage {
  readonly entries: readonly TailEntry[];
}

/** A sampled denial. */
export interface TailEntry {
  readonly atMs: number;
  readonly policy: string;
  readonly outcome: Outcome;
  /** The names of the limits that denied. */
  readonly violated: readonly string[];
  readonly retryAfterMs: number | null;
  readonly cost: number;
  readonly colo: string;
  /** The id of the key. */
  readonly key: string;
}
