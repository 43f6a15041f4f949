/** A meter in memory, and the limits that it was last asked with: those of the next call may be others. */
import { createMeter, type Limit, type Meter } from "../strategies/index.ts";
import { BoundedMap } from "./bounded-map.ts";

export interface InternedMeter {
  readonly meter: Meter;
  /** A list of `sharedLimits`. */
  readonly limits: readonly Limit[];
}

/** The meter for a call with these limits: the one that is held, if it can be. */
export function internedMeter(
  limits: readonly Limit[],
  held: InternedMeter | undefined,
): InternedMeter {
  const shared = internedLimits(limits);
  if (held === undefined) return { meter: createMeter(shared), limits: shared };
  return held.limits === shared ? held : { meter: held.meter.withLimits(shared), limits: shared };
}

/** Lists remembered in an isolate; ad hoc limits may be of any number. */
const mostShared = 256;

const sharedByText = new BoundedMap<readonly Limit[]>(mostShared);
const sharedByList = new WeakMap<readonly Limit[], readonly Limit[]>();

/** One list for all that are equal: each call brings a copy, and a hundred thousand keys need not keep one each. */
export function internedLimits(limits: readonly Limit[]): readonly Limit[] {
  const known = sharedByList.get(limits);
  if (known !== undefined) return known;
  const text = JSON.stringify(limits);
  const shared = sharedByText.get(text) ?? limits;
  sharedByText.set(text, shared);
  sharedByList.set(limits, shared);
  return shared;
}
