/**
 * What a meter leaves in storage: `[version, seenMs, …states]`, each state `[identity, idleAfterMs, data]`, and for one
 * that the meter was not given, how long before `seenMs` its data was written (below 0 when after). Durations count from
 * `seenMs`: they take fewer bytes than instants do. Data are a text, or of a long state a list of texts.
 */
import { isCount, isInstant } from "./integers.ts";

const version = 2;

/** The state of a limit as its strategy wrote it. */
export interface StoredState {
  readonly identity: string;
  readonly data: unknown;
  /** The latest instant that was known when it was written. */
  readonly writtenAtMs: number;
  readonly idleAtMs: number;
}

export interface Snapshot {
  readonly seenMs: number;
  readonly states: readonly StoredState[];
}

export function writeSnapshot({ seenMs, states }: Snapshot): unknown {
  const written: unknown[] = [version, seenMs];
  for (const { identity, data, writtenAtMs, idleAtMs } of states) {
    const state = [identity, idleAtMs - seenMs, data];
    if (writtenAtMs !== seenMs) state.push(seenMs - writtenAtMs);
    written.push(state);
  }
  return written;
}

/** Null for what no meter of this version wrote. */
export function readSnapshot(stored: unknown): Snapshot | null {
  if (!Array.isArray(stored)) return null;
  const [storedVersion, seenMs, ...written]: unknown[] = stored;
  if (storedVersion !== version || !isInstant(seenMs)) return null;
  const states = written.map((state) => readState(state, seenMs)).filter((state) => state !== null);
  return states.length === written.length ? { seenMs, states } : null;
}

/** A copy of what `writeSnapshot` answered in which the data of each state are others; anything else as it is. */
export function eachData(stored: unknown, change: (data: unknown) => unknown): unknown {
  if (!Array.isArray(stored) || stored[0] !== version) return stored;
  return stored.map((state: unknown, index) =>
    index > 1 && Array.isArray(state)
      ? state.map((field: unknown, place) => (place === 2 ? change(field) : field))
      : state,
  );
}

function readState(stored: unknown, seenMs: number): StoredState | null {
  if (!Array.isArray(stored) || stored.length < 3 || stored.length > 4) return null;
  const [identity, idleAfterMs, data, ageMs = 0]: unknown[] = stored;
  if (typeof identity !== "string" || !isCount(idleAfterMs)) return null;
  if (!Number.isSafeInteger(ageMs)) return null;
  const writtenAtMs = seenMs - Number(ageMs);
  const idleAtMs = seenMs + idleAfterMs;
  if (!isInstant(writtenAtMs) || !isCount(idleAtMs)) return null;
  return { identity, data, writtenAtMs, idleAtMs };
}
