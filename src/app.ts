/** Every route, and the order in which a request meets what stands before it. */
import { Hono } from "hono/tiny";
import { type Config, deploymentProblems, parseConfig } from "./config/index.ts";
import { checkRoutes } from "./http/check/routes.ts";
import { enforce } from "./http/proxy/enforce.ts";
import { internalFault, startFailure, warnOfConfiguration } from "./http/faults.ts";
import { createRuntime, type Runtime } from "./http/runtime.ts";
import { markResponses } from "./http/proxy/response-marks.ts";
import { problemResponse } from "./http/wire/problems.ts";
import { forwardTo, refuseUnforwardable } from "./http/proxy/forward.ts";
import { refuseUnreadable, routedPath } from "./http/routed-path.ts";
import { brokenService, createService, type Service } from "./http/check/service.ts";

export type { CheckRoutes } from "./http/check/routes.ts";
export type { CheckInput, ForgetInput, ReserveInput, SettleInput } from "./http/check/input.ts";
export type { Service } from "./http/check/service.ts";

/** The Worker of an environment. */
export interface App {
  /** What requests meet. */
  readonly routes: Hono;
  /** What other Workers call. */
  readonly service: Service;
}

/** While its variables are broken, the app answers everything with their problems. */
export function createApp(env: Env): App {
  const variables = { ...env };
  const unsolved = deploymentProblems(variables);
  try {
    const config = parseConfig(variables);
    warnOfConfiguration([...config.warnings, ...unsolved]);
    const runtime = createRuntime(config, env.RATE_LIMITER);
    return { routes: routes(config, runtime), service: createService(runtime) };
  } catch (error) {
    warnOfConfiguration(unsolved);
    const failure = startFailure(error);
    return {
      routes: new Hono().all("*", () => problemResponse(failure)),
      service: brokenService(failure),
    };
  }
}

function routes(config: Config, runtime: Runtime): Hono {
  const app = new Hono({ getPath: routedPath });
  app.use("*", refuseUnreadable);
  app.route(config.checkPath, checkRoutes(runtime));
  const { pseudonym } = runtime;
  app.all(
    "*",
    markResponses(config.corsOrigins, pseudonym),
    refuseUnforwardable(config, pseudonym),
    enforce(runtime, forwardTo(config, pseudonym)),
  );
  app.onError(internalFault);
  return app;
}
