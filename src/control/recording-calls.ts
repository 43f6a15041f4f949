/** The recording of keys: what operators ask of the control plane object, what isolates get and send, and the answers. */
import { type Actor, type Done, outcomeNames, type PolicyCounts } from "./protocol.ts";

export interface RecordedKey {
  readonly policy: string;
  /** The partition key. */
  readonly key: string;
}

/** The keys of which an isolate counts each outcome. */
export interface RecordedKeyList {
  /** 0 for the empty list of a control plane that has recorded nothing for a day. */
  readonly version: number;
  /** At most 100. `forMs` is the time that is left. */
  readonly keys: readonly (RecordedKey & { readonly forMs: number })[];
}

/** The part of a beat. */
export interface KnownRecordings {
  /** The version of the list of recorded keys that the isolate knows. Default: 0, the empty list. */
  readonly recordedVersion?: number;
}

/** The part of the reply to a beat. */
export interface NewRecordings {
  /** Absent when the isolate knows this version of the list. */
  readonly recorded?: RecordedKeyList;
}

/** By policy and key, of keys that have any. */
export type RecordedOutcomes = Readonly<Record<string, Readonly<Record<string, PolicyCounts["outcomes"]>>>>;

/** The part of a batch of statistics. */
export interface RecordedBatch {
  readonly recorded?: RecordedOutcomes;
}

export interface Recording extends RecordedKey {
  readonly actor: Actor;
}

/** In milliseconds since the Unix epoch. */
export interface RecordedPeriod {
  readonly fromMs: number;
  readonly untilMs: number;
}

/** `recordings-full`: as many keys as possible are recorded; the first recording ends at `nextEndMs`. */
export type RecordingReply =
  | Done<RecordedPeriod>
  | { readonly kind: "recordings-full"; readonly most: number; readonly nextEndMs: number };

/** From `fromMs` (inclusive) to `toMs` (exclusive). */
export interface RecordedQuery extends RecordedKey {
  readonly fromMs: number;
  readonly toMs: number;
}

export interface RecordedCounts {
  /** The recordings of the last 24 hours, the oldest first. The last one may end in the future. */
  readonly periods: readonly RecordedPeriod[];
  /** By minute. There is no point for a minute without requests. */
  readonly points: readonly { readonly atMs: number; readonly outcomes: PolicyCounts["outcomes"] }[];
}

export interface RecordingMethods {
  /** Records a key for an hour from now on, as an audited action. Extends a recording that has not ended. */
  record(call: Recording): RecordingReply;
  /** No-op for a key that is not recorded. */
  stopRecording(call: Recording): void;
  recordedCounts(query: RecordedQuery): RecordedCounts;
}

/** The outcomes that occurred. @param counts in the order of `outcomeNames` */
export const outcomesIn = (counts: ArrayLike<number>): PolicyCounts["outcomes"] =>
  Object.fromEntries(
    outcomeNames.map((name, index) => [name, counts[index] ?? 0] as const).filter(([, count]) => count > 0),
  );
