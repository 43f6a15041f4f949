/** The calls that return rules to earlier states. As in protocol.ts, new versions only add fields. */
import type { Actor, AuditEntry, Done, RefusedChange, Rule, RuleCreation } from "./protocol.ts";

/** Returns the rules to the state after the audit entry `toSeq`, as new versions. */
export interface Rollback {
  readonly toSeq: number;
  readonly actor: Actor;
  readonly note: string | null;
}

/** Identifies a rollback. */
export interface RollbackEnds {
  /** The entry whose state it restores. */
  readonly toSeq: number;
  /** The last entry when it began. */
  readonly untilSeq: number;
}

/** The progress of a rollback. A long rollback continues after its caller has got the answer. */
export interface RollbackProgress extends Rollback {
  /** A failed rollback has changed nothing, because the rules of a policy would be too large. */
  readonly state: "running" | "done" | "failed";
  readonly startedAtMs: number;
  readonly endedAtMs: number | null;
  /** How many rules have changed since the entry; null before they are counted. */
  readonly total: number | null;
  /**
   * How many of these rules the rollback has compared with their state after the entry, and restored or removed if they
   * differ.
   */
  readonly examined: number;
  readonly changed: number;
}

/** The answer to a rollback that has begun or is done contains the first rules that it has restored. */
export type RollbackReply = RefusedChange | (Done<readonly Rule[]> & { readonly progress: RollbackProgress });

/** Returns the rules of audit entries to what they were before, as new versions. */
export interface Undo {
  /** The numbers of the entries. */
  readonly entries: readonly number[];
  readonly actor: Actor;
  readonly idempotency: RuleCreation["idempotency"];
}

export interface Undone {
  /** The entries of the undo itself, the newest first. */
  readonly entries: readonly AuditEntry[];
  /** The rules that exist again, or have their earlier content again. */
  readonly rules: readonly Rule[];
}
