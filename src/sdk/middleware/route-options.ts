/** The options of `rateLimit`: those of a limiter, with functions of Hono's context. */
import type { Context, Env } from "hono";
import type { PolicyOptions } from "./options.ts";

/** One policy of `rateLimit`, whose functions get Hono's context. */
export interface RateLimitOptions<E extends Env = Env> extends PolicyOptions<Context<E>> {}
