/**
 * Charges that isolates send as texts. Objects parse a text once, because each check of a policy has the same text.
 */
import { BoundedMap } from "../../policy/bounded-map.ts";
import { internedLimits } from "../interned-limits.ts";
import type { Charge } from "../protocol.ts";

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

const internedByText = new BoundedMap<InternedCharge>(mostTexts, {
  mostBytes,
  bytesOf: ({ text }) => entryBytes + text.length * characterBytes,
});

/**
 * The charge of a text with this cost.
 * @throws SyntaxError or TypeError for a text that is not the JSON of a charge
 */
export function internedCharge(text: string, cost: number): Charge {
  const known = internedByText.get(text);
  if (known?.charge.cost === cost) return known.charge;
  const charge = { ...(known?.charge ?? parsedCharge(text)), cost };
  if (known === undefined) internedByText.set(text, { text, charge });
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
