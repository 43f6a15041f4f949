/**
 * A limiter without Hono, and its calls outside of a route: from a queue consumer, a scheduled job, a WebSocket or a Durable
 * Object.
 */
import type { Policy } from "../../policy/policy.ts";
import { callerLevels } from "../../policy/resolve-key.ts";
import type { Check } from "../../http/check/input.ts";
import {
  type CallerContext,
  decideCheck,
  forgetKey,
  look,
  openReservation,
  settleReservation,
} from "../../http/check/operations.ts";
import { type Failure, isFailure, problemError } from "../../http/wire/problems.ts";
import type { DenialReason } from "../../limiter/isolate/outcome.ts";
import type { Decision } from "../../strategies/index.ts";
import { isRecord } from "../../validation/json.ts";
import { ConfigProblems } from "../../validation/problems.ts";
import { environmentReader, noteUse, withNames } from "./environment.ts";
import { inputError, type LimiterMethod, readKeyOf, readLimited, readSettlement } from "./limiter-input.ts";
import type { Limits, PolicyOptions } from "./options.ts";
import { type StatedPolicy, readOptions } from "./read-options.ts";
import { type Clock, platformClock } from "../../limiter/clock.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import { errorText, report } from "../../observability/events.ts";

/** A key under a policy of the limiter. */
export interface LimiterKeyInput {
  /**
   * The name of a policy.
   * @default the only policy
   */
  readonly policy?: string | undefined;
  /**
   * The key: a text, or one for each part of the policy's key. If the option `key` is a function, this is what it would
   * return. A policy with the key `global` has one counter, and ignores it. For a policy within another one, it is the
   * whole key: the texts of the root's key come first.
   * @default none, for `global`
   */
  readonly key?: string | readonly string[] | undefined;
}

/** A check of a key. */
export interface LimiterCheckInput extends LimiterKeyInput {
  /**
   * The units to charge, an integer from 0 to 1,000,000.
   * @default the number in the options, or 1
   */
  readonly cost?: number | undefined;
  /**
   * Limits in place of those in the options. They are required if the option `limits` is a function.
   * @default those of the options
   */
  readonly limits?: Limits | undefined;
  /**
   * Properties of the client, by the name of a key part. The policy's `overrides`, `allow` and `deny` are matched against
   * these and the key.
   * @default none
   */
  readonly attributes?:
    | Readonly<Record<string, string | number | boolean | readonly (string | number | boolean)[]>>
    | undefined;
}

/** A check whose cost can be settled later. */
export interface LimiterReserveInput extends LimiterCheckInput {
  /** How long the cost can be settled, 1,000 to 86,400,000 milliseconds. */
  readonly ttlMs: number;
}

/** A reservation with its actual cost. */
export interface LimiterSettleInput {
  /** The id in the answer to `reserve`. It is null if nothing was reserved, and `settle` then does nothing. */
  readonly id: string | null;
  /** The actual cost, an integer from 0 to 1,000,000. */
  readonly cost: number;
}

/** The answer to a check. A denial is an answer, not an error. */
export interface LimiterAnswer extends Decision {
  /** The name of the policy. */
  readonly policy: string;
  /**
   * Why the check is denied, or what allows it. With `"unavailable"`, the object did not answer and `onError` decided,
   * so `limits` is empty.
   */
  readonly reason: DenialReason | "allow" | "dry-run" | "off" | "unavailable";
  /** The names of the limits that deny. The list is empty when a ban or a `deny` list denies. */
  readonly violated: readonly string[];
  /**
   * The header fields to pass on to a client. They are `RateLimit-Policy`, `RateLimit` and `Retry-After`, if they
   * apply.
   */
  readonly headers: Readonly<Record<string, string>>;
}

/** The answer to a check whose cost can be settled. */
export interface LimiterReserveAnswer extends LimiterAnswer {
  /** The reservation; null when nothing was reserved. */
  readonly id: string | null;
}

/** The answer to a settlement. */
export interface LimiterSettleAnswer {
  /**
   * Whether this call has settled the reservation. It is false for a reservation that is unknown, expired or already
   * settled.
   */
  readonly settled: boolean;
}

/**
 * The calls of a limiter outside of a route. `env` is the environment of the calling Worker or object. Invalid input
 * throws a `TypeError`. A missing binding or secret throws `ConfigProblems`.
 */
export interface LimiterCalls {
  /** Charges the cost if the limits allow it. */
  readonly check: (env: unknown, input: LimiterCheckInput) => Promise<LimiterAnswer>;
  /** Returns what `check` would return, and charges nothing. */
  readonly look: (env: unknown, input: LimiterCheckInput) => Promise<LimiterAnswer>;
  /** Resets a key under one policy. It throws if the object does not answer, and can then be repeated. */
  readonly forget: (env: unknown, input: LimiterKeyInput) => Promise<void>;
  /** Charges a cost that `settle` can correct within `ttlMs`. */
  readonly reserve: (env: unknown, input: LimiterReserveInput) => Promise<LimiterReserveAnswer>;
  /** Corrects a reservation to its actual cost. It throws if the object does not answer, and can then be repeated. */
  readonly settle: (env: unknown, input: LimiterSettleInput) => Promise<LimiterSettleAnswer>;
}

/** @param environmentOf reads an environment that contains these policies */
export function limiterOf(
  stated: readonly StatedPolicy[],
  environmentOf: ReturnType<typeof environmentReader>,
): LimiterCalls {
  const call = async (env: unknown): Promise<CallerContext> => {
    noteUse();
    const environment = environmentOf(env);
    if (isFailure(environment)) throw startError(environment);
    const { runtime } = environment;
    const waitUntil = await waitUntilUnder(runtime.clock);
    runtime.control?.touch(waitUntil);
    // As in the middleware and the proxy, keys have no tenant.
    return { runtime, tenant: null, waitUntil };
  };
  const decider =
    <Input extends LimiterCheckInput>(
      method: "check" | "look" | "reserve",
      decide: (call: CallerContext, check: Check, input: Input) => Promise<LimiterAnswer | Failure>,
    ) =>
    async (env: unknown, input: Input): Promise<LimiterAnswer> => {
      const called = await call(env);
      const { policies } = called.runtime;
      const check = readLimited(method, input, stated, policies);
      const answer = await decide(called, check, input);
      if (!isFailure(answer)) return answer;
      const policy = policies.find(({ name }) => name === check.policy);
      const standIn = policy === undefined ? null : answerToFailure(answer, policy, { policies, cost: check.cost });
      if (standIn === null) throw failureError(method, input, answer);
      return standIn;
    };
  const reserve = decider("reserve", (called, check, { ttlMs }: LimiterReserveInput) =>
    openReservation(called, { ...check, ttlMs }),
  );
  return {
    check: decider("check", decideCheck),
    look: decider("look", look),
    // A successful answer contains the id. The answer that stands for a failure has none, so its id is null.
    reserve: async (env, input) => ({ id: null, ...(await reserve(env, input)) }),
    forget: async (env, input) => {
      const called = await call(env);
      const failure = await forgetKey(called, readKeyOf(input, stated, called.runtime.policies));
      if (failure !== null) throw failureError("forget", input, failure);
    },
    settle: async (env, input) => {
      const { id, cost } = readSettlement(input);
      if (id === null) return { settled: false };
      const answer = await settleReservation(await call(env), { id, cost });
      if (isFailure(answer)) throw failureError("settle", input, answer);
      return answer;
    },
  };
}

/**
 * The answer that stands for a failure that a route answers with 503 or 429, with the same wait. Null for any other
 * failure.
 */
function answerToFailure(
  failure: Failure,
  policy: Policy,
  { policies, cost }: { readonly policies: readonly Policy[]; readonly cost: number },
): LimiterAnswer | null {
  const common = { cost, delayMs: 0, bannedForMs: 0, limits: [], policy: policy.name, violated: [] };
  const denied = (reason: LimiterAnswer["reason"], retryAfterMs: number): LimiterAnswer => ({
    ...common,
    allowed: false,
    reason,
    retryAfterMs,
    headers: { "Retry-After": String(Math.max(1, Math.ceil(retryAfterMs / 1_000))) },
  });
  if (failure.kind === "reservations-full") return denied("reservations", failure.retryAfterMs);
  if (failure.kind !== "undecided") return null;
  const isOpen = callerLevels(policy, policies).every((level) => level.isDryRun) || policy.onError === "open";
  return isOpen
    ? { ...common, allowed: true, reason: "unavailable", retryAfterMs: 0, headers: {} }
    : denied("unavailable", unavailableRetryMs);
}

/** After a failure, an isolate does not call the object again for this time. */
const unavailableRetryMs = 1_000;

const startError = (failure: Failure): Error =>
  failure.kind === "configuration-invalid" ? new ConfigProblems(failure.problems) : problemError(failure);

const failureError = (method: LimiterMethod, input: unknown, failure: Failure): Error =>
  failure.kind === "fields-invalid" ? inputError(method, input, failure.errors) : problemError(failure);

/**
 * Returns a limiter of one or several policies for a Worker without Hono. Its options are those of `rateLimit`, but
 * functions in them are never called. Policies with the same name and options share their counters. Without the option
 * `key`, a key is any text, as with a function. The Worker has a binding `RATE_LIMITER` of the class `RateLimiter` from
 * `headgate/object`, and the secret `KEY_SECRET`.
 * @throws ConfigProblems with every problem in the options
 */
export function createLimiter(...options: readonly PolicyOptions[]): LimiterCalls {
  const policies = withNames(readOptions(options.map(withKey), "createLimiter"));
  return limiterOf(policies, environmentReader(policies));
}

/** The default key is not an address, because there is no request: the caller passes the key as text. */
const withKey = (options: unknown): unknown =>
  isRecord(options) && options["key"] === undefined ? { ...options, key: givenText } : options;

/** Marks a key that the caller passes as text. It is never called. */
const givenText = (): null => null;

/**
 * The platform's function; null if the platform has none, so that nothing keeps work alive; undefined before the first
 * use.
 */
let ofPlatform: WaitUntil | null | undefined;

/**
 * Returns the function that keeps the running handler of a Worker or an object alive for work. Every handler can import
 * it from `cloudflare:workers`, so callers need not pass their context. Tests with a virtual clock wait for the work
 * themselves.
 */
async function waitUntilUnder(clock: Clock): Promise<WaitUntil> {
  if (clock !== platformClock) return unattended;
  // The function itself is kept, not a promise of it: a handler must not wait for a promise that another handler
  // created.
  if (ofPlatform === undefined) ofPlatform = await platformWaitUntil();
  return ofPlatform ?? unattended;
}

async function platformWaitUntil(): Promise<WaitUntil | null> {
  try {
    const { waitUntil } = await import("cloudflare:workers");
    return typeof waitUntil === "function" ? (work) => waitUntil(work) : null;
  } catch {
    // Node and browsers do not have the module.
    return null;
  }
}

/** For runtimes without such a function, as in tests: reports an error of the work. */
export const unattended: WaitUntil = (work) => {
  work.catch((error: unknown) => report({ event: "internal-error", error: errorText(error) }));
};
