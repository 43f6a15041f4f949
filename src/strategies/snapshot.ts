/**
 * What a meter leaves in storage: `[version, seenMs, …states]`, each state `[identity, idleAfterMs, data]`, and for one
 * that the meter was not given, how long before `seenMs` its data was written (below 0 when after). Durations count from
 * `seenMs`: they take fewer bytes than instants do. Data are a text, or of a long state a list of texts.
 *
 * What a state keeps of open reservations follows it as `["+", 0, text]`. Versions that do not know it take it for the
 * state of another limit that is idle, and leave it out when they write: what they have changed it no longer fits.
 */
import { isCount, isInstant } from "./integers.ts";

const version = 2;

const openIdentity = "+";

/** The state of a limit as its strategy wrote it. */
export interface StoredState {
  readonly identity: string;
  readonly data: unknown;
  /** What it keeps of open reservations; "" for nothing. */
  readonly open: string;
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
  for (const { identity, data, open, writtenAtMs, idleAtMs } of states) {
    const state = [identity, idleAtMs - seenMs, data];
    if (writtenAtMs !== seenMs) state.push(seenMs - writtenAtMs);
    written.push(state);
    if (open !== "") written.push([openIdentity, 0, open]);
  }
  return written;
}

/** Null for what no meter of this version wrote. */
export function readSnapshot(stored: unknown): Snapshot | null {
  if (!Array.isArray(stored)) return null;
  const [storedVersion, seenMs, ...written]: unknown[] = stored;
  if (storedVersion !== version || !isInstant(seenMs)) return null;
  const states: StoredState[] = [];
  for (const each of written) {
    const state = readState(each, seenMs);
    if (state === null) return null;
    if (state.identity !== openIdentity) states.push(state);
    else if (!addOpen(states, state)) return null;
  }
  return { seenMs, states };
}

/** Adds what was kept of open reservations to the state that it follows. @returns whether it can belong to it */
function addOpen(states: StoredState[], { data }: StoredState): boolean {
  const state = states.pop();
  if (state === undefined || state.open !== "" || typeof data !== "string" || data === "") {
    return false;
  }
  states.push({ ...state, open: data });
  return true;
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
  return { identity, data, open: "", writtenAtMs, idleAtMs };
}
