/** Both halves of the limiter before runtime rules, with what the tests use of them. */
import type { Clock } from "../../src/limiter/clock.ts";
import type { RowStorage } from "../../src/limiter/object/key-storage.ts";
import type { Limiter as CurrentLimiter } from "../../src/limiter/object/limiter.ts";
import type { Decision } from "../../src/strategies/index.ts";

/** The object. It has only the methods that the tests call. */
export type Limiter = Pick<CurrentLimiter, "check" | "look" | "alarm">;

export declare const Limiter: new (platform: Clock & { readonly storage: RowStorage }) => Limiter;

/** A policy of the previous version. */
interface Policy {
  readonly name: string;
}

export declare function parseConfig(variables: object): { readonly policies: readonly Policy[] };

export declare class LimiterClient {
  constructor(namespace: { getByName(name: string): object }, clock: Clock);
  admit(
    spends: readonly {
      readonly policy: Policy;
      readonly partitionKey: string;
      readonly cost: number;
    }[],
    waitUntil: (work: Promise<unknown>) => void,
  ): Promise<{
    readonly outcomes: readonly { readonly kind: string; readonly decision?: Decision }[];
  }>;
}
