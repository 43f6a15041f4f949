/**
 * The arguments and answers of `/check` and of the service binding, the error of a call without an answer, and the
 * check of an answer's shape. A contract test compares these types with those of the server.
 */

/** A limit as an object. The other fields are those of its strategy. */
export interface LimitInput {
  /** Units per window, from 1. */
  readonly limit: number;
  /** A duration such as `"30s"`, or `"month"` or `"year"`. */
  readonly window: string;
  /**
   * How the limit counts.
   * @default that of the check
   */
  readonly strategy?: string;
  /**
   * The name in the RateLimit fields.
   * @default derived from the limit
   */
  readonly name?: string;
  readonly [option: string]: unknown;
}

/** A key under a policy, or under ad hoc limits of one name. */
export interface ForgetInput {
  /**
   * The name of a policy of Headgate.
   * @default the only policy
   */
  readonly policy?: string | undefined;
  /**
   * The key: a text, or one for each part of the policy's key.
   * @default none, for `global`
   */
  readonly key?: string | readonly string[] | undefined;
  /**
   * The name of ad hoc limits, in place of a policy; `"adhoc"` for limits without a name.
   * @default none
   */
  readonly name?: string | undefined;
}

/** The value of an attribute. A list holds the values of a repeated field, or of a claim that is a list. */
type AttributeValue = Scalar | readonly Scalar[];
type Scalar = string | number | boolean;

/** A check under a policy. Ad hoc limits are looked at by `check` with a cost of 0. */
export interface LookInput extends Omit<ForgetInput, "name"> {
  /**
   * The units to charge, an integer from 0 to 1,000,000.
   * @default 1
   */
  readonly cost?: number | undefined;
  /**
   * Properties of the request, by the name of a key part. The policy's `overrides`, `allow` and `deny` are matched
   * against these and the key.
   * @default none
   */
  readonly attributes?: Readonly<Record<string, AttributeValue>> | undefined;
}

/** A check under a policy, or under the ad hoc limits in `limits`. */
export interface CheckInput extends LookInput {
  /**
   * Ad hoc limits, in place of a policy's.
   * @default those of the policy
   */
  readonly limits?: string | LimitInput | readonly (string | LimitInput)[] | undefined;
  /**
   * The strategy of ad hoc limits that name none.
   * @default "sliding-window-counter"
   */
  readonly strategy?: string | undefined;
  /**
   * The name of ad hoc limits. Each name has counters of its own.
   * @default "adhoc"
   */
  readonly name?: string | undefined;
}

/** A check whose cost can be settled later. */
export interface ReserveInput extends CheckInput {
  /** How long it can be settled, 1,000 to 86,400,000 milliseconds. */
  readonly ttlMs: number;
}

/** A reservation with its actual cost. */
export interface SettleInput {
  /** The id in the answer to `reserve`. With null, as when nothing was reserved, nothing is sent and nothing is settled. */
  readonly id: string | null;
  /** The actual cost, an integer from 0 to 1,000,000. */
  readonly cost: number;
}

/** Several checks. */
export interface BatchInput {
  /** The checks, 1 to 100. They are independent. */
  readonly checks: readonly CheckInput[];
}

/** The decision of one limit. All durations count from the instant of the decision. */
export interface LimitDecision {
  /** The name of the limit in the RateLimit fields. */
  name: string;
  /** How the limit counts. */
  strategy: string;
  /** Units per window. */
  limit: number;
  /** The most units that could be charged at one instant. */
  capacity: number;
  /** The window. For a calendar window, it is the current period. */
  windowMs: number;
  /** Whether this limit alone would have allowed the cost. */
  allowed: boolean;
  /** Whole units that could be charged now, after this decision. */
  remaining: number;
  /** The least wait after which this cost fits. It is 0 if allowed, and null if no wait suffices. */
  retryAfterMs: number | null;
  /** The time until `remaining` next grows. It is 0 when `remaining` equals `capacity`. */
  replenishAfterMs: number;
  /** The time until `remaining` equals `capacity`. */
  resetAfterMs: number;
}

/**
 * Why a check is denied. `share`: other keys are guaranteed the rest of a limit of the parent. `class`: the class of the request
 * may not use the rest of the limit. `keys`: the root has too many live keys.
 */
export type DenialReason = "limit" | "ban" | "deny" | "cost" | "reservations" | "delay" | "share" | "class" | "keys";

/** The answer to a check. A denial is an answer, and no error. */
export interface CheckAnswer {
  /** Whether every limit allows the cost. */
  allowed: boolean;
  /** The cost of the check. */
  cost: number;
  /** How long to delay an allowed request. It is more than 0 only for a leaky-bucket queue. */
  delayMs: number;
  /** The least wait after which this cost fits. It is 0 if allowed, and null if no wait suffices. */
  retryAfterMs: number | null;
  /** The rest of a ban of the key; 0 without one. */
  bannedForMs: number;
  /** The decisions of the limits, in the policy's order. */
  limits: LimitDecision[];
  /** The name of the policy. */
  policy: string;
  /** Why the check is denied, or what allows it. It is allowed by the limits, an `allow` list, dry run or a policy that is off. */
  reason: DenialReason | "allow" | "dry-run" | "off";
  /** The names of the limits that deny. The list is empty when a ban or a `deny` list denies. */
  violated: string[];
  /** The header fields to pass on to the client. */
  headers: {
    readonly "RateLimit-Policy"?: string;
    readonly RateLimit?: string;
    readonly "Retry-After"?: string;
  };
  /** Identifies a denial in the log of denials of the control plane. */
  instance?: string;
}

/** The answer to a check whose cost can be settled. */
export interface ReserveAnswer extends CheckAnswer {
  /** The reservation; null when nothing was reserved. */
  id: string | null;
}

/** The answer to a settlement. */
export interface SettleAnswer {
  /** Whether this call has settled the reservation. It has not when the reservation is unknown, expired or already settled. */
  settled: boolean;
}

/** The answers to several checks. */
export interface BatchAnswer {
  /** The answers in the order of the checks. In place of an answer, an item may be the problem of this check alone. */
  results: (CheckAnswer | { problem: Problem })[];
}

/** Problem details (RFC 9457). */
export interface Problem {
  /** The URI of the type of the problem. */
  readonly type: string;
  /** The name of the type. */
  readonly title: string;
  /** The HTTP status. */
  readonly status: number;
  /** The text that says what is wrong and what to do. */
  readonly detail: string;
  /** Identifies a denial in the log of denials of the control plane. */
  readonly instance?: string;
  /** Why a request is denied. */
  readonly reason?: DenialReason;
  /** The names of the limits that deny. */
  readonly "violated-policies"?: readonly string[];
  /** The parts of the key that the request lacks. */
  readonly missing_parts?: readonly string[];
  /** The invalid fields. */
  readonly errors?: readonly { readonly field: string; readonly accepted: string }[];
}

interface ErrorDetails {
  readonly status?: number;
  readonly problem?: Problem | null;
  readonly retryAfterMs?: number | null;
  readonly isSafeToRepeat: boolean;
  readonly cause?: unknown;
}

/** Headgate has rejected the call, or gave no answer that could be read. A denied check is an answer, and no error. */
export class HeadgateError extends Error {
  override readonly name = "HeadgateError";
  /** The HTTP status; null when no answer arrived. Over a service binding, it is that of the problem, or 200. */
  readonly status: number | null;
  /** Problem details (RFC 9457); null when the answer has none. */
  readonly problem: Problem | null;
  /** The advertised wait before the call may be repeated; null if none was advertised. */
  readonly retryAfterMs: number | null;
  /** Whether the same call can be made again without being charged twice. */
  readonly isSafeToRepeat: boolean;

  constructor(message: string, details: ErrorDetails) {
    super(message, details.cause === undefined ? {} : { cause: details.cause });
    this.status = details.status ?? null;
    this.problem = details.problem ?? null;
    this.retryAfterMs = details.retryAfterMs ?? null;
    this.isSafeToRepeat = details.isSafeToRepeat;
  }
}

export interface Answers {
  check: CheckAnswer;
  look: CheckAnswer;
  forget: undefined;
  reserve: ReserveAnswer;
  settle: SettleAnswer;
  batch: BatchAnswer;
}

export type Operation = keyof Answers;

interface Accepted {
  readonly is: (value: unknown) => boolean;
  readonly text: string;
}

type Shape = Readonly<Record<string, Accepted>>;

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const aBoolean: Accepted = { is: (value) => typeof value === "boolean", text: "true or false" };
const aNumber: Accepted = { is: (value) => typeof value === "number", text: "a number" };
const aText: Accepted = { is: (value) => typeof value === "string", text: "a text" };
const anObject: Accepted = { is: isRecord, text: "an object" };
const orNull = ({ is, text }: Accepted): Accepted => ({
  is: (value) => value === null || is(value),
  text: `${text} or null`,
});
const listOf = ({ is, text }: Accepted): Accepted => ({
  is: (value) => Array.isArray(value) && value.every(is),
  text: `a list, each entry ${text}`,
});

const decision: Shape = {
  allowed: aBoolean,
  cost: aNumber,
  delayMs: aNumber,
  retryAfterMs: orNull(aNumber),
  bannedForMs: aNumber,
  limits: listOf(anObject),
  policy: aText,
  reason: aText,
  violated: listOf(aText),
  headers: anObject,
};

const shapes: Readonly<Record<Exclude<Operation, "forget">, Shape>> = {
  check: decision,
  look: decision,
  reserve: { ...decision, id: orNull(aText) },
  settle: { settled: aBoolean },
  batch: { results: listOf(anObject) },
};

const problemShape: Shape = { title: aText, detail: aText };

/** @returns the first field of the answer that is not as expected, what is expected and what came; null if there is none */
export function answerProblem(operation: Operation, answer: unknown): string | null {
  if (operation === "forget") return null;
  const problem = shapeProblem("", shapes[operation], answer);
  if (problem !== null || operation !== "batch") return problem;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its shape has just been verified
  const { results } = answer as BatchAnswer;
  for (const [index, result] of results.entries()) {
    const found =
      "problem" in result
        ? shapeProblem(`results[${index}].problem`, problemShape, result.problem)
        : shapeProblem(`results[${index}]`, decision, result);
    if (found !== null) return found;
  }
  return null;
}

function shapeProblem(path: string, shape: Shape, value: unknown): string | null {
  if (!isRecord(value)) return `expected ${path || "the answer"} to be an object, got ${shown(value)}`;
  for (const [name, { is, text }] of Object.entries(shape)) {
    const field = path === "" ? name : `${path}.${name}`;
    if (!is(value[name])) return `expected ${field} to be ${text}, got ${shown(value[name])}`;
  }
  return null;
}

export const isProblem = (value: unknown): value is Problem => shapeProblem("", problemShape, value) === null;

const longestShown = 80;

/** A value as JSON, shortened. */
export function shown(value: unknown): string {
  const isOtherNumber = typeof value === "number" && !Number.isFinite(value);
  const text = (isOtherNumber ? undefined : JSON.stringify(value)) ?? String(value);
  return text.length > longestShown ? `${text.slice(0, longestShown)}…` : text;
}
