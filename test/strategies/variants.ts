/** The strategies in all of their variants. The laws are tested for each variant. */
import { createMeter, type Limit, type LimitInput, parseLimits, strategies } from "../../src/strategies/index.ts";
import { compiledLimit } from "../../src/strategies/compiled-limit.ts";
import { dayMs, hourMs, minuteMs } from "./meters.ts";

type Options = Readonly<Record<string, unknown>>;

/** A strategy with options. Calendar windows have a fixed length; only their number of units can be chosen. */
export interface Variant {
  readonly title: string;
  readonly strategy: string;
  readonly options: Options;
  /** The length of a tick, as a fraction of a calendar window; null for other windows. */
  readonly tickMs: number | null;
  /** Whether the window is elastic, so that a denial changes the state. */
  readonly isElastic: boolean;
}

/** Options that change decisions. Strategies that are not listed are tested with their defaults. */
const optionsOf: Readonly<Record<string, readonly Options[]>> = {
  "fixed-window": [
    { align: "first-request" },
    { align: "clock" },
    { elastic: true },
    // Midnight occurs twice when clocks are set back in Havana, and is skipped when they are set forward in Cairo.
    { window: "1d", align: "calendar", timezone: "America/Havana" },
    { window: "1w", align: "calendar", timezone: "Africa/Cairo" },
    { window: "1mo" },
    { window: "1y", timezone: "Australia/Lord_Howe" },
  ],
  "sliding-window-counter": [{ align: "first-request" }, { align: "clock" }],
  "sliding-buckets": [{ edge: "keep" }, { edge: "drop" }, { edge: "keep", buckets: 1 }, { edge: "drop", buckets: 1 }],
  "token-bucket": [
    { refill: "continuous" },
    { refill: "interval" },
    { refill: "continuous", burst: 5 },
    { refill: "interval", burst: 5 },
  ],
  "leaky-bucket": [{ mode: "queue" }, { mode: "police" }, { mode: "queue", burst: 3 }, { mode: "police", burst: 3 }],
};

const calendarTicksMs: Readonly<Record<string, number>> = {
  "1d": 4 * hourMs,
  "1w": dayMs,
  "1mo": 5 * dayMs,
  "1y": 60 * dayMs,
};

export const variants: readonly Variant[] = [...strategies.keys()].flatMap((strategy) =>
  (optionsOf[strategy] ?? [{}]).map((options) => ({
    title: [strategy, ...Object.entries(options).map(optionTitle)].join(" "),
    strategy,
    options,
    tickMs: calendarTicksMs[String(options["window"])] ?? null,
    isElastic: options["elastic"] === true,
  })),
);

function optionTitle([name, value]: readonly [string, unknown]): string {
  return typeof value === "string" ? value : `${name} ${String(value)}`;
}

/** The bound of the strategy: the greatest number of units that it may admit in any span of `spanOf(limit)`. */
export function boundOf(limit: Limit): number {
  const { strategy, limit: complete } = compiledLimit(limit);
  return strategy.mostPerWindow(complete);
}

/** The shortest length of each calendar period. A longer span can overlap three periods. */
const shortestPeriodMs: Readonly<Record<string, number>> = {
  day: 23 * hourMs,
  week: 167 * hourMs,
  month: 28 * dayMs - hourMs,
  year: 365 * dayMs,
};

export const spanOf = (limit: Limit): number => shortestPeriodMs[limit.period ?? ""] ?? limit.windowMs;

/** @param windowMs ignored for a calendar window */
export function limitOf(variant: Variant, limit: number, windowMs: number, name = "limit"): Limit {
  const { strategy, options } = variant;
  const input: LimitInput = { name, limit, window: `${windowMs}ms`, strategy, ...options };
  const [parsed] = parseLimits(input);
  if (parsed === undefined) throw new Error("expected one limit");
  return parsed;
}

/** The variants with a window of any length and a capacity that equals the limit. */
export const plainVariants: readonly Variant[] = variants.filter(
  (variant) =>
    variant.tickMs === null && createMeter([limitOf(variant, 10, minuteMs)]).look(1, 0).limits[0]?.capacity === 10,
);
