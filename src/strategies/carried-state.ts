/** States on their way from one meter to the next: as their strategies wrote them, or live, which costs nothing. */
import { type CompiledLimit } from "./compiled-limit.ts";
import type { Snapshot, StoredState } from "./snapshot.ts";
import type { Stored } from "./strategy.ts";

/** A state as it is, to be written by the limit it was made for. */
interface LiveState extends Omit<StoredState, "data" | "open"> {
  readonly rule: CompiledLimit;
  readonly state: unknown;
}

export type KeptState = StoredState | LiveState;

/** What a meter takes over from another. */
export interface CarriedState extends Omit<Snapshot, "states"> {
  readonly states: readonly KeptState[];
}

export const noCarriedState: CarriedState = { seenMs: 0, states: [] };

const isLive = (kept: KeptState): kept is LiveState => "rule" in kept;

/** @param seenMs the latest time that the meter has seen */
export function liveState(rule: CompiledLimit, state: unknown, seenMs: number): KeptState {
  const idleAtMs = rule.strategy.idleAtMs(rule.limit, state);
  return { identity: rule.identity, rule, state, writtenAtMs: seenMs, idleAtMs };
}

export function storedState(kept: KeptState): StoredState {
  if (!isLive(kept)) return kept;
  const { identity, writtenAtMs, idleAtMs } = kept;
  return { identity, ...textsOf(kept), writtenAtMs, idleAtMs };
}

/**
 * The state for a rule of the same identity; null where it is not one of its states. A live one is taken over whatever
 * the number of units is: no work depends on the size of the state.
 */
export function stateFor({ strategy, limit }: CompiledLimit, kept: KeptState): unknown {
  if (!isLive(kept)) return strategy.revive(limit, kept.data, kept.writtenAtMs, kept.open);
  const { rule, state, writtenAtMs } = kept;
  return rule.limit === limit ? state : strategy.adapt(limit, state, rule.limit, writtenAtMs);
}

/** Whether its strategy may have written it; that is found out when a meter is given its limit. */
export const isKeepable = (kept: KeptState): boolean => isLive(kept) || isStored(kept.data);

const isStored = (data: unknown): data is Stored =>
  typeof data === "string" ||
  (Array.isArray(data) && data.every((text) => typeof text === "string"));

function textsOf({ rule, state, writtenAtMs }: LiveState): Pick<StoredState, "data" | "open"> {
  const { strategy, limit } = rule;
  return {
    data: strategy.store(limit, state, writtenAtMs),
    open: strategy.reservations?.store(limit, state, writtenAtMs) ?? "",
  };
}

/**
 * A meter keeps so many states of limits it was not given, and of more than a few so many bytes: of more, those that will
 * be idle first are forgotten.
 */
const mostForeign = 256;
const fewForeign = 8;
const mostForeignBytes = 1_000_000;

export function lastIdle(states: readonly KeptState[]): readonly KeptState[] {
  if (states.length <= fewForeign) return states;
  let sizeBytes = 0;
  return states
    .toSorted((a, b) => b.idleAtMs - a.idleAtMs)
    .slice(0, mostForeign)
    .filter((state, index) => {
      sizeBytes += sizeOfKept(state);
      return index < fewForeign || sizeBytes <= mostForeignBytes;
    });
}

/** A live one may be the last to hold its limit, and what follows from it. */
const bytesOfKept = 200;
const bytesOfRule = 900;

/** About what it takes of memory. */
export function sizeOfKept(kept: KeptState): number {
  if (isLive(kept)) return bytesOfKept + bytesOfRule + kept.rule.strategy.sizeBytes(kept.state);
  const texts: readonly unknown[] = Array.isArray(kept.data) ? kept.data : [kept.data];
  return texts.reduce<number>(
    (sum, text) => sum + (typeof text === "string" ? text.length : 0),
    bytesOfKept + kept.identity.length + kept.open.length,
  );
}
