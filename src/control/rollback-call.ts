/** The calls about rollbacks. As in protocol.ts, fields are only added. */
import type { Actor, Done, RefusedChange, Rule } from "./protocol.ts";

/** Returns the rules to the state after the audit entry `toSeq`, as new versions. */
export interface Rollback {
  readonly toSeq: number;
  readonly actor: Actor;
  readonly note: string | null;
}

/** How far a rollback is. A long one continues after its answer. */
export interface RollbackProgress extends Rollback {
  /** A failed one has changed nothing: the rules of a policy would be too large. */
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

/** A rollback that was done or has begun is answered with the first rules that it has restored. */
export type RollbackReply = RefusedChange | (Done<readonly Rule[]> & { readonly progress: RollbackProgress });
