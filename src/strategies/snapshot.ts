/**
 * The states that leave a meter: unencoded when the next meter takes them over, or in the stored form
 * `[version, seenMs, …states]`, where each state is `[identity, idleAfterMs, data]`.
 *
 * - Durations count from `seenMs`, because they take fewer bytes than instants.
 * - `data` is a text, or a list of texts for a long state.
 * - The state of an absent limit has a fourth field: `seenMs` minus the time at which its data was written.
 * - Data about open reservations follows its state as `["+", 0, text]`.
 */
import { isCount, isInstant } from "./integers.ts";
import type { CompiledLimit } from "./compiled-limit.ts";

const version = 2;

const openIdentity = "+";

/** The state of a limit as its strategy encoded it. */
interface StoredLimitState {
  readonly identity: string;
  readonly data: unknown;
  /** Data about open reservations; "" for none. */
  readonly open: string;
  /** The latest time that the meter had seen when the data was written. */
  readonly writtenAtMs: number;
  readonly idleAtMs: number;
}

interface Snapshot {
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

/** A state that is not encoded, with the limit that can encode it. */
interface LiveState extends Omit<StoredLimitState, "data" | "open"> {
  readonly compiled: CompiledLimit;
  readonly state: unknown;
}

export type CarriedState = StoredLimitState | LiveState;

export interface CarriedStates extends Omit<Snapshot, "states"> {
  readonly states: readonly CarriedState[];
}

export const noCarriedStates: CarriedStates = { seenMs: 0, states: [] };

const isLive = (carried: CarriedState): carried is LiveState => "compiled" in carried;

/** @param seenMs the latest time that the meter has seen */
export function liveState(compiled: CompiledLimit, state: unknown, seenMs: number): CarriedState {
  const idleAtMs = compiled.strategy.idleAtMs(compiled.limit, state);
  return { identity: compiled.identity, compiled, state, writtenAtMs: seenMs, idleAtMs };
}

/** The state encoded for a snapshot. */
export function storedState(carried: CarriedState): StoredLimitState {
  if (!isLive(carried)) return carried;
  const { identity, compiled, state, writtenAtMs, idleAtMs } = carried;
  const { strategy, limit } = compiled;
  const data = strategy.store(limit, state, writtenAtMs);
  const open = strategy.reservations?.store(limit, state, writtenAtMs) ?? "";
  return { identity, data, open, writtenAtMs, idleAtMs };
}

/** The state for a limit of the same identity; null if its stored data is invalid. */
export function stateFor({ strategy, limit }: CompiledLimit, carried: CarriedState): unknown {
  if (!isLive(carried)) {
    return strategy.restore(limit, carried.data, carried.writtenAtMs, carried.open);
  }
  const { compiled, state, writtenAtMs } = carried;
  return compiled.limit === limit ? state : strategy.adapt(limit, state, compiled.limit, writtenAtMs);
}

/** Whether the data has the shape of a stored state. Its strategy validates the content when a meter has the limit. */
export function isWellFormed(carried: CarriedState): boolean {
  if (isLive(carried) || typeof carried.data === "string") return true;
  return Array.isArray(carried.data) && carried.data.every((text) => typeof text === "string");
}

/**
 * A meter keeps at most `mostStates` states of absent limits. It always keeps `fewStates` of them, whatever their
 * size in bytes.
 */
const mostStates = 256;
const fewStates = 8;
const mostStatesBytes = 1_000_000;

/** The states of absent limits that a meter keeps: those that become idle last. */
export function boundedStates(states: readonly CarriedState[]): readonly CarriedState[] {
  if (states.length <= fewStates) return states;
  let sizeBytes = 0;
  return states
    .toSorted((a, b) => b.idleAtMs - a.idleAtMs)
    .slice(0, mostStates)
    .filter((state, index) => {
      sizeBytes += stateBytes(state);
      return index < fewStates || sizeBytes <= mostStatesBytes;
    });
}

const bytesPerState = 200;
/** A live state may hold the last reference to its compiled limit. */
const bytesPerCompiledLimit = 900;

/** Approximate memory of a carried state. */
export function stateBytes(carried: CarriedState): number {
  if (isLive(carried)) {
    const { compiled, state } = carried;
    return bytesPerState + bytesPerCompiledLimit + compiled.strategy.sizeBytes(state);
  }
  const texts: readonly unknown[] = Array.isArray(carried.data) ? carried.data : [carried.data];
  return texts.reduce<number>(
    (sum, text) => sum + (typeof text === "string" ? text.length : 0),
    bytesPerState + carried.identity.length + carried.open.length,
  );
}
