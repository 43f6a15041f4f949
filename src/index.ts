/** The Worker's entry point: its fetch handler, the Durable Object classes and the service for other Workers. */
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

export { ControlPlane } from "./control/object/durable-object.ts";
export { RateLimiter } from "./limiter/object/durable-object.ts";

/** An isolate keeps one `env` object for its life, so it reads the configuration once. */
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
    return appOf(env).fetch(request, env, ctx);
  },
} satisfies ExportedHandler<Env>;

/** The service for other Workers on the account: a service binding with `entrypoint = "Headgate"`. */
export class Headgate extends WorkerEntrypoint<Env> {
  check(input: CheckInput): ReturnType<Service["check"]> {
    return this.#service.check(input, this.#waitUntil);
  }

  /** Returns what `check` would return, and spends nothing. */
  look(input: CheckInput): ReturnType<Service["look"]> {
    return this.#service.look(input, this.#waitUntil);
  }

  forget(input: ForgetInput): ReturnType<Service["forget"]> {
    return this.#service.forget(input, this.#waitUntil);
  }

  /** Spends a cost that `settle` can correct within `ttlMs`. */
  reserve(input: ReserveInput): ReturnType<Service["reserve"]> {
    return this.#service.reserve(input, this.#waitUntil);
  }

  settle(input: SettleInput): ReturnType<Service["settle"]> {
    return this.#service.settle(input, this.#waitUntil);
  }

  readonly #waitUntil = (work: Promise<unknown>): void => this.ctx.waitUntil(work);

  get #service(): Service {
    return appOf(this.env).service;
  }
}
