/** Lists of limits, meters and charges that many keys share in memory, so that an isolate keeps one copy of each. */
import { type Limit, type Meter, createMeter } from "../strategies/index.ts";
import { BoundedMap } from "../policy/bounded-map.ts";
import type { Charge } from "./protocol.ts";

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

const listByText = new BoundedMap<readonly Limit[]>(mostLists);
const internedByList = new WeakMap<readonly Limit[], readonly Limit[]>();

/** Returns the same list for all equal lists. Each call brings a copy, and a hundred thousand keys need not keep one each. */
export function internedLimits(limits: readonly Limit[]): readonly Limit[] {
  const known = internedByList.get(limits);
  if (known !== undefined) return known;
  const text = JSON.stringify(limits);
  const interned = listByText.get(text) ?? limits;
  listByText.set(text, interned);
  internedByList.set(limits, interned);
  return interned;
}

/** Bound the memory of an isolate: callers may send any number of ad hoc limits. */
const mostTexts = 256;
const mostBytes = 4_000_000;
/** Approximate memory of an entry, and of each character of its text including the parsed values, in bytes. */
const entryBytes = 400;
const characterBytes = 6;

interface InternedCharge {
  readonly text: string;
  /** Has the cost of the latest check, because most checks of a policy have the same cost. */
  charge: Charge;
}

const chargeByText = new BoundedMap<InternedCharge>(mostTexts, {
  mostBytes,
  bytesOf: ({ text }) => entryBytes + text.length * characterBytes,
});

/**
 * The charge of a text with this cost.
 * @throws SyntaxError or TypeError for a text that is not the JSON of a charge
 */
export function internedCharge(text: string, cost: number): Charge {
  const known = chargeByText.get(text);
  if (known?.charge.cost === cost) return known.charge;
  const charge = { ...(known?.charge ?? parsedCharge(text)), cost };
  if (known === undefined) chargeByText.set(text, { text, charge });
  else known.charge = charge;
  return charge;
}

function parsedCharge(text: string): Omit<Charge, "cost"> {
  const charge: Partial<Charge> | null = JSON.parse(text);
  const { policy, limits } = charge ?? {};
  if (typeof policy !== "string" || !Array.isArray(limits)) {
    throw new TypeError(`expected the JSON of a charge with a policy and limits, got ${text.slice(0, 80)}`);
  }
  return { ...charge, policy, limits: internedLimits(limits) };
}
