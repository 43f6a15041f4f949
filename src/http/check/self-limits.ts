/** Limits the calls of `/check` themselves, by the policies whose path is at or below `CHECK_PATH`. */
import type { MiddlewareHandler } from "hono";
import { matchingPolicies } from "../../policies/match.ts";
import { answered, waitUntilOf, type Question } from "../proxy/enforce.ts";
import type { Runtime } from "../runtime.ts";
import { attributesOf } from "../attributes.ts";

/** Runs after `requireToken`: only authorized calls are charged. */
export function enforceSelfLimits(runtime: Runtime): MiddlewareHandler {
  return async function selfLimited(c, next) {
    if (runtime.selfPolicies.length === 0) return next();
    const attributes = attributesOf(c.req.raw);
    const question: Question = {
      attributes,
      met: matchingPolicies(runtime.selfPolicies, attributes),
      tenant: null,
      isSettled: true,
      deny: null,
      areFieldsMerged: false,
    };
    const proceed = async (): Promise<Response> => {
      await next();
      return c.res;
    };
    const response = await answered(runtime, question, c.req.raw, proceed, waitUntilOf(c));
    // Hono merges the headers of a response that is already set into the new one.
    c.res = undefined;
    c.res = response;
    return undefined;
  };
}
