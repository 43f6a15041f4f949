/** The Worker: its fetch handler and the object that counts. */
import { createApp } from "./app.ts";

export { RateLimiter } from "./limiter/rate-limiter.ts";

/** The environment is one object for the life of an isolate: its configuration is read once. */
const apps = new WeakMap<Env, ReturnType<typeof createApp>>();

function appOf(env: Env): ReturnType<typeof createApp> {
  const known = apps.get(env);
  if (known !== undefined) return known;
  const app = createApp(env);
  apps.set(env, app);
  return app;
}

export default {
  fetch(request, env, ctx) {
    return appOf(env).fetch(request, env, ctx);
  },
} satisfies ExportedHandler<Env>;
