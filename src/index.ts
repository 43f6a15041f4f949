/** The Worker: its fetch handler and the object that counts. */
import { createApp } from "./app.ts";
import { parseConfig } from "./config/index.ts";
import { problemResponse } from "./http/problems.ts";
import { report } from "./observability/events.ts";
import { ConfigProblems } from "./strategies/index.ts";

export { RateLimiter } from "./limiter/rate-limiter.ts";

type Handle = (request: Request, env: Env, ctx: ExecutionContext) => Response | Promise<Response>;

/** The environment is one object for the life of an isolate: configuration is read once, and so are its problems. */
const handles = new WeakMap<Env, Handle>();

function handleOf(env: Env): Handle {
  const known = handles.get(env);
  if (known !== undefined) return known;
  const handle = createHandle(env);
  handles.set(env, handle);
  return handle;
}

function createHandle(env: Env): Handle {
  try {
    return createApp(parseConfig({ ...env }), env.RATE_LIMITER).fetch;
  } catch (error) {
    if (!(error instanceof ConfigProblems)) throw error;
    const { problems } = error;
    report({ event: "configuration-invalid", problems });
    return () => problemResponse({ kind: "configuration-invalid", problems });
  }
}

export default {
  fetch(request, env, ctx) {
    return handleOf(env)(request, env, ctx);
  },
} satisfies ExportedHandler<Env>;
