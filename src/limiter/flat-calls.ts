/**
 * The flat form of checks and their replies: lists of texts and numbers, which cost much less to serialise than nested
 * objects. Isolates and objects both know a charge's limits, so a reply leaves out their constant fields.
 *
 * - A charge without its cost is a JSON text, which an isolate makes once for each policy and an object parses once.
 * - A check consists of partition key, `provisionalMs`, index in `checkKinds`, number of charges, and for each charge the index of its text and
 *   its cost.
 * - A reply consists of `firmForMs` (0: not firm), and for each charge `spentAtMs`, `delayMs`, `bannedForMs`, `retryAfterMs` and
 *   `allowed`, followed for each limit by `allowed`, `remaining`, `retryAfterMs`, `replenishAfterMs`, `resetAfterMs` and
 *   `windowMs`. A wait of null is -1. Any other reply is one text: the JSON of a `CheckReply` or of a `FlatError`.
 */
import { BoundedMap } from "../policy/caches.ts";
import type { Durability } from "../policy/policy.ts";
import { compiledLimit, internedLimits, type Decision, type Limit, type LimitDecision } from "../strategies/index.ts";
import { type Charge, type CheckCall, type CheckReply, defaultFirmMs } from "./protocol.ts";

export type FlatList = readonly (string | number)[];

/** The arguments of one call to an object. */
export interface FlatCall {
  /** The distinct charges of the call. */
  readonly texts: readonly string[];
  readonly checks: FlatList;
}

export interface FlatCheck {
  readonly key: string;
  readonly provisionalMs: number;
  /** A look spends nothing. */
  readonly kind: "look" | Durability;
  /** `text` is made by `chargeText`, and has these limits. */
  readonly charges: readonly { readonly text: string; readonly cost: number; readonly limits: readonly Limit[] }[];
}

/** Replaces the reply to a check that the object could not decide. */
interface FlatError {
  readonly error: { readonly name: string; readonly message: string };
}

/** Calls contain the index of a kind, so the order never changes. */
const checkKinds = ["look", "relaxed", "confirmed"] as const satisfies FlatCheck["kind"][];

const valuesBeforeCharges = 4;
const valuesOfCharge = 2;

export function chargeText(whole: Charge): string {
  const { cost: _, ...charge } = whole;
  return JSON.stringify(charge);
}

export function encodeChecks(checks: readonly FlatCheck[]): FlatCall {
  const indexes = new Map<string, number>();
  const values: (string | number)[] = [];
  for (const { key, provisionalMs, kind, charges } of checks) {
    values.push(key, provisionalMs, checkKinds.indexOf(kind), charges.length);
    for (const { text, cost } of charges) {
      let index = indexes.get(text);
      if (index === undefined) {
        index = indexes.size;
        indexes.set(text, index);
      }
      values.push(index, cost);
    }
  }
  return { texts: [...indexes.keys()], checks: values };
}

/** Decides the checks of a call in their order. An error fails only its own check. */
export function answerChecks(
  { texts, checks }: FlatCall,
  answer: (call: CheckCall, isLook: boolean) => CheckReply,
): FlatList {
  const replies: (string | number)[] = [];
  for (let at = 0; at < checks.length;) {
    const key = String(checks[at]);
    const provisionalMs = numberAt(checks, at + 1);
    const kind = checkKinds[numberAt(checks, at + 2)] ?? "relaxed";
    const firstCharge = at + valuesBeforeCharges;
    at = firstCharge + valuesOfCharge * numberAt(checks, at + 3);
    const answered = replies.length;
    try {
      const charges: Charge[] = [];
      for (let index = firstCharge; index < at; index += valuesOfCharge) {
        const text = texts[numberAt(checks, index)] ?? "";
        charges.push(chargeFrom(text, numberAt(checks, index + 1)));
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

/** Each charge has the cost of the latest check, because most checks of a policy have the same cost. */
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
    ({ cost, limits }, index) => cost === charges[index]?.cost && limits.length === charges[index]?.limits.length,
  );

/** @returns one reply for each check, in their order; an error for a check that the object could not decide */
export function decodeReplies(checks: readonly FlatCheck[], values: FlatList): (CheckReply | Error)[] {
  let at = 0;
  const next = (): number => {
    const value = values[at++];
    if (typeof value === "number") return value;
    throw new TypeError(`expected a number as value ${at - 1} of the reply, got ${typeof value}`);
  };
  const replies = checks.map(({ charges }) => {
    const first = values[at];
    if (typeof first !== "string") return replyFrom(next, charges);
    at++;
    const parsed: CheckReply | FlatError = JSON.parse(first);
    return "error" in parsed ? Object.assign(new Error(parsed.error.message), { name: parsed.error.name }) : parsed;
  });
  // If values are left over, earlier values were misread.
  if (values.length > at) throw new TypeError(`expected a reply with ${at} values, got ${values.length}`);
  return replies;
}

function replyFrom(next: () => number, charges: FlatCheck["charges"]): CheckReply {
  const firmForMs = next();
  const decisions: Decision[] = [];
  const spentAtMs: number[] = [];
  for (const charge of charges) {
    spentAtMs.push(next());
    decisions.push(decisionFrom(next, charge));
  }
  if (firmForMs === 0) return { decisions, spentAtMs };
  const isFirm = true;
  return firmForMs === defaultFirmMs ? { decisions, spentAtMs, isFirm } : { decisions, spentAtMs, isFirm, firmForMs };
}

function decisionFrom(next: () => number, { cost, limits }: FlatCheck["charges"][number]): Decision {
  const delayMs = next();
  const bannedForMs = next();
  const retryAfterMs = waitFrom(next);
  const allowed = next() === 1;
  const decided = limits.map((limit) => limitDecisionFrom(next, limit));
  return { allowed, cost, delayMs, retryAfterMs, bannedForMs, limits: decided };
}

function limitDecisionFrom(next: () => number, written: Limit): LimitDecision {
  const { name, strategy, units, capacity } = compiledLimit(written);
  const allowed = next() === 1;
  const remaining = next();
  const retryAfterMs = waitFrom(next);
  const replenishAfterMs = next();
  const resetAfterMs = next();
  const windowMs = next();
  return {
    name,
    strategy: strategy.name,
    limit: units,
    capacity,
    windowMs,
    allowed,
    remaining,
    retryAfterMs,
    replenishAfterMs,
    resetAfterMs,
  };
}

function waitFrom(next: () => number): number | null {
  const waitMs = next();
  return waitMs === -1 ? null : waitMs;
}
