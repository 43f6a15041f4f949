/** The admin API and the console of a Worker that limits with `rateLimit`. */
import { Hono, type MiddlewareHandler } from "hono";
import { isAdminRequest, mountAdmin } from "../../admin/mount.ts";
import { routedPath } from "../../http/attributes.ts";
import { isFailure, problemResponse } from "../../http/wire/problems.ts";
import { type WorkerEnvironment, environmentReader } from "./environment.ts";

/**
 * Serves everything below `ADMIN_PATH` (default: `/_headgate`), and the whole `ADMIN_HOST`. Passes all other requests on,
 * and without credentials (`ADMIN_TOKENS` or `ACCESS_TEAM`) every request. The Worker has a binding `CONTROL_PLANE` of the
 * class `ControlPlane` from `headgate/object`.
 */
export function admin(): MiddlewareHandler {
  const apps = new WeakMap<WorkerEnvironment, Hono>();
  const environmentOf = environmentReader([]);
  return async function administered(c, next) {
    const environment = environmentOf(c.env);
    if (isFailure(environment)) return problemResponse(environment);
    const { config, runtime } = environment;
    if (!isAdminRequest(c.req.raw, config.admin)) return next();
    let app = apps.get(environment);
    if (app === undefined) {
      app = new Hono({ getPath: routedPath });
      mountAdmin(app, { config, runtime, env: c.env });
      apps.set(environment, app);
    }
    return app.fetch(c.req.raw, c.env, c.executionCtx);
  };
}
