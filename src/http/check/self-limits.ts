/** Limits on the limiter's own calls: ordinary policies, whose path is one below `CHECK_PATH`. */
import type { MiddlewareHandler } from "hono";
import { matchingPolicies } from "../../policies/match.ts";
import { answered, waitUntilOf, type Question } from "../proxy/enforce.ts";
import type { Runtime } from "../runtime.ts";
import { attributesOf } from "../attributes.ts";

/** Charges whoever calls, once they have shown that they may. */
export function limitChecks(runtime: Runtime): MiddlewareHandler {
  return async function ownLimited(c, next) {
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
    // What is there already would be kept, whatever is returned, and its headers be merged.
    c.res = undefined;
    c.res = response;
    return undefined;
  };
}
