/** The limits that the advisor compares, as families of one strategy and window with round numbers of units. */
import { compiledLimit } from "../../strategies/compiled-limit.ts";
import { defaultStrategy, formatDuration, type Limit, type LimitInput } from "../../strategies/index.ts";

/** Limits that differ only in their units. */
export interface Family {
  readonly strategy: string;
  readonly windowMs: number;
  /** Round units, ascending. */
  readonly units: readonly number[];
  readonly written: (units: number) => LimitInput;
}

const secondMs = 1_000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;

/**
 * Familiar windows. A burst of a token bucket holds `burstWindows` of them. A goal about denials gets at least `leastUnits`: where
 * keys send a few requests a day, one request per hour would meet the goal, but deny everybody who opens a second page.
 */
const windows = [
  { windowMs: secondMs, burstWindows: 10, leastUnits: 1 },
  { windowMs: 10 * secondMs, burstWindows: 5, leastUnits: 3 },
  { windowMs: minuteMs, burstWindows: 1, leastUnits: 5 },
  { windowMs: 10 * minuteMs, burstWindows: 1, leastUnits: 15 },
  { windowMs: hourMs, burstWindows: 1, leastUnits: 30 },
  { windowMs: 24 * hourMs, burstWindows: 1, leastUnits: 100 },
] as const;

/** Whether this is the strictest limit of its window that the advisor considers for a goal about denials. */
export const isLeast = ({ limit, windowMs }: Limit): boolean =>
  windows.some((window) => window.windowMs === windowMs && limit <= window.leastUnits);

/** The default strategy comes first: among equal candidates, the first is recommended. */
const familyStrategies = [
  defaultStrategy,
  ...["sliding-log", "token-bucket", "fixed-window"].filter((name) => name !== defaultStrategy),
];
const leading = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8];
/** A sliding log keeps the time of each unit. */
const mostUnitsOfLog = 100_000;

/**
 * The families whose windows fit into the period at least twice, and those of the shortest window in any case.
 * @param mostUnits the units from which on a limit with this window denies nothing
 * @param isOfDenials whether the goal is about denials
 */
export function familiesWithin(
  periodMs: number,
  mostUnits: (windowMs: number) => number,
  isOfDenials: boolean,
): Family[] {
  const fitting = windows.filter(({ windowMs }, index) => index === 0 || 2 * windowMs <= periodMs);
  return familyStrategies.flatMap((strategy) =>
    fitting.map(({ windowMs, burstWindows, leastUnits }) => ({
      strategy,
      windowMs,
      units: roundUnits(
        strategy === "sliding-log" ? Math.min(mostUnits(windowMs), mostUnitsOfLog) : mostUnits(windowMs),
        isOfDenials ? leastUnits : 1,
      ),
      written: (units: number) => ({
        limit: units,
        window: formatDuration(windowMs),
        strategy,
        ...(strategy === "token-bucket" ? { burst: burstWindows * units } : {}),
      }),
    })),
  );
}

/** Round numbers from `least` to the first that is at least `most`. */
export function roundUnits(most: number, least = 1): number[] {
  const units: number[] = [];
  for (let scale = 1; ; scale *= 10) {
    for (const digit of leading) {
      const each = Math.round(digit * scale * 10) / 10;
      if (!Number.isInteger(each) || each < least) continue;
      units.push(each);
      if (each >= most) return units;
    }
  }
}

/** The most units that the limit admits of one key in any span of its window, by the bound of its strategy. */
export function mostPerWindow(limit: Limit): number {
  const { strategy, limit: completed } = compiledLimit(limit);
  return strategy.mostPerWindow(completed);
}

/** The most units that the limit admits of one key within any second. */
export function mostPerSecond(limit: Limit): number {
  if (limit.windowMs < secondMs) return Math.ceil(secondMs / limit.windowMs) * mostPerWindow(limit);
  const { capacity } = compiledLimit(limit);
  return limit.strategy === "token-bucket"
    ? capacity + Math.ceil((limit.limit * secondMs) / limit.windowMs)
    : mostPerWindow(limit);
}

const floodSpansMs = [secondMs, minuteMs, hourMs];

/**
 * The units admitted to a key that was idle and begins to flood: the geometric mean over the first second, minute and
 * hour. The limit with the least units is the strictest.
 */
export function admittedFlood(limit: Limit): number {
  const { capacity, units, windowMs } = compiledLimit(limit);
  const logs = floodSpansMs.map((spanMs) =>
    Math.log(
      limit.strategy === "token-bucket" ? capacity + (units * spanMs) / windowMs : units * Math.ceil(spanMs / windowMs),
    ),
  );
  return Math.exp(logs.reduce((sum, each) => sum + each, 0) / logs.length);
}

/**
 * A candidate with a strategy other than the default, or with a less common window, is preferred only if it is better
 * by this factor.
 */
const tolerance = 1.25;
const commonWindowsMs = new Set([secondMs, minuteMs, hourMs, 24 * hourMs]);

/** The factor that makes the measures of an unfamiliar candidate count as worse. Smaller measures are better. */
export const unfamiliarity = ({ strategy, windowMs }: Limit): number =>
  (strategy === defaultStrategy ? 1 : tolerance) * (commonWindowsMs.has(windowMs) ? 1 : tolerance);
