/** A limiter without Hono. */
import { isRecord } from "../../validation/problems.ts";
import { environmentReader } from "./environment.ts";
import { type LimiterCalls, limiterOf } from "./limiter.ts";
import { withNames } from "./names.ts";
import type { PolicyOptions } from "./options.ts";
import { readOptions } from "./read-options.ts";

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

/** Without a request there is no address: the key is the text that the caller gives. */
const withKey = (options: unknown): unknown =>
  isRecord(options) && options["key"] === undefined ? { ...options, key: givenText } : options;

/** Only marks the key as a text that the caller gives. It is never called. */
const givenText = (): null => null;
