/** `/check`: decisions for callers who enforce limits themselves. A denial is a successful check. */
import type { MiddlewareHandler, TypedResponse } from "hono";
import { Hono } from "hono/tiny";
import { type Authorized, requireToken } from "./auth.ts";
import {
  type AdhocCheck,
  type BatchInput,
  type Check,
  type CheckInput,
  type ForgetQuery,
  type LookQuery,
  readBatch,
  readForward,
  readForgetQuery,
  readLook,
  readNoOptions,
  readOptions,
  readReserve,
  readSettle,
  readSpend,
  type ReserveInput,
  type Reserve,
  type Settle,
} from "./input.ts";
import { waitUntilOf } from "../proxy/enforce.ts";
import { limitChecks } from "./self-limits.ts";
import { posted, queried } from "./read-request.ts";
import { type Answer, check, checkEach, forget, look, reserve, settle } from "./operations.ts";
import { forwardAuth } from "./forward-auth.ts";
import type { Runtime } from "../runtime.ts";
import document from "../wire/openapi.json" with { type: "json" };
import { type Failure, isFailure, problemDetails, problemResponse } from "../wire/problems.ts";

/** The most bytes of a body. */
const body = 16 * 1024;
const batchBody = 128 * 1024;

const noStore = { "Cache-Control": "no-store" };

const documentPath = "/openapi.json";

/** The routes at and below `CHECK_PATH`. Two are open to all; everything else needs a token. */
export function checkRoutes(runtime: Runtime) {
  const may = requireToken(runtime.checkTokens, runtime.isLookOpen);
  const limited = limitChecks(runtime);
  const routes = new Hono<Authorized>()
    .get("/health", (c) => c.json({ status: "ok" as const }, 200, noStore))
    .get(documentPath, (c) =>
      c.json<object, 200>(described(c.req.path, runtime.isLookOpen), 200, noStore),
    )
    .route("/", decisions(runtime, may, limited))
    .route("/", others(runtime, may, limited));
  // What is refused whatever is asked is nothing for typed clients.
  routes
    .all("/health", only("GET", "HEAD"))
    .all(documentPath, only("GET", "HEAD"))
    .all("/", only("GET", "HEAD", "POST", "DELETE"))
    .all("/reserve", only("POST"))
    .all("/settle", only("POST"))
    .all("/batch", only("POST"))
    .all("/forward", only("GET", "HEAD"))
    .all("/*", () => problemResponse({ kind: "unknown-path" }));
  return routes;
}

/** For a typed client: `hc<CheckRoutes>("https://limits.example.com/check")`. */
export type CheckRoutes = ReturnType<typeof checkRoutes>;

type May = ReturnType<typeof requireToken>;
type Options = Pick<Check, "deny">;
type ForwardOptions = Pick<Check, "deny" | "attributes">;
type ForwardQuery = Pick<LookQuery, "deny" | "attributes">;
type Spending = Check | AdhocCheck;
type Batch = { readonly checks: readonly Spending[] };

const decisions = (runtime: Runtime, may: May, limited: MiddlewareHandler) =>
  new Hono<Authorized>()
    .get("/", may("look"), limited, queried<LookQuery, Check>(readLook), async (c) => {
      const asked = c.req.valid("query");
      return respond(asked.deny, await look(runtime, asked, c.var.holder.tenant));
    })
    .post(
      "/",
      may("check"),
      limited,
      posted<CheckInput, Spending, Options>(body, readOptions, readSpend),
      async (c) => {
        const asked = c.req.valid("json");
        const answer = await check(runtime, asked, c.var.holder.tenant, waitUntilOf(c));
        return respond(asked.deny, answer);
      },
    )
    .delete(
      "/",
      may("forget"),
      limited,
      queried<ForgetQuery, Check>(readForgetQuery),
      async (c) => {
        const failure = await forget(runtime, c.req.valid("query"), c.var.holder.tenant);
        return failure === null ? c.body(null, 204) : problemResponse(failure);
      },
    )
    .post(
      "/batch",
      may("check"),
      limited,
      posted<BatchInput, Batch, object>(batchBody, readNoOptions, readBatch),
      async (c) => {
        const { checks } = c.req.valid("json");
        const answers = await checkEach(runtime, checks, c.var.holder.tenant, waitUntilOf(c));
        const results = answers.map((each) =>
          isFailure(each) ? { problem: problemDetails(each) } : each,
        );
        return c.json({ results }, 200, noStore);
      },
    );

const others = (runtime: Runtime, may: May, limited: MiddlewareHandler) =>
  new Hono<Authorized>()
    .post(
      "/reserve",
      may("check"),
      limited,
      posted<ReserveInput, Reserve, Options>(body, readOptions, readReserve),
      async (c) => {
        const asked = c.req.valid("json");
        const answer = await reserve(runtime, asked, c.var.holder.tenant, waitUntilOf(c));
        return respond(asked.deny, answer);
      },
    )
    .post(
      "/settle",
      may("check"),
      limited,
      posted<Settle, Settle, object>(body, readNoOptions, readSettle),
      async (c) => {
        const answer = await settle(runtime, c.req.valid("json"), c.var.holder.tenant);
        return isFailure(answer) ? problemResponse(answer) : told(answer, 200);
      },
    )
    .get(
      "/forward",
      may("check"),
      limited,
      queried<ForwardQuery, ForwardOptions>(readForward),
      (c) => forwardAuth(runtime, c, c.req.valid("query")),
    );

/** The document of these routes, which names the path that they are found at, and whether looks need a token. */
function described(path: string, isLookOpen: boolean): object {
  const url = path.slice(0, -documentPath.length);
  const servers = document.servers.map((server) => ({ ...server, url }));
  if (!isLookOpen) return { ...document, servers };
  const root = document.paths["/"];
  const get = { ...root.get, security: [{}, ...document.security] };
  return { ...document, servers, paths: { ...document.paths, "/": { ...root, get } } };
}

const only =
  (...allowed: string[]) =>
  () =>
    problemResponse({ kind: "method-not-allowed", allowed });

/** 200 with the decision, allowed or not; a denial answers `deny` instead where the caller looks only at the status. */
function respond<Told extends Answer>(deny: Check["deny"], answer: Told | Failure) {
  if (isFailure(answer)) return problemResponse(answer);
  const isRefused = deny !== undefined && !answer.allowed;
  return isRefused ? told(answer, deny, answer.headers) : told(answer, 200);
}

/** As `c.json` of Hono, which takes three times as long to give a response its headers. */
function told<Told extends object, Status extends 200 | 403 | 429>(
  answer: Told,
  status: Status,
  headers: Readonly<Record<string, string>> = {},
): Response & TypedResponse<Told, Status, "json"> {
  const response = Response.json(answer, { status, headers: { ...noStore, ...headers } });
  // What is beyond a Response is not there: it only tells clients of the routes what they get.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return response as Response & TypedResponse<Told, Status, "json">;
}
