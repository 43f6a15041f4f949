/** The routes of the console and of the admin API. Each call of the API requires a valid token or Access JWT, and the right of its call. */
import type { Hono as App, MiddlewareHandler } from "hono";
import { Hono } from "hono/tiny";
import { type AdminRight, adminRights } from "../policy/vars/secrets.ts";
import type { AdminSettings } from "../policy/vars/admin.ts";
import type { Config } from "../policy/vars/config.ts";
import { KeySealer } from "../control/isolate/key-sealer.ts";
import type { Clock } from "../limiter/clock.ts";
import { type Assets, openApiDocument } from "../http/openapi.ts";
import { type Runtime, waitUntilFrom } from "../http/runtime.ts";
import { isFailure, problemResponse } from "../http/wire/problems.ts";
import { FailedAttempts, authenticator, isOnHost } from "./authenticate.ts";
import { consoleAt, isolationFields, neverProxied } from "./console.ts";
import {
  type AdminContext,
  type Authenticated,
  type AuthorizedCall,
  answer,
  answerRefusal,
  queryIn,
  requireRight,
} from "./context.ts";
import { type ControlPlaneBinding, ControlPlaneCaller } from "./control-plane-caller.ts";
import { explainKey } from "./explain/explanation.ts";
import { readTop, resetKey, revealKey } from "./key-routes.ts";
import { listPolicies, patchPolicy, readOnePolicy } from "./policy-routes.ts";
import {
  createRule,
  deleteRule,
  listRules,
  readAudit,
  readOneRule,
  readRollback,
  replaceRule,
  rollBack,
  undoEntries,
} from "./rule-routes.ts";
import { readSamples } from "./sample-routes.ts";
import { createTicket, openTail, readMetrics, readStatistics } from "./statistics-routes.ts";
import type { OperatorView } from "./wire.ts";
import { routedPath } from "../http/attributes.ts";

type Methods = "get" | "post" | "put" | "patch" | "delete";
type Handle = (context: AdminContext, c: AuthorizedCall) => Promise<Response>;

interface Operation {
  /** Null: every operator. */
  readonly right: AdminRight | null;
  readonly handle: Handle;
}

/** Every call by path and method. */
const calls: Readonly<Record<string, Readonly<Partial<Record<Methods, Operation>>>>> = {
  "/openapi.json": { get: { right: null, handle: readDocument } },
  "/operator": { get: { right: null, handle: readOperator } },
  "/policies": { get: { right: "read", handle: listPolicies } },
  "/policies/:name": {
    get: { right: "read", handle: readOnePolicy },
    patch: { right: "write", handle: patchPolicy },
  },
  "/keys/explain": {
    post: {
      right: "read",
      handle: explainKey,
    },
  },
  "/keys/reveal": { post: { right: "reveal", handle: revealKey } },
  "/keys/:policy/:id/usage": { delete: { right: "write", handle: resetKey } },
  "/rules": {
    get: { right: "read", handle: listRules },
    post: { right: "write", handle: createRule },
  },
  "/rules/:id": {
    get: { right: "read", handle: readOneRule },
    put: { right: "write", handle: replaceRule },
    delete: { right: "write", handle: deleteRule },
  },
  "/audit": { get: { right: "read", handle: readAudit } },
  "/audit/undo": { post: { right: "write", handle: undoEntries } },
  "/rollback": {
    get: { right: "read", handle: readRollback },
    post: { right: "write", handle: rollBack },
  },
  "/stats": { get: { right: "read", handle: readStatistics } },
  "/top": { get: { right: "read", handle: readTop } },
  "/samples": { get: { right: "read", handle: readSamples } },
  "/tail/ticket": { post: { right: "read", handle: createTicket } },
  "/metrics": { get: { right: "read", handle: readMetrics } },
};

export interface AdminParts {
  readonly config: Config;
  readonly settings: AdminSettings;
  readonly runtime: Runtime;
  /** Undefined when the binding is missing. */
  readonly objects: ControlPlaneBinding | undefined;
  /** Undefined when the binding is missing. */
  readonly assets: Assets | undefined;
}

/** All routes below `ADMIN_PATH`. Nothing below it is forwarded. */
export function adminRoutes(parts: AdminParts): Hono<Authenticated> {
  const { config, settings, runtime, objects, assets } = parts;
  const { clock } = runtime;
  const attempts = new FailedAttempts(clock);
  const authenticate = authenticator(settings, attempts);
  const routes = new Hono<Authenticated>();
  routes.onError(answerRefusal);
  routes.use("*", isolated);
  routes.use("*", consoleAt(settings, assets));
  const { control } = runtime;
  if (objects === undefined || control === null) {
    return routes.all("*", () => problemResponse({ kind: "control-plane-missing" }));
  }
  const context: AdminContext = {
    apiPath: `${settings.path}/api`,
    assets,
    runtime,
    control,
    policies: config.policies,
    jwt: config.jwt,
    sampleOneKeyIn: config.sampleOneKeyIn,
    controlPlane: new ControlPlaneCaller(objects, clock),
    sealer: new KeySealer(config.keySecret),
    clock,
  };
  routes.get("/api/tail", (c) => openTail(context, c, attempts));
  routes.use("/api/*", dated(clock), async (c, next) => {
    c.set("operator", await authenticate(c.req.raw));
    // A beat describes this deployment to the control plane, which would otherwise show rules of new policies as
    // orphans.
    control.touch(waitUntilFrom(c));
    return next();
  });
  for (const [path, methods] of Object.entries(calls)) {
    for (const [method, { right, handle }] of Object.entries(methods)) {
      routes.on(method.toUpperCase(), `/api${path}`, may(right), (c) => handle(context, c));
    }
    routes.all(`/api${path}`, () => methodNotAllowed(Object.keys(methods)));
  }
  routes.all("/api/tail", () => methodNotAllowed(["get"]));
  return routes.all("*", () => problemResponse({ kind: "unknown-path" }));
}

/** Pages of other web origins cannot include an answer, which the cookie of Access may have authenticated. */
const isolated: MiddlewareHandler = async (c, next) => {
  await next();
  // The answer to a WebSocket handshake has no content.
  if (c.res.status === 101) return;
  for (const [name, value] of Object.entries(isolationFields)) c.header(name, value);
};

/** The console corrects its clock by the field `Date`, which only Cloudflare's network sets by itself. */
const dated =
  ({ now }: Clock): MiddlewareHandler =>
  async (c, next) => {
    await next();
    c.header("Date", new Date(now()).toUTCString());
  };

const may =
  (right: AdminRight | null): MiddlewareHandler<Authenticated> =>
  async (c, next) => {
    if (right !== null) requireRight(c.var.operator, right);
    return next();
  };

const methodNotAllowed = (methods: readonly string[]): Response =>
  problemResponse({
    kind: "method-not-allowed",
    allowed: methods.flatMap((name) => (name === "get" ? ["GET", "HEAD"] : [name.toUpperCase()])),
  });

/** The OpenAPI document of this deployment. */
async function readDocument({ apiPath, assets }: AdminContext): Promise<Response> {
  const document = await openApiDocument(assets, "admin", apiPath);
  return isFailure(document) ? problemResponse(document) : answer<object>(document);
}

/** The name of the caller, and its rights, by which the console offers actions. */
async function readOperator(_: AdminContext, c: AuthorizedCall): Promise<Response> {
  queryIn(c, {});
  const { actor, may: rights } = c.var.operator;
  return answer<OperatorView>({ ...actor, may: adminRights.filter((right) => rights.has(right)) });
}

/** No-op without credentials for the admin API. */
export function mountAdmin(
  app: App,
  { config, runtime, env }: { config: Config; runtime: Runtime; env: object },
): void {
  const { admin: settings } = config;
  if (settings === null) return;
  app.route(settings.path, adminRoutes({ config, settings, runtime, ...bindingsIn(env) }));
  if (settings.host !== null) app.use("*", neverProxied(settings));
}

/** Whether the admin API and the console answer a request, if they are mounted. */
export function isAdminRequest(request: Request, settings: AdminSettings | null): boolean {
  if (settings === null) return false;
  const path = routedPath(request);
  return (
    path === settings.path ||
    path.startsWith(`${settings.path}/`) ||
    (settings.host !== null && isOnHost(request, settings.host))
  );
}

function bindingsIn(env: object): Pick<AdminParts, "objects" | "assets"> {
  // Cast because only the configuration of the Worker determines its bindings.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const bindings = env as { CONTROL_PLANE?: ControlPlaneBinding; ASSETS?: AdminParts["assets"] };
  return { objects: bindings.CONTROL_PLANE, assets: bindings.ASSETS };
}
