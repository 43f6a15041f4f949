/** The response to a denial by limits or bans, as the options `onDeny` state it. */
import type { Context } from "hono";
import type { LimitDenial } from "../../http/proxy/denial.ts";
import { addRateLimitFields, mayHaveRateLimitFields } from "../../http/wire/rate-limit-fields.ts";
import type { PolicyDecision } from "./options.ts";
import { described, type PolicyFunctions, type StatedPolicy } from "./read-options.ts";

type DenialFields = ReturnType<LimitDenial["fields"]>;

/**
 * The contexts of requests that a limiter has already denied. Earlier limiters of the chain pass on the response to the
 * denial unchanged.
 */
const denied = new WeakSet<Context>();

export const noteDenied = (c: Context): void => void denied.add(c);
export const isDenied = (c: Context): boolean => denied.has(c);

/** The decisions of the denying policies. Dry runs never deny, so all of these policies are enforced. */
const denyingDecisions = ({ denying }: LimitDenial): readonly PolicyDecision[] =>
  denying.flatMap(({ policy, decision }) =>
    decision === null ? [] : [{ policy: policy.name, dryRun: false, ...decision }],
  );

/** Calls the function `onDeny` of the first denying policy that has one; null if none has. */
export function answerByFunction(
  c: Context,
  policies: readonly StatedPolicy[],
  denial: LimitDenial,
): Promise<Response> | null {
  for (const decision of denyingDecisions(denial)) {
    const own = policies.find(({ name }) => name === decision.policy)?.functions.onDeny ?? null;
    if (own !== null) return answerOf(own, c, decision, denial.fields());
  }
  return null;
}

async function answerOf(
  onDeny: NonNullable<PolicyFunctions["onDeny"]>,
  c: Context,
  decision: PolicyDecision,
  fields: DenialFields,
): Promise<Response> {
  try {
    const answer: unknown = await onDeny(c, decision);
    if (answer instanceof Response) return withFields(answer, fields);
    const { policy } = decision;
    throw new TypeError(
      `the function onDeny of the policy "${policy}" returned ${described(answer)}; expected a Response`,
    );
  } catch (error) {
    noteDenied(c);
    addToErrorResponse(c, error, fields);
    throw error;
  }
}

/** Copies the response and adds the fields of the denial, except fields that it already has or must not have. */
function withFields(answer: Response, fields: DenialFields): Response {
  const response = new Response(answer.body, answer);
  for (const [name, value] of fieldsBeside(answer.headers, fields)) {
    if (mayHaveRateLimitFields(answer.status) || !isRateLimit(name)) {
      response.headers.set(name, value);
    }
  }
  return response;
}

/**
 * Hono adds the headers of the present response to the response of the error handler. If the exception has a response
 * of its own, they replace the headers of that response. So where that response sets a field, its value is used in
 * place of the denial's.
 */
function addToErrorResponse(c: Context, error: unknown, fields: DenialFields): void {
  const isException = typeof error === "object" && error !== null && "res" in error;
  const own = isException && error.res instanceof Response ? error.res.headers : new Headers();
  for (const [name, value] of fieldsBeside(new Headers(), fields)) {
    c.res.headers.set(name, own.get(name) ?? value);
  }
}

const fieldsBeside = (own: Headers, fields: DenialFields): readonly (readonly [string, string])[] =>
  Object.entries(fields).filter(([name]) => name !== "Content-Type" && !own.has(name));

const isRateLimit = (name: string): boolean => /ratelimit/i.test(name);

/**
 * Adds the fields of a denial to the response of a handler that ran although the request was denied. Only an error gets
 * `Retry-After`: a client must not mistake a usable response for a refusal.
 */
export function addContinuedFields(c: Context, { status, headers }: Response, fields: DenialFields): void {
  if (!mayHaveRateLimitFields(status)) return;
  const { RateLimit, "RateLimit-Policy": policy } = fields;
  addRateLimitFields(headers, {
    ...(RateLimit !== undefined && { RateLimit }),
    ...(policy !== undefined && { "RateLimit-Policy": policy }),
  });
  for (const [name, value] of fieldsBeside(headers, fields)) {
    if (/^x-ratelimit/i.test(name) || (name === "Retry-After" && status >= 400)) {
      headers.set(name, value);
    }
  }
  if (status >= 400) noteDenied(c);
}
