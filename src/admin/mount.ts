/** Adds the admin API and the console to the routes of a Worker. */
import type { Hono } from "hono";
import type { AdminSettings } from "../policy/vars/admin.ts";
import type { Config } from "../policy/vars/config.ts";
import { routedPath } from "../http/attributes.ts";
import type { Runtime } from "../http/runtime.ts";
import { isOnHost } from "./authenticate.ts";
import { neverProxied } from "./console.ts";
import type { ControlPlaneBinding } from "./control-plane-caller.ts";
import { type AdminParts, adminRoutes } from "./routes.ts";

/** No-op without credentials for the admin API. */
export function mountAdmin(
  app: Hono,
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
