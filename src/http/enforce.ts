/** Decides a request by all policies that it meets: lets it pass with its RateLimit fields, or refuses it. */
import type { MiddlewareHandler } from "hono";
import type { Policy } from "../config/index.ts";
import { admits, type Outcome, type Spend } from "../limiter/outcome.ts";
import { keyOfRequest, type RequestKey } from "../policies/key.ts";
import { matchingPolicies } from "../policies/match.ts";
import type { Visit } from "../policies/visit.ts";
import type { Decision, Limit } from "../strategies/index.ts";
import { addRateLimitFields, rateLimitFields, toldWaitMs, violatedLimits } from "./headers.ts";
import type { Gate } from "./gate.ts";
import { problemResponse } from "./problems.ts";
import { visitOf } from "./visit.ts";

/** A denial answers before the body of the request is read; what has its turn in a queue is held until then. */
export function enforce(gate: Gate): MiddlewareHandler {
  const { policies, limiter } = gate;
  return async function enforced(c, next) {
    const visit = visitOf(c.req.raw);
    const keys = await keysOf(gate, matchingPolicies(policies, visit), visit);
    const missing = keys.flatMap(({ key }) => (key.kind === "refused" ? key.missing : []));
    if (missing.length > 0) {
      return problemResponse({ kind: "key-missing", parts: [...new Set(missing)] });
    }
    const spends = await Promise.all(keys.flatMap((each) => spendOf(gate, each)));
    const outcomes = await limiter.admit(spends, (work) => c.executionCtx.waitUntil(work));
    const limits = spends.flatMap(({ policy }) => policy.limits);
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

interface Keyed {
  readonly policy: Policy;
  readonly key: RequestKey;
}

/** The keys of the policies that a request meets; its token is verified once, and only for those that ask for it. */
async function keysOf(
  { readClaims }: Gate,
  met: readonly Policy[],
  visit: Visit,
): Promise<Keyed[]> {
  const isClaimed = met.some(({ key }) => key.some(({ kind }) => kind === "jwt"));
  const claims = isClaimed ? await readClaims(visit.headers) : {};
  return met.map((policy) => ({ policy, key: keyOfRequest(policy, visit, claims) }));
}

/** What a policy charges; nothing where it does not apply. */
function spendOf({ partitions }: Gate, { policy, key }: Keyed): Promise<Spend>[] {
  if (key.kind !== "key") return [];
  const partitionKey = partitions.partitionKey(key.parts, key.values);
  return [partitionKey.then((each) => ({ policy, partitionKey: each, cost: 1 }))];
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
