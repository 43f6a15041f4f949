/** The routes at and below `CHECK_PATH`, for callers that enforce limits themselves, and the limits on these calls. */
import type { Context, MiddlewareHandler } from "hono";
import { Hono } from "hono/tiny";
import type { Right } from "../../policy/vars/secrets.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import { matchingPolicies } from "../../policy/compiled-policy.ts";
import { type Authorized, authorizer, requireToken } from "./auth.ts";
import {
  type DenyOption,
  readBatch,
  readCheck,
  readDenyQuery,
  readEmptyQuery,
  readForget,
  readForwardQuery,
  readLookQuery,
  readReserve,
  readSettle,
} from "./input.ts";
import { enforcePolicies, waitUntilFrom } from "../proxy/enforce.ts";
import { reservationTtlMs } from "../proxy/in-flight.ts";
import { readInput, validateBody, validateQuery } from "./read-request.ts";
import { answerText, type AnswerText } from "./answer.ts";
import { attributesOf } from "../attributes.ts";
import {
  chargeCheck,
  type CallerContext,
  decideBatch,
  forgetKey,
  look,
  openReservation,
  settleReservation,
} from "./operations.ts";
import { forwardAuth } from "./forward-auth.ts";
import { type Assets, openApiDocument } from "../openapi.ts";
import { answerInternalError, type Runtime } from "../runtime.ts";
import { type Failure, isFailure, problemDetails, problemResponse } from "../wire/problems.ts";
import { hasRateLimitFields } from "../wire/rate-limit-fields.ts";

/** Answers any `POST /check`. The promise never rejects. */
export type AnswerCheck = (request: Request, waitUntil: WaitUntil) => Promise<Response>;

/** The largest body of a request about one check. */
const limitBytes = 16 * 1024;

const batchLimitBytes = 128 * 1024;

const documentPath = "/openapi.json";

/** Answers `POST /check`, for its route and for the fast path of `app.ts`. */
export function createCheck(runtime: Runtime): AnswerCheck {
  const authorize = authorizer(runtime);
  return async function answerCheck(request, waitUntil) {
    try {
      const caller = authorize(request.headers, "check");
      if (isFailure(caller)) return problemResponse(caller);
      return await limitSelf(runtime, request, waitUntil, async () => {
        const check = await readInput(request, caller.holder, limitBytes, readDenyQuery, readCheck);
        if (isFailure(check)) return problemResponse(check);
        const decided = await chargeCheck({ runtime, tenant: caller.holder.tenant, waitUntil }, check);
        return respond(check, isFailure(decided) ? decided : (decided.cachedText ?? answerText(decided.answer)));
      });
    } catch (error) {
      return answerInternalError(error);
    }
  };
}

/**
 * Charges the policies that limit `/check` itself, and answers the request or denies it. Only for authorized calls: only they are
 * charged, and only they keep the runtime rules up to date.
 */
async function limitSelf(
  runtime: Runtime,
  request: Request,
  waitUntil: WaitUntil,
  answer: () => Promise<Response>,
): Promise<Response> {
  runtime.control?.touch(waitUntil);
  if (runtime.selfPolicies.length === 0) return answer();
  const attributes = attributesOf(request);
  return enforcePolicies(request, () => matchingPolicies(runtime.selfPolicies, attributes), {
    runtime,
    attributes,
    tenant: null,
    reservationTtlMs,
    // The rate limit fields of an answer describe the decision of the check, not that of the self limits.
    hasFinalFields: hasRateLimitFields,
    // Its charge is settled when the answer fails, too.
    forward: () => answer().catch(answerInternalError),
    waitUntil,
  });
}

function selfLimitsOf(runtime: Runtime): MiddlewareHandler {
  return async function selfLimited(c, next) {
    const response = await limitSelf(runtime, c.req.raw, waitUntilFrom(c), async () => {
      await next();
      return c.res;
    });
    // Hono merges the headers of a response that is already set into the new one.
    c.res = undefined;
    c.res = response;
  };
}

const noStore = { "Cache-Control": "no-store" };

/** Shared by all answers: a Response copies its headers. */
const okay = { status: 200, headers: { "Content-Type": "application/json", ...noStore } };

/** 200 with the decision, whether allowed or denied. With `deny`, a denial has that status. */
function respond({ deny }: DenyOption, answer: AnswerText | Failure): Response {
  if (isFailure(answer)) return problemResponse(answer);
  const { allowed, headers, json } = answer;
  if (deny === undefined || allowed) return new Response(json, okay);
  return new Response(json, { status: deny, headers: { ...okay.headers, ...headers } });
}

/** The routes at and below `CHECK_PATH`. `/health` and `/openapi.json` are open to all; the others require a token. */
export function checkRoutes(runtime: Runtime, postCheck: AnswerCheck, assets: Assets | undefined) {
  const authorize = authorizer(runtime);
  const guards: Guards = {
    may: (right) => requireToken(authorize, right),
    selfLimits: selfLimitsOf(runtime),
  };
  return new Hono<Authorized>()
    .get("/health", (c) => c.json({ status: "ok" as const }, 200, noStore))
    .get(documentPath, (c) => readDocument(c, runtime, assets))
    .route("/", decisionRoutes(runtime, postCheck, guards))
    .route("/", reservationRoutes(runtime, guards))
    .all("/health", methodNotAllowed("GET", "HEAD"))
    .all(documentPath, methodNotAllowed("GET", "HEAD"))
    .all("/", methodNotAllowed("GET", "HEAD", "POST", "DELETE"))
    .all("/reserve", methodNotAllowed("POST"))
    .all("/settle", methodNotAllowed("POST"))
    .all("/batch", methodNotAllowed("POST"))
    .all("/forward", methodNotAllowed("GET", "HEAD"))
    .all("/*", () => problemResponse({ kind: "unknown-path" }));
}

interface Guards {
  readonly may: (right: Right) => ReturnType<typeof requireToken>;
  readonly selfLimits: MiddlewareHandler;
}

const callOf = (runtime: Runtime, c: Context<Authorized>): CallerContext => ({
  runtime,
  tenant: c.var.holder.tenant,
  waitUntil: waitUntilFrom(c),
});

const decisionRoutes = (runtime: Runtime, postCheck: AnswerCheck, { may, selfLimits }: Guards) =>
  new Hono<Authorized>()
    .get("/", may("look"), selfLimits, validateQuery(readLookQuery), async (c) => {
      const check = c.req.valid("query");
      return respond(check, answerText(await look(callOf(runtime, c), check)));
    })
    .post("/", (c) => postCheck(c.req.raw, waitUntilFrom(c)))
    .delete("/", may("forget"), selfLimits, validateQuery(readForget), async (c) => {
      const failure = await forgetKey(callOf(runtime, c), c.req.valid("query"));
      return failure === null ? c.body(null, 204) : problemResponse(failure);
    })
    .get("/forward", may("check"), selfLimits, validateQuery(readForwardQuery), (c) =>
      forwardAuth(runtime, c, c.req.valid("query")),
    );

const reservationRoutes = (runtime: Runtime, { may, selfLimits }: Guards) =>
  new Hono<Authorized>()
    .post("/batch", may("check"), selfLimits, validateBody(batchLimitBytes, readEmptyQuery, readBatch), async (c) => {
      const { checks } = c.req.valid("json");
      const answers = await decideBatch(callOf(runtime, c), checks);
      const results = answers.map((answer) => (isFailure(answer) ? { problem: problemDetails(answer) } : answer));
      return c.json({ results }, 200, noStore);
    })
    .post("/reserve", may("check"), selfLimits, validateBody(limitBytes, readDenyQuery, readReserve), async (c) => {
      const check = c.req.valid("json");
      return respond(check, answerText(await openReservation(callOf(runtime, c), check)));
    })
    .post("/settle", may("check"), selfLimits, validateBody(limitBytes, readEmptyQuery, readSettle), async (c) => {
      const answer = await settleReservation(callOf(runtime, c), c.req.valid("json"));
      return isFailure(answer) ? problemResponse(answer) : c.json(answer, 200, noStore);
    });

/** The OpenAPI document of this deployment. If looks need no token here, it marks the token as optional for them. */
async function readDocument(c: Context, { isLookOpen }: Runtime, assets: Assets | undefined): Promise<Response> {
  const document = await openApiDocument(assets, "check", c.req.path.slice(0, -documentPath.length));
  if (isFailure(document)) return problemResponse(document);
  const root = document.paths["/"];
  const get = { ...root?.["get"], security: [{}, ...document.security] };
  const served = isLookOpen ? { ...document, paths: { ...document.paths, "/": { ...root, get } } } : document;
  return c.json(served, 200, noStore);
}

const methodNotAllowed =
  (...allowed: string[]) =>
  () =>
    problemResponse({ kind: "method-not-allowed", allowed });
