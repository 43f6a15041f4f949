/**
 * The flat form of checks and their replies: lists of texts and numbers, which cost much less to serialise than nested
 * objects. Isolates and objects both know a charge's limits, so a reply leaves out their constant fields. An object answers
 * checks here; isolate/key-group.ts encodes checks, and decodes the replies.
 *
 * - A charge without its cost is a JSON text, which an isolate makes once for each policy and an object parses once.
 * - A check consists of partition key, `provisionalMs`, index in `checkKinds`, number of charges, and for each charge the index of
 *   its text and its cost. In calls with trees, each charge also has the index of its partition key; the first value of a
 *   check is then the key of the root.
 * - A reply consists of `firmForMs` (0: not firm), and for each charge `spentAtMs`, `delayMs`, `bannedForMs`, `retryAfterMs` and
 *   `allowed`, followed for each limit by `allowed`, `remaining`, `retryAfterMs`, `replenishAfterMs`, `resetAfterMs` and
 *   `windowMs`. A wait of null is -1. Any other reply is one text: the JSON of a `CheckReply` or of a `FlatError`.
 */
import { BoundedMap } from "../policy/caches.ts";
import type { Durability } from "../policy/policy.ts";
import { internedLimits } from "../strategies/index.ts";
import { type Charge, type CheckCall, type CheckReply, defaultFirmMs } from "./protocol.ts";

export type FlatList = readonly (string | number)[];

/** Replaces the reply to a check that the object could not decide. */
export interface FlatError {
  readonly error: { readonly name: string; readonly message: string };
}

/** Calls contain the index of a kind, so the order never changes. */
export const checkKinds = ["look", "relaxed", "confirmed"] as const satisfies ("look" | Durability)[];

const valuesBeforeCharges = 4;
const valuesOfCharge = 2;
const valuesOfTreeCharge = 3;

/**
 * Decides the checks of a call in their order. An error fails only its own check.
 * @param keys the partition keys of the charges, in a call with trees
 */
export function answerChecks(
  texts: readonly string[],
  checks: FlatList,
  answer: (call: CheckCall, isLook: boolean) => CheckReply,
  keys: readonly string[] | null = null,
): FlatList {
  const step = keys === null ? valuesOfCharge : valuesOfTreeCharge;
  const replies: (string | number)[] = [];
  for (let at = 0; at < checks.length;) {
    const key = String(checks[at]);
    const provisionalMs = numberAt(checks, at + 1);
    const kind = checkKinds[numberAt(checks, at + 2)] ?? "relaxed";
    const firstCharge = at + valuesBeforeCharges;
    at = firstCharge + step * numberAt(checks, at + 3);
    const answered = replies.length;
    try {
      const charges: Charge[] = [];
      for (let index = firstCharge; index < at; index += step) {
        const text = texts[numberAt(checks, index)] ?? "";
        const charge = chargeFrom(text, numberAt(checks, index + 1));
        charges.push(keys === null ? charge : { ...charge, key: keys[numberAt(checks, index + 2)] ?? key });
      }
      const durability = kind === "confirmed" ? kind : "relaxed";
      const call = { key, charges, durability, provisionalMs } as const;
      pushReply(replies, charges, answer(call, kind === "look"));
    } catch (error) {
      replies.length = answered;
      replies.push(JSON.stringify(flatError(error)));
    }
  }
  return replies;
}

/** Bound the memory of an isolate: callers may send any number of ad hoc limits. */
const mostTexts = 256;
const mostBytes = 4_000_000;
/** Approximate memory of an entry, and of each character of its text including the parsed values, in bytes. */
const entryBytes = 400;
const characterBytes = 6;

/** Each cached charge has the cost of its latest check, because most checks of a policy have the same cost. */
const chargeByText = new BoundedMap<{ readonly text: string; charge: Charge }>(mostTexts, {
  mostBytes,
  bytesOf: ({ text }) => entryBytes + text.length * characterBytes,
});

/**
 * The charge of a text with this cost.
 * @throws SyntaxError or TypeError for a text that is not the JSON of a charge
 */
function chargeFrom(text: string, cost: number): Charge {
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

/** @throws TypeError, which fails the whole call, because the position of the next check is unknown */
function numberAt(values: FlatList, index: number): number {
  const value = values[index];
  if (typeof value === "number" && value >= 0) return value;
  throw new TypeError(`expected a number as value ${index} of the checks, got ${typeof value}`);
}

const flatError = (error: unknown): FlatError => {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  return { error: { name, message } };
};

function pushReply(replies: (string | number)[], charges: readonly Charge[], reply: CheckReply): void {
  if (!isNumeric(charges, reply)) {
    replies.push(JSON.stringify(reply));
    return;
  }
  replies.push(reply.isFirm === true ? (reply.firmForMs ?? defaultFirmMs) : 0);
  // Plain loops: this runs on every decision.
  for (let index = 0; index < reply.decisions.length; index++) {
    const decision = reply.decisions[index];
    if (decision === undefined) continue;
    const { delayMs, bannedForMs, retryAfterMs, allowed, limits } = decision;
    const spentAtMs = reply.spentAtMs[index] ?? 0;
    replies.push(spentAtMs, delayMs, bannedForMs, retryAfterMs ?? -1, allowed ? 1 : 0);
    for (const limit of limits) {
      replies.push(
        limit.allowed ? 1 : 0,
        limit.remaining,
        limit.retryAfterMs ?? -1,
        limit.replenishAfterMs,
        limit.resetAfterMs,
        limit.windowMs,
      );
    }
  }
}

const numericFields = new Set<string>(["decisions", "spentAtMs", "isFirm", "firmForMs"] satisfies (keyof CheckReply)[]);

/** Whether numbers alone can express the reply. */
const isNumeric = (charges: readonly Charge[], reply: CheckReply): boolean =>
  Object.keys(reply).every((field) => numericFields.has(field)) &&
  reply.decisions.length === charges.length &&
  reply.decisions.every(
    ({ cost, limits, reason }, index) =>
      reason === undefined && cost === charges[index]?.cost && limits.length === charges[index]?.limits.length,
  );
