/** The Hono middleware that enforces policies in the user's own Worker. */
import type { Context, Env, MiddlewareHandler, Next } from "hono";
import { ConfigProblems, type Policy } from "../config/index.ts";
import { attributesOf, urlOf } from "../http/attributes.ts";
import { enforcePolicies } from "../http/proxy/enforce.ts";
import { reservationMs, reservationTtlMs } from "../http/proxy/in-flight.ts";
import { isPreflight } from "../http/proxy/preflights.ts";
import { StatedCosts } from "../http/proxy/stated-costs.ts";
import type { ChargedRequest } from "../http/record-outcomes.ts";
import { failureBy, type Runtime } from "../http/runtime.ts";
import { isFailure, problemResponse } from "../http/wire/problems.ts";
import { hasRateLimitFields } from "../http/wire/rate-limit-fields.ts";
import type { Outcome } from "../limiter/client/outcome.ts";
import type { WaitUntil } from "../limiter/client/object-caller.ts";
import { errorText, report } from "../observability/events.ts";
import { matchingPolicies } from "../policies/match.ts";
import { withStreamEnd } from "./body-end.ts";
import { contextVariable, type RateLimitContext } from "./context-variable.ts";
import { announce, environmentReader, ofPackage } from "./environment.ts";
import type { PolicyDecision, RateLimitOptions } from "./options.ts";
import {
  checkedCost,
  checkedSkip,
  customKeyText,
  described,
  type PolicyFunctions,
  readOptions,
  type StatedPolicy,
} from "./read-options.ts";

/**
 * Limits requests by one or several policies, which are decided together: a request that one of them denies is charged to
 * none. The Worker has a binding `RATE_LIMITER` of the class `RateLimiter` from `headgate/object`, and the secret
 * `KEY_SECRET`.
 * @throws ConfigProblems with every problem in the options
 */
// `any` is Hono's own default, with which handlers of every environment are accepted.
// oxlint-disable-next-line typescript/no-explicit-any
export function rateLimit<E extends Env = any>(
  ...options: readonly RateLimitOptions<E>[]
): MiddlewareHandler<E> {
  const policies = readOptions(options);
  announce(policies);
  const reserved = new Set(policies.flatMap(({ name, isReserved }) => (isReserved ? [name] : [])));
  const environmentOf = environmentReader(policies);
  return async function limited(c, next) {
    const environment = environmentOf(c.env);
    if (isFailure(environment)) return problemResponse(environment);
    try {
      return await enforce(c, next, { policies, reserved, runtime: environment.runtime });
    } catch (error) {
      if (!(error instanceof ConfigProblems)) throw error;
      return problemResponse(ofPackage(failureBy(error)));
    }
  };
}

/** The contexts of requests that a limiter has denied. Earlier limiters of the chain then pass its response on. */
const denied = new WeakSet<Context>();

interface Enforcement {
  readonly policies: readonly StatedPolicy[];
  /** The names of policies with `reserve`. */
  readonly reserved: ReadonlySet<string>;
  readonly runtime: Runtime;
}

async function enforce(
  c: Context,
  next: Next,
  { policies, reserved, runtime }: Enforcement,
): Promise<Response | undefined> {
  const request = c.req.raw;
  if (urlOf(request) === null) return problemResponse({ kind: "url-malformed" });
  const attributes = attributesOf(request);
  const earlier: RateLimitContext | undefined = c.get("headgate");
  const statedCosts = new StatedCosts((policy) => reserved.has(policy));
  const setVariable = (charged: ChargedRequest | null): void =>
    c.set("headgate", contextVariable(earlier, { charged, reserved, statedCosts }));
  setVariable(null);
  // Browsers send preflights without credentials, and middleware such as `cors` answers them.
  if (isPreflight(attributes)) {
    await next();
    return undefined;
  }
  const matching = new Set(matchingPolicies(runtime.policies, attributes).map(({ name }) => name));
  const values = await valuesFor(
    c,
    policies.filter(({ name }) => matching.has(name)),
  );
  const waitUntil = waitUntilOf(c);
  runtime.control?.touch(waitUntil);
  let isForwarded = false;
  const response = await enforcePolicies(
    request,
    () => runtime.policies.filter(({ name }) => values.charged.has(name)),
    {
      runtime,
      attributes: { ...attributes, customKey: values.key },
      tenant: null,
      waitUntil,
      costs: values.costs,
      statedCosts,
      observeBody: withStreamEnd,
      reservationTtlMs: (policy: Policy) =>
        reserved.has(policy.name) ? reservationMs : reservationTtlMs(policy),
      answerDenial: (denying) => answerDenial(c, policies, denying),
      onAdmitted: setVariable,
      // The fields of a denial list only the limits that deny.
      hasFinalFields: (headers) => denied.has(c) && hasRateLimitFields(headers),
      forward: async () => {
        isForwarded = true;
        await next();
        return mutable(c.res);
      },
    },
  );
  if (!isForwarded) {
    denied.add(c);
    return response;
  }
  if (response !== c.res) replaceResponse(c, response);
  return undefined;
}

/** Without the first step, Hono would copy the headers of the present response over those of the new one. */
function replaceResponse(c: Context, response: Response): void {
  c.res = undefined;
  c.res = response;
}

/** The values that the functions of the options return for one request. */
interface RequestValues {
  /** The names of the policies that charge the request: those that it does not skip. */
  readonly charged: ReadonlySet<string>;
  readonly key: (policy: string) => string | null;
  readonly costs: ReadonlyMap<string, number>;
}

async function valuesFor(c: Context, policies: readonly StatedPolicy[]): Promise<RequestValues> {
  const charged = new Set<string>();
  const keys = new Map<string, string | null>();
  const costs = new Map<string, number>();
  for (const { name, functions } of policies) {
    const { skip, key, cost } = functions;
    if (skip !== null && checkedSkip(await skip(c), name)) continue;
    charged.add(name);
    if (key !== null) keys.set(name, customKeyText(await key(c), name));
    if (cost !== null) {
      const place = `the function cost of the policy "${name}" returned`;
      costs.set(name, checkedCost(await cost(c), place));
    }
  }
  return { charged, key: (policy) => keys.get(policy) ?? null, costs };
}

/** Calls the function `onDeny` of the first denying policy that has one. */
function answerDenial(
  c: Context,
  policies: readonly StatedPolicy[],
  denying: readonly Outcome[],
): Promise<Response> | null {
  for (const outcome of denying) {
    if (!("decision" in outcome)) continue;
    const { name } = outcome.policy;
    const onDeny = policies.find((policy) => policy.name === name)?.functions.onDeny ?? null;
    if (onDeny !== null) {
      return answerOf(onDeny, c, { policy: name, ...outcome.decision });
    }
  }
  return null;
}

async function answerOf(
  onDeny: NonNullable<PolicyFunctions["onDeny"]>,
  c: Context,
  decision: PolicyDecision,
): Promise<Response> {
  const answer: unknown = await onDeny(c, decision);
  if (answer instanceof Response) return answer;
  const { policy } = decision;
  throw new TypeError(
    `the function onDeny of the policy "${policy}" returned ${described(answer)}; expected a Response`,
  );
}

/** A response whose headers can be changed: those of a fetched one are immutable. */
function mutable(response: Response): Response {
  try {
    response.headers.delete("x-headgate-none");
    return response;
  } catch {
    return new Response(response.body, response);
  }
}

/** Outside of Workers, such as in tests, there is no execution context: work continues by itself. */
function waitUntilOf(c: Context): WaitUntil {
  let context: Pick<ExecutionContext, "waitUntil"> | null = null;
  try {
    context = c.executionCtx;
  } catch {
    // Hono throws where there is none.
  }
  return (work) => {
    if (context !== null) context.waitUntil(work);
    else
      work.catch((error: unknown) => report({ event: "internal-error", error: errorText(error) }));
  };
}
