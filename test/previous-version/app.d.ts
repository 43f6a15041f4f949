/** The Worker and both halves of the limiter, with what the tests use of them. */
import type { Clock } from "../../src/limiter/clock.ts";
import type { RowStorage } from "../../src/limiter/object/key-storage.ts";
import type { Limiter as CurrentLimiter } from "../../src/limiter/object/limiter.ts";
import type { LimiterClient as CurrentClient } from "../../src/limiter/client/client.ts";
import type { Admission } from "../../src/limiter/client/admission.ts";
import type { Spend } from "../../src/limiter/client/outcome.ts";

export { IsolateBudget, isolateBudgetBytes } from "../../src/limiter/object/isolate-budget.ts";
export { parseConfig } from "../../src/config/index.ts";

export declare function createApp(env: object): {
  readonly routes: {
    fetch(request: Request, env: object, context: object): Response | Promise<Response>;
  };
};

export type Limiter = CurrentLimiter;

export declare const Limiter: new (
  platform: Clock & { readonly storage: RowStorage; readonly isolate?: object },
) => Limiter;

export declare class LimiterClient {
  constructor(namespace: ConstructorParameters<typeof CurrentClient>[0], clock: Clock);
  admit(spends: readonly Spend[], waitUntil: (work: Promise<unknown>) => void): Promise<Admission>;
}
