/** Limits the calls of `/check` themselves, by the policies whose path is at or below `CHECK_PATH`. */
import type { MiddlewareHandler } from "hono";
import type { Policy } from "../../policy/policy.ts";
import { matchingPolicies } from "../../policy/compiled-policy.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import { enforcePolicies, waitUntilFrom } from "../proxy/enforce.ts";
import { reservationTtlMs } from "../proxy/in-flight.ts";
import type { Runtime } from "../runtime.ts";
import { attributesOf } from "../attributes.ts";
import { hasRateLimitFields } from "../wire/rate-limit-fields.ts";

/** Charges the policies that limit `/check` itself, and answers the request or denies it. */
export async function limitSelf(
  runtime: Runtime,
  request: Request,
  waitUntil: WaitUntil,
  answer: () => Promise<Response>,
): Promise<Response> {
  const attributes = attributesOf(request);
  const policiesInEffect = (): readonly Policy[] => matchingPolicies(runtime.selfPolicies, attributes);
  return enforcePolicies(request, policiesInEffect, {
    runtime,
    attributes,
    tenant: null,
    reservationTtlMs,
    // The rate limit fields of an answer describe the decision of the check, not that of the self limits.
    hasFinalFields: hasRateLimitFields,
    forward: answer,
    waitUntil,
  });
}

/** Runs after `requireToken`: only authorized calls are charged, and only they keep the runtime rules up to date. */
export function enforceSelfLimits(runtime: Runtime): MiddlewareHandler {
  return async function selfLimited(c, next) {
    const waitUntil = waitUntilFrom(c);
    runtime.control?.touch(waitUntil);
    if (runtime.selfPolicies.length === 0) return next();
    const response = await limitSelf(runtime, c.req.raw, waitUntil, async () => {
      await next();
      return c.res;
    });
    // Hono merges the headers of a response that is already set into the new one.
    c.res = undefined;
    c.res = response;
    return undefined;
  };
}
