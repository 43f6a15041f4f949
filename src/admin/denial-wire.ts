/** The answers of `/api/denials`, which are a part of `wire.ts`. Types only. */
import type { DeniedKeys, StoredDenial } from "../control/denial-calls.ts";

/** Denials of one key by one policy for one reason. Only the first of them is described. */
export interface DenialView extends Omit<StoredDenial, "seq" | "key" | "atMs" | "lastAtMs"> {
  /** The id of the key; null when a required key part was missing. */
  readonly id: string | null;
  readonly at: string;
  /** When the last of `count` denials was. */
  readonly lastAt: string;
  /** Such as "5 of 5 per minute used; could retry after 23 s". */
  readonly cause: string;
}

interface DenialLogState {
  /** Denials of the queried policies in the last 24 hours that are not in the log. */
  readonly dropped: number;
  /** From this instant on, the log has every denial of the queried policies that isolates have reported. */
  readonly completeSince: string;
  /** False when `DENIALS` is off. */
  readonly isOn: boolean;
}

export interface DenialPage extends DenialLogState {
  /** The newest first. */
  readonly denials: readonly DenialView[];
  readonly next: string | null;
  /** Whether the log has denials of the query after those of the page. Only with `at`. */
  readonly hasNewer?: boolean;
}

export interface FoundDenials extends DenialLogState {
  /** The denial that was sought; null when the log does not have it. */
  readonly denial: DenialView | null;
  /** The denials of its key by its policy among `denials`, and when the first and the last of them were. */
  readonly count: number;
  readonly since: string | null;
  readonly until: string | null;
  /** The distance of the denial from `at`, and the completeness of the log between them; null without `at` or a denial. */
  readonly near: {
    readonly at: string;
    /** How far the denial is from `at`; 0 if its entry surrounds it. */
    readonly awayMs: number;
    /** Denials of that time and of the queried policies that are not in the log. */
    readonly dropped: number;
    /** Whether the log has every denial of that time that isolates have reported. */
    readonly isComplete: boolean;
    /** Such as "The nearest denial is 3 s after the asked time." */
    readonly text: string;
  } | null;
  /** At most 200, the newest first; with `at`, those nearest to it on both sides. */
  readonly denials: readonly DenialView[];
  /** Null when the log has no older denials of the search. `GET /denials` continues here. */
  readonly next: string | null;
  /** Whether the log has later denials of the search. False without `at`. */
  readonly hasNewer: boolean;
  /** The keys that were sought: one for each policy that the key fits, or those whose ids have the sought beginning. */
  readonly keys: readonly { readonly policy: string; readonly id: string }[];
}

/** Denials of a key in the log of denials, also by equal parts of the period. */
export interface LoggedKeyView extends Pick<DeniedKeys["keys"][number], "count" | "steps"> {
  readonly id: string;
}

/** The most denied keys of exactly a period. */
export interface LoggedKeysView extends Pick<DeniedKeys, "denials" | "isComplete"> {
  readonly from: string;
  readonly to: string;
  readonly keys: readonly LoggedKeyView[];
}
