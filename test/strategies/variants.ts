/** What the laws are told of: every registered strategy, in each of its forms. */
import {
  createMeter,
  type Limit,
  type LimitInput,
  parseLimits,
  strategies,
} from "../../src/strategies/index.ts";
import { compiledLimit } from "../../src/strategies/compiled-limit.ts";

type Options = Readonly<Record<string, unknown>>;

/** A form of a strategy. Of a calendar's window only the number of units can be chosen. */
export interface Variant {
  readonly title: string;
  readonly strategy: string;
  readonly options: Options;
  /** A length of time that the window is a few of, where the window cannot be chosen. */
  readonly tickMs: number | null;
  /** Whether a denial is declared to change something. */
  readonly isElastic: boolean;
}

/** Forms worth telling apart; a strategy that is not listed is tested as its defaults make it. */
const formsOf: Readonly<Record<string, readonly Options[]>> = {
  "fixed-window": [
    { align: "first-request" },
    { align: "clock" },
    { elastic: true },
    // Midnight comes twice when clocks are set back in Havana, not at all when they are set forward in Cairo.
    { window: "1d", align: "calendar", timezone: "America/Havana" },
    { window: "1w", align: "calendar", timezone: "Africa/Cairo" },
    { window: "1mo" },
    { window: "1y", timezone: "Australia/Lord_Howe" },
  ],
  "sliding-window-counter": [{ align: "first-request" }, { align: "clock" }],
  "sliding-buckets": [
    { edge: "keep" },
    { edge: "drop" },
    { edge: "keep", buckets: 1 },
    { edge: "drop", buckets: 1 },
  ],
  "token-bucket": [
    { refill: "continuous" },
    { refill: "interval" },
    { refill: "continuous", burst: 5 },
    { refill: "interval", burst: 5 },
  ],
  "leaky-bucket": [
    { mode: "queue" },
    { mode: "police" },
    { mode: "queue", burst: 3 },
    { mode: "police", burst: 3 },
  ],
};

const hourMs = 3_600_000;

/** Half a day of a day, a day of a week, … */
const ticksOf: Readonly<Record<string, number>> = {
  "1d": 4 * hourMs,
  "1w": 24 * hourMs,
  "1mo": 5 * 24 * hourMs,
  "1y": 60 * 24 * hourMs,
};

export const variants: readonly Variant[] = [...strategies.keys()].flatMap((strategy) =>
  (formsOf[strategy] ?? [{}]).map((options) => ({
    title: [strategy, ...Object.entries(options).map(titleOf)].join(" "),
    strategy,
    options,
    tickMs: ticksOf[String(options["window"])] ?? null,
    isElastic: options["elastic"] === true,
  })),
);

function titleOf([name, value]: readonly [string, unknown]): string {
  return typeof value === "string" ? value : `${name} ${String(value)}`;
}

/** The most units that may be admitted in any span of one window, as the strategy itself states it. */
export function boundOf(limit: Limit): number {
  const { strategy, limit: complete } = compiledLimit(limit);
  return strategy.mostPerWindow(complete);
}

/** The shortest that a calendar's window can be: in a longer span there may be three of them. */
const shortestMs: Readonly<Record<string, number>> = {
  day: 23 * hourMs,
  week: 167 * hourMs,
  month: 28 * 24 * hourMs - hourMs,
  year: 365 * 24 * hourMs,
};

/** The span in which no more than the bound may be admitted. */
export const spanOf = (limit: Limit): number => shortestMs[limit.period ?? ""] ?? limit.windowMs;

export function limitOf(variant: Variant, limit: number, windowMs: number, name = "limit"): Limit {
  const { strategy, options } = variant;
  const input: LimitInput = { name, limit, window: `${windowMs}ms`, strategy, ...options };
  const [parsed] = parseLimits(input);
  if (parsed === undefined) throw new Error("one limit was asked for");
  return parsed;
}

/** Those whose window can be chosen, and of which at most the limit can be spent at once. */
export const plainVariants: readonly Variant[] = variants.filter(
  (variant) =>
    variant.tickMs === null &&
    createMeter([limitOf(variant, 10, 60_000)]).look(1, 0).limits[0]?.capacity === 10,
);
