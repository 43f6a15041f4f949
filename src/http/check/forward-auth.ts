/** `/check/forward` decides for a request that a gateway describes: 204, or the denial. */
import type { Context } from "hono";
import { report } from "../../observability/events.ts";
import { type CallerAttributes, noAttributes } from "../../policy/resolve-key.ts";
import type { Claims, RequestAttributes } from "../../policy/request.ts";
import type { Authorized } from "./auth.ts";
import type { ForwardOptions } from "./input.ts";
import { forwardedRequest } from "./forwarded-request.ts";
import { applicablePolicies, enforcePolicies, waitUntilFrom } from "../proxy/enforce.ts";
import type { Runtime } from "../runtime.ts";
import { isFailure, problemResponse } from "../wire/problems.ts";

/** The gateway never reports the outcome, so the charge is final. */
export async function forwardAuth(
  runtime: Runtime,
  c: Context<Authorized>,
  { deny, attributes = noAttributes }: ForwardOptions,
): Promise<Response> {
  const { holder, credentialField } = c.var;
  const described = forwardedRequest(c.req.raw, credentialField);
  if (isFailure(described)) {
    report({
      event: "forward-request-invalid",
      fields: described.errors.map(({ field }) => field),
    });
    return problemResponse(described);
  }
  const visitor = { ...described, cf: locationIn(attributes) };
  return enforcePolicies(c.req.raw, () => applicablePolicies(runtime, visitor), {
    runtime,
    attributes: visitor,
    claims: claimsIn(attributes),
    tenant: holder.tenant,
    denyStatus: deny,
    forward: letIn,
    waitUntil: waitUntilFrom(c),
  });
}

/** The visitor's location, under the names of the `cf` object of Workers. */
const locationIn =
  (attributes: CallerAttributes): RequestAttributes["cf"] =>
  (name) =>
    attributes.get(name)?.[0];

/** The `jwt:` attributes, from a token that the gateway has verified. */
function claimsIn(attributes: CallerAttributes): Claims {
  const claims = [...attributes].flatMap(([name, texts]) => {
    const [, claim] = /^jwt:(.+)$/.exec(name) ?? [];
    return claim === undefined ? [] : [[claim, texts.length === 1 ? texts[0] : texts] as const];
  });
  return Object.fromEntries(claims);
}

const letIn = async (): Promise<Response> =>
  new Response(null, { status: 204, headers: { "Cache-Control": "no-store" } });
