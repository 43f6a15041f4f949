/** The routes of the console and of the admin API. Each call of the API requires a valid token or Access JWT, and the right of its call. */
import type { Hono as App, MiddlewareHandler } from "hono";
import { Hono } from "hono/tiny";
import { type AdminRight, adminRights } from "../policy/vars/secrets.ts";
import type { AdminSettings } from "../policy/vars/admin.ts";
import type { Config } from "../policy/vars/config.ts";
import { KeySealer } from "../control/isolate/key-sealer.ts";
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
import { listDenials, searchDenials } from "./denial-routes.ts";
import { explainKey } from "./explain/explanation.ts";
import { readKeyHistory, recordKey, stopRecording } from "./key-history.ts";
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

type Method = "get" | "post" | "put" | "patch" | "delete";
/** The right that the call needs, and its handler. Null: every operator may call it. */
type Operation = readonly [AdminRight | null, (context: AdminContext, c: AuthorizedCall) => Promise<Response>];

/** The reads of what isolates have counted. */
const countReads: ReadonlySet<string> = new Set(["/stats", "/top", "/denials"]);

/** Every call by path and method. */
const calls: Readonly<Record<string, Readonly<Partial<Record<Method, Operation>>>>> = {
  "/openapi.json": { get: [null, readDocument] },
  "/operator": { get: [null, readOperator] },
  "/policies": { get: ["read", listPolicies] },
  "/policies/:name": { get: ["read", readOnePolicy], patch: ["write", patchPolicy] },
  "/keys/explain": { post: ["read", explainKey] },
  "/keys/reveal": { post: ["reveal", revealKey] },
  "/keys/:policy/:id/history": { get: ["read", readKeyHistory] },
  "/keys/:policy/:id/recording": { put: ["write", recordKey], delete: ["write", stopRecording] },
  "/keys/:policy/:id/usage": { delete: ["write", resetKey] },
  "/rules": { get: ["read", listRules], post: ["write", createRule] },
  "/rules/:id": { get: ["read", readOneRule], put: ["write", replaceRule], delete: ["write", deleteRule] },
  "/audit": { get: ["read", readAudit] },
  "/audit/undo": { post: ["write", undoEntries] },
  "/rollback": { get: ["read", readRollback], post: ["write", rollBack] },
  "/stats": { get: ["read", readStatistics] },
  "/top": { get: ["read", readTop] },
  "/samples": { get: ["read", readSamples] },
  "/denials": { get: ["read", listDenials] },
  "/denials/search": { post: ["read", searchDenials] },
  "/tail/ticket": { post: ["read", createTicket] },
  "/metrics": { get: ["read", readMetrics] },
};

/** Undefined for a binding that is missing. */
interface AdminBindings {
  readonly CONTROL_PLANE?: ControlPlaneBinding;
  readonly ASSETS?: Assets;
}

/** No-op without credentials for the admin API. */
export function mountAdmin(
  app: App,
  { config, runtime, env }: { config: Config; runtime: Runtime; env: object },
): void {
  const { admin: settings } = config;
  if (settings === null) return;
  // Cast because only the configuration of the Worker determines its bindings.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  app.route(settings.path, adminRoutes(settings, config, runtime, env as AdminBindings));
  if (settings.host !== null) app.use("*", neverProxied(settings));
}

/** All routes below `ADMIN_PATH`. Nothing below it is forwarded. */
function adminRoutes(
  settings: AdminSettings,
  config: Config,
  runtime: Runtime,
  { CONTROL_PLANE: objects, ASSETS: assets }: AdminBindings,
): Hono<Authenticated> {
  const { clock, control } = runtime;
  const attempts = new FailedAttempts(clock);
  const authenticate = authenticator(settings, attempts);
  const routes = new Hono<Authenticated>();
  routes.onError(answerRefusal);
  routes.use("*", isolated);
  routes.use("*", consoleAt(settings, assets));
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
  routes.use("/api/*", async (c, next) => {
    await next();
    // The console corrects its clock by this field, which only Cloudflare's network sets by itself.
    c.header("Date", new Date(clock.now()).toUTCString());
  });
  routes.use("/api/*", async (c, next) => {
    c.set("operator", await authenticate(c.req.raw));
    // A beat describes this deployment to the control plane, which would otherwise show rules of new policies as
    // orphans.
    if (countReads.has(c.req.path.slice(context.apiPath.length))) await control.report(waitUntilFrom(c));
    else control.touch(waitUntilFrom(c));
    return next();
  });
  for (const [path, methods] of Object.entries(calls)) {
    for (const [method, [right, handle]] of Object.entries(methods)) {
      routes.on(method.toUpperCase(), `/api${path}`, (c) => {
        if (right !== null) requireRight(c.var.operator, right);
        return handle(context, c);
      });
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
