/**
 * The stored form of a meter: `[version, seenMs, …states]`, where each state is `[identity, idleAfterMs, data]`.
 *
 * - Durations count from `seenMs`, because they take fewer bytes than instants.
 * - `data` is a text, or a list of texts for a long state.
 * - The state of an absent limit has a fourth field: `seenMs` minus the time at which its data was written.
 * - Data about open reservations follows its state as `["+", 0, text]`. The previous version reads this as the idle state
 *   of another limit and drops it on its next write.
 */
import { isCount, isInstant } from "./integers.ts";

const version = 2;

const openIdentity = "+";

/** The state of a limit as its strategy encoded it. */
export interface StoredLimitState {
  readonly identity: string;
  readonly data: unknown;
  /** Data about open reservations; "" for none. */
  readonly open: string;
  /** The latest time that the meter had seen when the data was written. */
  readonly writtenAtMs: number;
  readonly idleAtMs: number;
}

export interface Snapshot {
  readonly seenMs: number;
  readonly states: readonly StoredLimitState[];
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

/** The snapshot in a stored value; null if the value is not a snapshot of this version. */
export function readSnapshot(stored: unknown): Snapshot | null {
  if (!Array.isArray(stored)) return null;
  const [storedVersion, seenMs, ...written]: unknown[] = stored;
  if (storedVersion !== version || !isInstant(seenMs)) return null;
  const states: StoredLimitState[] = [];
  for (const each of written) {
    const state = readState(each, seenMs);
    if (state === null) return null;
    if (state.identity !== openIdentity) states.push(state);
    else if (!attachOpen(states, state)) return null;
  }
  return { seenMs, states };
}

/** Adds data about open reservations to the last state; false if the data is invalid or does not belong to it. */
function attachOpen(states: StoredLimitState[], { data }: StoredLimitState): boolean {
  const state = states.pop();
  if (state === undefined || state.open !== "" || typeof data !== "string" || data === "") {
    return false;
  }
  states.push({ ...state, open: data });
  return true;
}

function readState(stored: unknown, seenMs: number): StoredLimitState | null {
  if (!Array.isArray(stored) || stored.length < 3 || stored.length > 4) return null;
  const [identity, idleAfterMs, data, ageMs = 0]: unknown[] = stored;
  if (typeof identity !== "string" || !isCount(idleAfterMs)) return null;
  if (!Number.isSafeInteger(ageMs)) return null;
  const writtenAtMs = seenMs - Number(ageMs);
  const idleAtMs = seenMs + idleAfterMs;
  if (!isInstant(writtenAtMs) || !isCount(idleAtMs)) return null;
  return { identity, data, open: "", writtenAtMs, idleAtMs };
}

/**
 * A copy of a snapshot in which a number replaces the text of each sealed segment, so that each text can be stored once.
 * A value that is not a snapshot is returned unchanged.
 */
export const detachSegments = (snapshot: unknown, numberOf: (text: string) => number): unknown =>
  mapSegments(snapshot, (segment) => (typeof segment === "string" ? numberOf(segment) : segment));

/** Reverses `detachSegments`. A number without a text stays, and `createMeter` rejects its state. */
export const attachSegments = (stored: unknown, textOf: (number: number) => string | undefined): unknown =>
  mapSegments(stored, (segment) => (isCount(segment) ? (textOf(segment) ?? segment) : segment));

/** A copy of a snapshot with each sealed segment replaced. In a list of texts, all but the last are sealed segments. */
function mapSegments(stored: unknown, change: (segment: unknown) => unknown): unknown {
  if (!Array.isArray(stored) || stored[0] !== version) return stored;
  const mapData = (data: unknown): unknown =>
    Array.isArray(data) ? data.map((part: unknown, index) => (index < data.length - 1 ? change(part) : part)) : data;
  return stored.map((state: unknown, index) =>
    index > 1 && Array.isArray(state)
      ? state.map((field: unknown, place) => (place === 2 ? mapData(field) : field))
      : state,
  );
}
