/** The arguments and answers of `/check` and of the service binding. A contract test compares them with the server's. */

/** A limit as an object. The other fields are those of its strategy. */
export interface LimitInput {
  readonly limit: number;
  readonly window: string;
  readonly strategy?: string;
  readonly name?: string;
  readonly [option: string]: unknown;
}

/** A key under a policy. */
export interface KeyInput {
  /** May be left out when there is only one policy. */
  readonly policy?: string | undefined;
  /** One text for each part of the policy's key. */
  readonly key?: string | readonly string[] | undefined;
}

export type ForgetInput = KeyInput;

/** The value of an attribute. A list holds the values of a repeated field, or of a claim that is a list. */
export type AttributeValue = Scalar | readonly Scalar[];
type Scalar = string | number | boolean;

/** A check under a policy. Ad hoc limits are looked at by `check` with a cost of 0. */
export interface LookInput extends KeyInput {
  /** An integer from 0 to 1,000,000, 1 by default. */
  readonly cost?: number | undefined;
  /** By the name of a key part. The policy's `overrides`, `allow` and `deny` are matched against these and the key. */
  readonly attributes?: Readonly<Record<string, AttributeValue>> | undefined;
}

/** A check under a policy, or under the ad hoc limits in `limits`. */
export interface CheckInput extends LookInput {
  readonly limits?: string | LimitInput | readonly (string | LimitInput)[] | undefined;
  /** The strategy of ad hoc limits that name none. */
  readonly strategy?: string | undefined;
}

export interface ReserveInput extends CheckInput {
  /** How long the reservation can be settled: an integer from 1,000 to 86,400,000. */
  readonly ttlMs: number;
}

export interface SettleInput {
  /** The id in the answer to `reserve`. Null, when nothing was reserved, settles nothing and sends nothing. */
  readonly id: string | null;
  /** The actual cost. */
  readonly cost: number;
}

export interface BatchInput {
  /** From 1 to 100 checks. */
  readonly checks: readonly CheckInput[];
}

/** The decision of one limit. All durations count from the instant of the decision. */
export interface LimitDecision {
  name: string;
  strategy: string;
  /** Units per window. */
  limit: number;
  /** The most units that could be charged at one instant. */
  capacity: number;
  windowMs: number;
  /** Whether this limit alone would have allowed the cost. */
  allowed: boolean;
  /** Whole units that could be charged now, after this decision. */
  remaining: number;
  /** 0 if allowed; else the least wait after which this cost fits; null if it never can. */
  retryAfterMs: number | null;
  /** Until `remaining` next grows; 0 when `remaining` equals `capacity`. */
  replenishAfterMs: number;
  /** Until `remaining` equals `capacity`. */
  resetAfterMs: number;
}

export type DenialReason = "limit" | "ban" | "deny" | "cost" | "reservations" | "delay";

/** The answer to a check. A denial is an answer, and no error. */
export interface CheckAnswer {
  /** Whether every limit allows the cost. */
  allowed: boolean;
  cost: number;
  /** How long to delay an allowed request; more than 0 only for a leaky-bucket queue. */
  delayMs: number;
  /** 0 if allowed; else the least wait after which this cost fits; null if it never can. */
  retryAfterMs: number | null;
  /** More than 0 while a ban denies the key. */
  bannedForMs: number;
  limits: LimitDecision[];
  policy: string;
  /** Why the check is denied; if allowed, whether by the limits, an `allow` list, dry run or a policy that is off. */
  reason: DenialReason | "allow" | "dry-run" | "off";
  /** The names of the limits that deny; empty when a ban or a `deny` list denies. */
  violated: string[];
  /** Header fields to pass on to the client. */
  headers: {
    readonly "RateLimit-Policy"?: string;
    readonly RateLimit?: string;
    readonly "Retry-After"?: string;
  };
}

export interface ReserveAnswer extends CheckAnswer {
  /** Identifies the reservation; null when nothing was reserved, so that there is nothing to settle. */
  id: string | null;
}

export interface SettleAnswer {
  /** False when the reservation is unknown, expired or already settled. */
  settled: boolean;
}

export interface BatchAnswer {
  /** In the order of the checks: the answer, or the problem of this check alone. */
  results: (CheckAnswer | { problem: Problem })[];
}

/** Problem details (RFC 9457). */
export interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly reason?: DenialReason;
  readonly "violated-policies"?: readonly string[];
  readonly missing_parts?: readonly string[];
  /** The invalid fields. */
  readonly errors?: readonly { readonly field: string; readonly accepted: string }[];
}
