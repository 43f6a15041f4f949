/** The Worker of an environment: its routes, its middleware in order, and its service for other Workers. */
import type { Context, Next } from "hono";
import { Hono } from "hono/tiny";
import { type Config, deploymentProblems, isUnconfigured, parseConfig } from "./policy/vars/config.ts";
import { RequestTarget } from "./policy/request.ts";
import { mountAdmin } from "./admin/routes.ts";
import { urlOf, routedPath } from "./http/attributes.ts";
import { type CheckOperations, checkRoutes, createCheck } from "./http/check/routes.ts";
import { brokenService, createService, type Service } from "./http/check/service.ts";
import { createProxy, type Proxy } from "./http/proxy/proxy.ts";
import { optionsAnswer } from "./http/proxy/forward.ts";
import type { Assets } from "./http/openapi.ts";
import {
  answerInternalError,
  createRuntime,
  reportStartError,
  reportWarnings,
  type Runtime,
  waitUntilFrom,
} from "./http/runtime.ts";
import { setupAnswer } from "./http/setup.ts";
import { type Failure, problemResponse } from "./http/wire/problems.ts";

export type { CheckInput, ForgetInput, ReserveInput, SettleInput } from "./http/check/input.ts";
export type { Service } from "./http/check/service.ts";

export interface App {
  /** Returns the same responses as `routes`, with less work for most requests. */
  readonly fetch: (request: Request, env: Env, ctx: ExecutionContext) => Response | Promise<Response>;
  readonly routes: Hono;
  readonly service: Service;
}

/** With an invalid or incomplete configuration, the app answers every request and call with the problems found. */
export function createApp(env: Env): App {
  const variables = { ...env };
  const deploymentWarnings = deploymentProblems(variables).map(({ text }) => text);
  try {
    const config = parseConfig(variables);
    reportWarnings([...config.warnings, ...deploymentWarnings]);
    const runtime = createRuntime(config, env);
    const check = createCheck(runtime);
    const proxy = createProxy(config, runtime);
    const routed = routes(config, runtime, { env, check, proxy });
    return {
      fetch: fastPath(config, { routed, check, proxy }),
      routes: routed,
      service: createService(runtime),
    };
  } catch (error) {
    reportWarnings(deploymentWarnings);
    const failure = startFailure(reportStartError(error), variables);
    const routed = new Hono().all("*", (c) => setupAnswer(c.req.raw, failure));
    return {
      fetch: (...call) => routed.fetch(...call),
      routes: routed,
      service: brokenService(failure),
    };
  }
}

/** A configuration whose only problem is that needed variables are not set gets a separate answer. */
const startFailure = (failure: Failure, variables: Readonly<Record<string, unknown>>): Failure =>
  failure.kind === "configuration-invalid" && isUnconfigured(failure.problems, variables)
    ? { ...failure, kind: "configuration-missing" }
    : failure;

/**
 * Answers most requests without Hono, by the functions that its routes call too. Hono routes all other requests, such as
 * HEAD requests and URLs that must be normalized first.
 */
function fastPath(
  { checkPath, admin }: Config,
  { routed, check, proxy }: { readonly routed: Hono; readonly check: CheckOperations; readonly proxy: Proxy },
): App["fetch"] {
  const paths = admin === null ? [checkPath] : [checkPath, admin.path];
  const posts = new Map([
    [checkPath, check.check],
    [`${checkPath}/batch`, check.batch],
    [`${checkPath}/reserve`, check.reserve],
    [`${checkPath}/settle`, check.settle],
  ]);
  return (request, env, ctx) => {
    const target = request.method === "HEAD" ? null : RequestTarget.plain(request.url);
    if (target === null) return routed.fetch(request, env, ctx);
    const waitUntil = (work: Promise<unknown>): void => ctx.waitUntil(work);
    const { receivedPath } = target;
    const answer = request.method === "POST" ? posts.get(receivedPath) : undefined;
    if (answer !== undefined) return answer(request, waitUntil);
    const isProxied = !paths.some((path) => isAtOrBelow(path, receivedPath)) && target.hostname !== admin?.host;
    return isProxied ? proxy(request, waitUntil, target) : routed.fetch(request, env, ctx);
  };
}

/** @param received a path in plain form */
const isAtOrBelow = (path: string, received: string): boolean =>
  received.startsWith(path) && (received.length === path.length || received[path.length] === "/");

function routes(
  config: Config,
  runtime: Runtime,
  { env, check, proxy }: { readonly env: Env; readonly check: CheckOperations; readonly proxy: Proxy },
): Hono {
  const app = new Hono({ getPath: routedPath });
  app.use("*", rejectMalformedUrl);
  const { ASSETS: assets }: { readonly ASSETS?: Assets } = env;
  app.route(config.checkPath, checkRoutes(runtime, check, assets));
  mountAdmin(app, { config, runtime, env });
  app.all("*", (c) => proxy(c.req.raw, waitUntilFrom(c)));
  app.onError(answerInternalError);
  return app;
}

/** URL parsing also accepts characters such as `;`, which would begin a further parameter in `Forwarded`. */
const hostName = /^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])$/;

/** `OPTIONS *` asks for the server's capabilities (RFC 9110, section 9.3.7); workerd appends the `*` to the host. */
const isServerWideOptions = ({ method, url }: Request): boolean =>
  method === "OPTIONS" && /^https?:\/\/[^/]*\*\/?$/i.test(url);

/** Answers 400 when the URL has no valid host: a client may send any `Host` (RFC 9112, section 3.2). */
async function rejectMalformedUrl(c: Context, next: Next): Promise<Response | undefined> {
  if (isServerWideOptions(c.req.raw)) return optionsAnswer();
  const url = urlOf(c.req.raw);
  if (url === null || !hostName.test(url.hostname)) return problemResponse({ kind: "url-malformed" });
  await next();
  return undefined;
}
