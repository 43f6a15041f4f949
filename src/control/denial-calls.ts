/** The log of denials: what batches carry of it, queries, and what the control plane object answers. */
import type { DenialReason } from "../limiter/protocol.ts";
import type { OutcomeName } from "./protocol.ts";

/** `key-missing`: a required key part is missing, for which problem responses state the reason `deny`. */
export type LoggedReason = DenialReason | "key-missing";

/** A limit that denied. */
export interface LoggedLimit {
  readonly name: string;
  /** The units that counted when the request was denied. */
  readonly used: number;
  readonly capacity: number;
  /** 0 for a limit without a window. */
  readonly windowMs: number;
}

/** Denials of one key by one policy for one reason. Only the first of them is described. */
interface DenialFacts {
  /** The `instance` of the problem responses: a UUID without `urn:uuid:`. */
  readonly instance: string;
  readonly policy: string;
  /** The partition key; null when a required key part was missing. */
  readonly key: string | null;
  readonly outcome: OutcomeName;
  readonly reason: LoggedReason;
  readonly limits: readonly LoggedLimit[];
  /** Null when waiting did not help. */
  readonly retryAfterMs: number | null;
  readonly bannedForMs: number;
  readonly cost: number;
  readonly colo: string;
  /** The denials that this entry stands for. */
  readonly count: number;
}

/** Denials as a batch carries them. Times count from the end of the batch. */
export interface DenialEntry extends DenialFacts {
  readonly agoMs: number;
  readonly lastAgoMs: number;
  /** The minute in which the isolate counted these denials. Absent in batches of earlier versions. */
  readonly countedInMs?: number;
  /** The plain key, sealed. An isolate sends it at most once an hour for each key, and never when `REVEAL` is off. */
  readonly sealed?: string;
}

/** The denials of one isolate since its previous batch. */
export interface DenialBatch {
  readonly entries: readonly DenialEntry[];
  /** Denials for which the batch had no room, by policy. */
  readonly lost: Readonly<Record<string, number>>;
}

/** Denials as they are stored. */
export interface StoredDenial extends DenialFacts {
  /** The position in the log. */
  readonly seq: number;
  readonly atMs: number;
  /** When the last of `count` denials was. */
  readonly lastAtMs: number;
}

/** A key of a policy. */
export interface DenialKey {
  readonly policy: string;
  readonly key: string;
}

export interface DenialsQuery {
  /** Default: all policies. */
  readonly policy?: string;
  /** Only denials of one of these keys. Default: all. */
  readonly keys?: readonly DenialKey[];
  /** Only denials with this instance. Default: all. */
  readonly instance?: string;
  /** Only entries with a denial from `fromMs` (inclusive) to `toMs` (exclusive). */
  readonly fromMs: number;
  readonly toMs: number;
  /** The entries nearest to this instant, on both sides of it, in place of the newest. */
  readonly nearMs?: number;
  /** Only denials of the key whose partition key begins with this text; none if several keys do. Replaces `keys`. */
  readonly keyPrefix?: string;
  readonly cursor?: string;
  readonly limit: number;
}

/** How far an entry is from an instant; 0 if its denials surround the instant. */
export const awayMs = ({ atMs, lastAtMs }: Pick<StoredDenial, "atMs" | "lastAtMs">, instantMs: number): number =>
  Math.max(0, atMs - instantMs, instantMs - lastAtMs);

/** The keys that a policy denied most from `fromMs` (inclusive) to `toMs` (exclusive). */
export interface DeniedKeysQuery extends Required<Pick<DenialsQuery, "policy" | "fromMs" | "toMs" | "limit">> {
  /** The number of equal parts of the period in which the denials of each key are counted. */
  readonly steps: number;
}

export interface DeniedKeys {
  /** The logged denials of all keys. Decisions by `onError` are not counted. */
  readonly denials: number;
  /** Whether the log has every denial of the period. */
  readonly isComplete: boolean;
  /** The most denied first. */
  readonly keys: readonly { readonly key: string; readonly count: number; readonly steps: readonly number[] }[];
}

export interface LoggedDenials {
  /** The newest first. */
  readonly items: readonly StoredDenial[];
  readonly cursor: string | null;
  /** Denials of the queried policies that were not logged, or no longer are, in the last 24 hours. */
  readonly dropped: number;
  /** From this instant on, no reported denial of the queried policies was dropped. */
  readonly completeSinceMs: number;
  /** Whether denials are logged. */
  readonly isOn: boolean;
  /** Whether there are entries after the newest one of `items`. Only with `nearMs`. */
  readonly hasNewer?: boolean;
  /** The completeness of the log between `nearMs` and the entry nearest to it. Only with `nearMs`. */
  readonly near?: { readonly dropped: number; readonly isComplete: boolean };
  /** The keys that begin with `keyPrefix`, at most 20. Only with `keyPrefix`. */
  readonly keys?: readonly DenialKey[];
}
