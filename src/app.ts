/** Every route, and the order in which a request meets what stands before it. */
import { Hono } from "hono/tiny";
import { type Config, ConfigProblems, parseConfig } from "./config/index.ts";
import { checkRoutes } from "./http/check.ts";
import { enforce } from "./http/enforce.ts";
import { brokenConfiguration, internalFault, warnOfConfiguration } from "./http/faults.ts";
import { createGate } from "./http/gate.ts";
import { proxy, refuseUnforwardable } from "./http/proxy.ts";

/** The Worker of an environment; one that answers everything with its problems while its variables are broken. */
export function createApp(env: Env): Hono {
  try {
    const config = parseConfig({ ...env });
    warnOfConfiguration(config.warnings);
    return routes(config, env);
  } catch (error) {
    if (!(error instanceof ConfigProblems)) throw error;
    return new Hono().all("*", brokenConfiguration(error.problems));
  }
}

function routes(config: Config, env: Env): Hono {
  const gate = createGate(config, env.RATE_LIMITER);
  const app = new Hono();
  app.route(config.checkPath, checkRoutes(gate));
  app.all("*", refuseUnforwardable(config), enforce(gate), proxy(config));
  app.onError(internalFault);
  return app;
}
