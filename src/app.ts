/** The Worker of an environment: its routes, its middleware in order, and its service for other Workers. */
import type { MiddlewareHandler } from "hono";
import { Hono } from "hono/tiny";
import { type Config, deploymentProblems, parseConfig } from "./config/index.ts";
import { isOnHost } from "./http/admin/authenticate.ts";
import type { ControlPlaneBinding } from "./http/admin/control-plane-caller.ts";
import { adminRoutes } from "./http/admin/routes.ts";
import { checkRoutes } from "./http/check/routes.ts";
import { brokenService, createService, type Service } from "./http/check/service.ts";
import { enforce } from "./http/proxy/enforce.ts";
import { forwardTo, rejectUnforwardable } from "./http/proxy/forward.ts";
import { proxyStatusAndCors } from "./http/proxy/response-marks.ts";
import { rejectMalformedUrl, routedPath } from "./http/routed-path.ts";
import {
  answerInternalError,
  createRuntime,
  reportStartError,
  reportWarnings,
  type Runtime,
} from "./http/runtime.ts";
import { problemResponse } from "./http/wire/problems.ts";

export type { CheckRoutes } from "./http/check/routes.ts";
export type { CheckInput, ForgetInput, ReserveInput, SettleInput } from "./http/check/input.ts";
export type { Service } from "./http/check/service.ts";

export interface App {
  readonly routes: Hono;
  readonly service: Service;
}

/** With an invalid configuration, the app answers every request and call with the problems of that configuration. */
export function createApp(env: Env): App {
  const variables = { ...env };
  const deploymentWarnings = deploymentProblems(variables);
  try {
    const config = parseConfig(variables);
    reportWarnings([...config.warnings, ...deploymentWarnings]);
    const runtime = createRuntime(config, env);
    return { routes: routes(config, runtime, env), service: createService(runtime) };
  } catch (error) {
    reportWarnings(deploymentWarnings);
    const failure = reportStartError(error);
    return {
      routes: new Hono().all("*", () => problemResponse(failure)),
      service: brokenService(failure),
    };
  }
}

function routes(config: Config, runtime: Runtime, env: Env): Hono {
  const { pseudonym } = runtime;
  const app = new Hono({ getPath: routedPath });
  app.use("*", rejectMalformedUrl);
  app.route(config.checkPath, checkRoutes(runtime));
  if (config.admin !== null) {
    const { path, host } = config.admin;
    app.route(
      path,
      adminRoutes({ config, settings: config.admin, runtime, objects: bindingOf(env) }),
    );
    if (host !== null) app.use("*", neverProxied(host));
  }
  app.all(
    "*",
    proxyStatusAndCors(config.corsOrigins, pseudonym),
    rejectUnforwardable(config, pseudonym),
    enforce(
      runtime,
      forwardTo(config, pseudonym, () => runtime.statistics?.originFailed()),
    ),
  );
  app.onError(answerInternalError);
  return app;
}

/** Cast because the binding's generated type has the same methods, but promises that are also disposable. */
const bindingOf = ({ CONTROL_PLANE: objects }: Partial<Env>): ControlPlaneBinding | undefined =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  objects as unknown as ControlPlaneBinding | undefined;

/**
 * `ADMIN_HOST` proxies nothing: a page of the proxied site would share the web origin of the admin API, and could call
 * it as the operator.
 */
const neverProxied =
  (host: string): MiddlewareHandler =>
  async (c, next) =>
    isOnHost(c.req.raw, host) ? problemResponse({ kind: "unknown-path" }) : next();
