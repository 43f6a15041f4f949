/** A limiter without Hono. */
import { announce, environmentReader } from "./environment.ts";
import { type Limiter, limiterOf } from "./limiter.ts";
import type { PolicyOptions } from "./options.ts";
import { readOptions } from "./read-options.ts";

/**
 * Returns a limiter of one or several policies for a Worker without Hono. Its options are those of `rateLimit`, whose functions
 * it does not call. Policies with the same name and options share their counters. The Worker has a binding `RATE_LIMITER` of
 * the class `RateLimiter` from `headgate/object`, and the secret `KEY_SECRET`.
 * @throws ConfigProblems with every problem in the options
 */
export function createLimiter(...options: readonly PolicyOptions[]): Limiter {
  const policies = readOptions(options, "createLimiter");
  announce(policies);
  return limiterOf(policies, environmentReader(policies));
}
