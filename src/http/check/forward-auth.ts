/** Decides for a request that a gateway has, and describes: 204, or the denial. */
import type { Context } from "hono";
import { readKeyPart } from "../../config/index.ts";
import { report } from "../../observability/events.ts";
import {
  type CallerAttributes,
  noAttributes,
  statedTexts,
} from "../../policies/caller-attributes.ts";
import type { Claims, RequestAttributes } from "../../policies/request-attributes.ts";
import type { Authorized } from "./auth.ts";
import type { Check } from "./input.ts";
import { forwardedRequest } from "./forwarded-request.ts";
import { answered, waitUntilOf, metBy } from "../proxy/enforce.ts";
import type { Runtime } from "../runtime.ts";
import { isFailure, problemResponse } from "../wire/problems.ts";

/** The gateway never reports the outcome, so the charge is final. */
export async function forwardAuth(
  runtime: Runtime,
  c: Context<Authorized>,
  { deny, attributes = noAttributes }: Pick<Check, "deny" | "attributes">,
): Promise<Response> {
  const { holder, isBearer } = c.var;
  const described = forwardedRequest(c.req.raw, isBearer);
  if (isFailure(described)) {
    report({
      event: "forward-request-invalid",
      fields: described.errors.map(({ field }) => field),
    });
    return problemResponse(described);
  }
  const visitor = { ...described, cf: placeIn(attributes) };
  const question = {
    attributes: visitor,
    claims: claimsIn(attributes),
    met: metBy(runtime, visitor),
    tenant: holder.tenant,
    isSettled: false,
    deny: deny ?? null,
    areFieldsMerged: true,
  };
  return answered(runtime, question, c.req.raw, letIn, waitUntilOf(c));
}

/** Where the visitor is, in the spelling of Cloudflare's own data. */
const placeIn =
  (attributes: CallerAttributes): RequestAttributes["cf"] =>
  (name) => {
    const part = readKeyPart(name);
    return part === null ? undefined : statedTexts(part, [], [], attributes)[0];
  };

/** The claims of a token that the gateway has verified itself. */
function claimsIn(attributes: CallerAttributes): Claims {
  const claims = [...attributes].flatMap(([name, texts]) => {
    const [, claim] = /^jwt:(.+)$/.exec(name) ?? [];
    return claim === undefined ? [] : [[claim, texts.length === 1 ? texts[0] : texts] as const];
  });
  return Object.fromEntries(claims);
}

const letIn = async (): Promise<Response> =>
  new Response(null, { status: 204, headers: { "Cache-Control": "no-store" } });
