/** `/check`: decisions for callers who enforce limits themselves. A denial is a successful check. */
import type { Context, MiddlewareHandler, Next } from "hono";
import { bodyLimit } from "hono/body-limit";
import { Hono } from "hono/tiny";
import type { Later } from "../limiter/object-calls.ts";
import { type Authorized, requireToken } from "./auth.ts";
import {
  type Check,
  readBatch,
  readBody,
  readForgetQuery,
  readLook,
  readNoOptions,
  readOptions,
  readReserve,
  readSettle,
  readSpend,
} from "./check-input.ts";
import { type Answer, check, checkEach, forget, look, reserve, settle } from "./checks.ts";
import { decideDescribed } from "./forward-auth.ts";
import type { Gate } from "./gate.ts";
import {
  type Failure,
  type FieldsInvalid,
  isFailure,
  problemDetails,
  problemResponse,
} from "./problems.ts";

const bodyLimitBytes = 16 * 1024;
const batchLimitBytes = 128 * 1024;
const noStore = { "Cache-Control": "no-store" };

const sized = (limitBytes: number): MiddlewareHandler =>
  bodyLimit({
    maxSize: limitBytes,
    onError: () => problemResponse({ kind: "body-too-large", limitBytes }),
  });

/** The routes at and below `CHECK_PATH`. Health is open to all; everything else needs a token. */
export function checkRoutes(gate: Gate): Hono<Authorized> {
  const routes = new Hono<Authorized>();
  const may = requireToken(gate.checkTokens);

  routes.get("/health", (c) => c.json({ status: "ok" }, 200, noStore));
  routes.all("/health", () =>
    problemResponse({ kind: "method-not-allowed", allowed: ["GET", "HEAD"] }),
  );

  routes.get("/", may("look"), refuseMisencoded, async (c) => {
    const asked = readLook(c.req.queries());
    if ("kind" in asked) return problemResponse(asked);
    return respond(c, asked, await look(gate, asked, c.var.holder.tenant));
  });

  routes.post("/", may("check"), sized(bodyLimitBytes), async (c) => {
    const asked = await readPost(c, readOptions, readSpend);
    if ("kind" in asked) return problemResponse(asked);
    const { tenant } = c.var.holder;
    return respond(c, asked, await check(gate, asked, tenant, laterOf(c)));
  });

  routes.delete("/", may("forget"), refuseMisencoded, async (c) => {
    const asked = readForgetQuery(c.req.queries());
    const failure = "kind" in asked ? asked : await forget(gate, asked, c.var.holder.tenant);
    return failure === null ? c.body(null, 204) : problemResponse(failure);
  });

  routes.all("/", () =>
    problemResponse({ kind: "method-not-allowed", allowed: ["GET", "HEAD", "POST", "DELETE"] }),
  );

  routes.post("/reserve", may("check"), sized(bodyLimitBytes), async (c) => {
    const asked = await readPost(c, readOptions, readReserve);
    if ("kind" in asked) return problemResponse(asked);
    const { tenant } = c.var.holder;
    return respond(c, asked, await reserve(gate, asked, tenant, laterOf(c)));
  });

  routes.post("/settle", may("check"), sized(bodyLimitBytes), async (c) => {
    const asked = await readPost(c, readNoOptions, readSettle);
    const answer = "kind" in asked ? asked : await settle(gate, asked, c.var.holder.tenant);
    return "kind" in answer ? problemResponse(answer) : c.json(answer, 200, noStore);
  });

  routes.post("/batch", may("check"), sized(batchLimitBytes), async (c) => {
    const asked = await readPost(c, readNoOptions, readBatch);
    if ("kind" in asked) return problemResponse(asked);
    const { tenant, may: rights } = c.var.holder;
    if (!rights.has("adhoc") && asked.checks.some((each) => "adhoc" in each)) {
      return problemResponse({ kind: "not-permitted", right: "adhoc" });
    }
    const answers = await checkEach(gate, asked.checks, tenant);
    const results = answers.map((each) =>
      "kind" in each ? { problem: problemDetails(each) } : each,
    );
    return c.json({ results }, 200, noStore);
  });

  for (const path of ["/reserve", "/settle", "/batch"])
    routes.all(path, () => problemResponse({ kind: "method-not-allowed", allowed: ["POST"] }));

  routes.get("/forward", may("check"), (c) => {
    const options = readOptions(c.req.queries());
    return isFailure(options) ? problemResponse(options) : decideDescribed(gate, c, options.deny);
  });
  routes.all("/forward", () =>
    problemResponse({ kind: "method-not-allowed", allowed: ["GET", "HEAD"] }),
  );

  routes.all("/*", () => problemResponse({ kind: "unknown-path" }));
  return routes;
}

const laterOf =
  (c: Context): Later =>
  (work) =>
    c.executionCtx.waitUntil(work);

/** What a request with a body asks for; what is wrong with its fields and with its query is told at once. */
async function readPost<Options extends object, Asked extends object>(
  c: Context<Authorized>,
  readQuery: (queries: Record<string, string[]>) => Options | FieldsInvalid,
  read: (json: unknown) => Asked | FieldsInvalid,
): Promise<(Options & Asked) | Failure> {
  const options = readQuery(c.req.queries());
  const body = await readBody(c.req.raw);
  if ("kind" in body) return body;
  const asked = read(body.json);
  if ("adhoc" in asked && !c.var.holder.may.has("adhoc")) {
    return { kind: "not-permitted", right: "adhoc" };
  }
  if (!isFailure(asked) && !isFailure(options)) return { ...options, ...asked };
  const errors = [asked, options].flatMap((each) =>
    isFailure<FieldsInvalid>(each) ? each.errors : [],
  );
  return { kind: "fields-invalid", errors };
}

/** What stands for no text is left as it is by the query's reader: different queries would name one key. */
async function refuseMisencoded(c: Context, next: Next): Promise<Response | undefined> {
  try {
    decodeURIComponent(c.req.url);
  } catch {
    return problemResponse({ kind: "query-malformed" });
  }
  await next();
  return undefined;
}

/** 200 with the decision, allowed or not; a denial answers `deny` instead where the caller looks only at the status. */
function respond(c: Context, { deny }: Pick<Check, "deny">, answer: Answer | Failure): Response {
  if ("kind" in answer) return problemResponse(answer);
  const isRefused = deny !== undefined && !answer.allowed;
  return isRefused
    ? c.json(answer, deny, { ...noStore, ...answer.headers })
    : c.json(answer, 200, noStore);
}
