/** Meters in memory, and the one copy of each list of limits that they share. */
import { createMeter, type Limit, type Meter } from "../strategies/index.ts";
import { BoundedMap } from "../policy/bounded-map.ts";

export interface InternedMeter {
  readonly meter: Meter;
  /** A list of `internedLimits`. */
  readonly limits: readonly Limit[];
}

/** Returns a meter for these limits: `before` itself if it has them, else one that takes over its state. */
export function internedMeter(limits: readonly Limit[], before: InternedMeter | undefined): InternedMeter {
  const interned = internedLimits(limits);
  if (before === undefined) return { meter: createMeter(interned), limits: interned };
  if (before.limits === interned) return before;
  return { meter: before.meter.withLimits(interned), limits: interned };
}

/** Bounds the memory of an isolate: callers may send any number of ad hoc limits. */
const mostLists = 256;

const internedByText = new BoundedMap<readonly Limit[]>(mostLists);
const internedByList = new WeakMap<readonly Limit[], readonly Limit[]>();

/** Returns the same list for all equal lists. Each call brings a copy, and a hundred thousand keys need not keep one each. */
export function internedLimits(limits: readonly Limit[]): readonly Limit[] {
  const known = internedByList.get(limits);
  if (known !== undefined) return known;
  const text = JSON.stringify(limits);
  const interned = internedByText.get(text) ?? limits;
  internedByText.set(text, interned);
  internedByList.set(limits, interned);
  return interned;
}
