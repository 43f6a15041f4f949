/** The routes of `/check`, for callers that enforce limits themselves. A denial is a successful check: 200. */
import type { MiddlewareHandler } from "hono";
import { Hono } from "hono/tiny";
import type { Right } from "../../policy/vars/secrets.ts";
import { type Authorized, authorizer, requireToken } from "./auth.ts";
import {
  type DenyOption,
  readBatch,
  readDenyQuery,
  readEmptyQuery,
  readForget,
  readForwardQuery,
  readLookQuery,
  readReserve,
  readSettle,
} from "./input.ts";
import { waitUntilFrom } from "../proxy/enforce.ts";
import { enforceSelfLimits } from "./self-limits.ts";
import { validateBody, validateQuery } from "./read-request.ts";
import type { CheckAnswer } from "./answers.ts";
import { decideBatch, forgetKey, look, openReservation, settleReservation } from "./operations.ts";
import { forwardAuth } from "./forward-auth.ts";
import { type AnswerCheck, limitBytes } from "./post-check.ts";
import { noStore, respond, serialized } from "./serialized-answer.ts";
import type { Runtime } from "../runtime.ts";
import { type Failure, isFailure, problemDetails, problemResponse } from "../wire/problems.ts";

const batchLimitBytes = 128 * 1024;

const documentPath = "/openapi.json";

/** The routes at and below `CHECK_PATH`. `/health` and `/openapi.json` are open to all; the others require a token. */
export function checkRoutes(runtime: Runtime, postCheck: AnswerCheck) {
  const authorize = authorizer(runtime);
  const guards: Guards = {
    may: (right) => requireToken(authorize, right),
    selfLimits: enforceSelfLimits(runtime),
  };
  return new Hono<Authorized>()
    .get("/health", (c) => c.json({ status: "ok" as const }, 200, noStore))
    .get(documentPath, async (c) => c.json<object, 200>(await openApiDocument(c.req.path, runtime), 200, noStore))
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

const decisionRoutes = (runtime: Runtime, postCheck: AnswerCheck, { may, selfLimits }: Guards) =>
  new Hono<Authorized>()
    .get("/", may("look"), selfLimits, validateQuery(readLookQuery), async (c) => {
      const check = c.req.valid("query");
      return answered(check, await look(runtime, check, c.var.holder.tenant, waitUntilFrom(c)));
    })
    .post("/", (c) => postCheck(c.req.raw, waitUntilFrom(c)))
    .delete("/", may("forget"), selfLimits, validateQuery(readForget), async (c) => {
      const failure = await forgetKey(runtime, c.req.valid("query"), c.var.holder.tenant);
      return failure === null ? c.body(null, 204) : problemResponse(failure);
    })
    .get("/forward", may("check"), selfLimits, validateQuery(readForwardQuery), (c) =>
      forwardAuth(runtime, c, c.req.valid("query")),
    );

const answered = (option: DenyOption, answer: CheckAnswer | Failure): Response =>
  respond(option, isFailure(answer) ? answer : serialized(answer));

const reservationRoutes = (runtime: Runtime, { may, selfLimits }: Guards) =>
  new Hono<Authorized>()
    .post("/batch", may("check"), selfLimits, validateBody(batchLimitBytes, readEmptyQuery, readBatch), async (c) => {
      const { checks } = c.req.valid("json");
      const answers = await decideBatch(runtime, checks, c.var.holder.tenant, waitUntilFrom(c));
      const results = answers.map((answer) => (isFailure(answer) ? { problem: problemDetails(answer) } : answer));
      return c.json({ results }, 200, noStore);
    })
    .post("/reserve", may("check"), selfLimits, validateBody(limitBytes, readDenyQuery, readReserve), async (c) => {
      const check = c.req.valid("json");
      const answer = await openReservation(runtime, check, c.var.holder.tenant, waitUntilFrom(c));
      return answered(check, answer);
    })
    .post("/settle", may("check"), selfLimits, validateBody(limitBytes, readEmptyQuery, readSettle), async (c) => {
      const answer = await settleReservation(runtime, c.req.valid("json"), c.var.holder.tenant);
      return isFailure(answer) ? problemResponse(answer) : c.json(answer, 200, noStore);
    });

/**
 * The OpenAPI document of this deployment, with its path. If looks need no token here, it marks the token as optional
 * for them.
 */
async function openApiDocument(path: string, { isLookOpen }: Pick<Runtime, "isLookOpen">): Promise<object> {
  // Evaluated on demand: both documents together would take a tenth of the processor time of the start.
  const { default: document } = await import("../wire/openapi.json", { with: { type: "json" } });
  const url = path.slice(0, -documentPath.length);
  const servers = document.servers.map((server) => ({ ...server, url }));
  if (!isLookOpen) return { ...document, servers };
  const root = document.paths["/"];
  const get = { ...root.get, security: [{}, ...document.security] };
  return { ...document, servers, paths: { ...document.paths, "/": { ...root, get } } };
}

const methodNotAllowed =
  (...allowed: string[]) =>
  () =>
    problemResponse({ kind: "method-not-allowed", allowed });
