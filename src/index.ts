/** The Worker: its fetch handler, the object that counts, and the service for other Workers on the account. */
import { WorkerEntrypoint } from "cloudflare:workers";
import {
  type App,
  type CheckInput,
  createApp,
  type ForgetInput,
  type ReserveInput,
  type Service,
  type SettleInput,
} from "./app.ts";

export { RateLimiter } from "./limiter/object/rate-limiter.ts";

/** The environment is one object for the life of an isolate: its configuration is read once. */
const apps = new WeakMap<Env, App>();

function appOf(env: Env): App {
  const known = apps.get(env);
  if (known !== undefined) return known;
  const app = createApp(env);
  apps.set(env, app);
  return app;
}

export default {
  fetch(request, env, ctx) {
    return appOf(env).routes.fetch(request, env, ctx);
  },
} satisfies ExportedHandler<Env>;

/** Bind it as a service with `entrypoint = "Headgate"`. */
export class Headgate extends WorkerEntrypoint<Env> {
  check(input: CheckInput): ReturnType<Service["check"]> {
    return this.#service.check(input, (work) => this.ctx.waitUntil(work));
  }

  /** What `check` would answer, without spending. */
  look(input: CheckInput): ReturnType<Service["look"]> {
    return this.#service.look(input);
  }

  forget(input: ForgetInput): ReturnType<Service["forget"]> {
    return this.#service.forget(input);
  }

  /** A check whose cost `settle` corrects within `ttlMs`. */
  reserve(input: ReserveInput): ReturnType<Service["reserve"]> {
    return this.#service.reserve(input, (work) => this.ctx.waitUntil(work));
  }

  settle(input: SettleInput): ReturnType<Service["settle"]> {
    return this.#service.settle(input);
  }

  get #service(): Service {
    return appOf(this.env).service;
  }
}
