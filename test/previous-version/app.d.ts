/** Types of the previous version: the Worker, both halves of the limiter and the engine, as far as tests use them. */
import type { Clock } from "../../src/limiter/clock.ts";
import type { Limiter as CurrentLimiter } from "../../src/limiter/object/key-object.ts";
import type { RowStorage } from "../../src/limiter/object/key-storage.ts";

export { IsolateBudget, isolateBudgetBytes } from "../../src/limiter/object/key-cache.ts";
export { createMeter, parseLimits } from "../../src/strategies/index.ts";

export declare function createApp(env: object): {
  readonly routes: {
    fetch(request: Request, env: object, context: object): Response | Promise<Response>;
  };
};

export type Limiter = CurrentLimiter;

export declare const Limiter: new (
  platform: Clock & { readonly storage: RowStorage; readonly isolate?: object },
) => Limiter;
