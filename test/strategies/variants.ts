/** What the laws are told of: every registered strategy, in each of its forms, and the bound it promises. */
import {
  type Limit,
  type LimitDecision,
  parseLimits,
  strategies,
} from "../../src/strategies/index.ts";

export interface Variant {
  readonly title: string;
  readonly strategy: string;
  readonly options: Readonly<Record<string, unknown>>;
}

/** Forms worth telling apart; a strategy that is not listed is tested as its defaults make it. */
const formsOf: Readonly<Record<string, readonly Variant["options"][]>> = {
  "fixed-window": [{ align: "first-request" }, { align: "clock" }],
  "sliding-window-counter": [{ align: "first-request" }, { align: "clock" }],
};

export const variants: readonly Variant[] = [...strategies.keys()].flatMap((strategy) =>
  (formsOf[strategy] ?? [{}]).map((options) => ({
    title: [strategy, ...Object.values(options).map(String)].join(" "),
    strategy,
    options,
  })),
);

/** The most units that may be admitted in any span of one window. */
const bounds: Readonly<Record<string, (limit: LimitDecision) => number>> = {
  "fixed-window": (limit) => 2 * limit.limit,
  "sliding-log": (limit) => limit.limit,
  "sliding-window-counter": (limit) => 2 * limit.limit,
};

export function boundOf(limit: LimitDecision): number {
  const bound = bounds[limit.strategy];
  if (bound === undefined) throw new Error(`no bound is stated for the strategy ${limit.strategy}`);
  return bound(limit);
}

export function limitOf(variant: Variant, limit: number, windowMs: number, name = "limit"): Limit {
  const { strategy, options } = variant;
  const [parsed] = parseLimits({ name, limit, window: `${windowMs}ms`, strategy, ...options });
  if (parsed === undefined) throw new Error("one limit was asked for");
  return parsed;
}
