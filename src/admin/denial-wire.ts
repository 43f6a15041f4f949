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
}

export interface FoundDenials extends DenialLogState {
  /** The denial that was sought; null when the log does not have it. */
  readonly denial: DenialView | null;
  /** The denials of its key by its policy among the found ones, and the first of them. */
  readonly count: number;
  readonly since: string | null;
  /** At most 200, the newest first. */
  readonly denials: readonly DenialView[];
  /** Null when the log has no older denials of the search. `GET /denials` continues here. */
  readonly next: string | null;
  /** The keys that were sought: one for each policy that the key fits. */
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
