/** Decides for a request that a gateway has, and describes: 204, or the denial. */
import type { Context } from "hono";
import type { Authorized } from "./auth.ts";
import { describedVisit } from "./described.ts";
import { answered, laterOf, metBy } from "./enforce.ts";
import type { Gate } from "./gate.ts";
import { isFailure, problemResponse } from "./problems.ts";

/** What comes of the request nobody tells: what is spent for it is spent. */
export async function decideDescribed(
  gate: Gate,
  c: Context<Authorized>,
  deny: number | undefined,
): Promise<Response> {
  const { holder, isBearer } = c.var;
  const visit = describedVisit(c.req.raw, isBearer);
  if (isFailure(visit)) return problemResponse(visit);
  const question = {
    visit,
    met: metBy(gate, visit),
    tenant: holder.tenant,
    isSettled: false,
    deny: deny ?? null,
    areFieldsMerged: true,
  };
  return answered(gate, question, c.req.raw, letIn, laterOf(c));
}

const letIn = async (): Promise<Response> =>
  new Response(null, { status: 204, headers: { "Cache-Control": "no-store" } });
