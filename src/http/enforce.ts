/** Decides a request by all policies that it meets: lets it pass with its RateLimit fields, or refuses it. */
import type { MiddlewareHandler } from "hono";
import { admits, type Outcome, type Spend } from "../limiter/outcome.ts";
import { keyOfRequest } from "../policies/key.ts";
import { matchingPolicies } from "../policies/match.ts";
import type { Decision, Limit } from "../strategies/index.ts";
import { addRateLimitFields, rateLimitFields, toldWaitMs, violatedLimits } from "./headers.ts";
import type { Gate } from "./gate.ts";
import { problemResponse } from "./problems.ts";

/** A denial answers before the body of the request is read; what has its turn in a queue is held until then. */
export function enforce({ policies, partitions, limiter }: Gate): MiddlewareHandler {
  return async function enforced(c, next) {
    const url = new URL(c.req.url);
    const met = matchingPolicies(policies, c.req.method, url);
    const spends = await Promise.all(
      met.map(async (policy): Promise<Spend> => {
        const values = keyOfRequest(policy.key, c.req.raw, url);
        return { policy, partitionKey: await partitions.partitionKey(policy.key, values), cost: 1 };
      }),
    );
    const outcomes = await limiter.admit(spends, (work) => c.executionCtx.waitUntil(work));
    const limits = met.flatMap((policy) => policy.limits);
    if (!outcomes.every(admits)) return refusal(limits, outcomes);
    const delayMs = Math.max(0, ...outcomes.flatMap(decisionOf).map((each) => each.delayMs));
    if (delayMs > 0) await scheduler.wait(delayMs);
    await next();
    const decisions = outcomes.flatMap(decided);
    // A client must not take a redirect's or an upgrade's fields for a reason not to follow it; a 304 updates what
    // caches hold.
    const hasFields = c.res.status >= 200 && (c.res.status < 300 || c.res.status >= 400);
    if (decisions.length > 0 && hasFields) {
      addRateLimitFields(c.res.headers, rateLimitFields(limits, decisions));
    }
    return undefined;
  };
}

const decisionOf = (outcome: Outcome): Decision[] =>
  "decision" in outcome ? [outcome.decision] : [];

/** Only the object's decisions are told in RateLimit fields: an isolate's own count is not the key's. */
const decided = (outcome: Outcome): Decision[] =>
  outcome.kind === "decided" ? [outcome.decision] : [];

/** A 429 of those that deny; a 503 when one is closed for want of a decision. */
function refusal(limits: readonly Limit[], outcomes: readonly Outcome[]): Response {
  if (outcomes.some((outcome) => outcome.kind === "closed")) {
    return problemResponse({ kind: "undecided" });
  }
  const decisions = outcomes.flatMap(decisionOf);
  const told = outcomes.flatMap(decided);
  return problemResponse(
    {
      kind: "quota-exceeded",
      violated: violatedLimits(decisions),
      retryAfterMs: toldWaitMs(decisions),
    },
    told.length === 0 ? {} : { ...rateLimitFields(limits, told) },
  );
}
