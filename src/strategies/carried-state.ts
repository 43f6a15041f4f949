/** The states that a meter passes to the next one. Live states are passed without being encoded. */
import type { CompiledLimit } from "./compiled-limit.ts";
import type { Snapshot, StoredLimitState } from "./snapshot.ts";

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
