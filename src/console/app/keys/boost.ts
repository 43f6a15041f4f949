/** The limits of a boost: the limits in effect, multiplied, with the other fields of their strategies as they are. */
import type { FullLimit } from "../api/answers.ts";

export const factors = [2, 5, 10] as const;

export interface Scaling {
  readonly factor: number;
  /** Whether concurrency limits are multiplied, too. Their slots are often a capacity of the origin. */
  readonly scalesSlots: boolean;
}

export const holdsSlots = ({ strategy }: FullLimit): boolean => strategy === "concurrency";

/** The most units that the admin API accepts. */
const mostUnits = 999_999_999_999_999;
const product = (amount: number, factor: number): number => Math.min(mostUnits, amount * factor);

export const scaledLimits = (limits: readonly FullLimit[], { factor, scalesSlots }: Scaling): readonly FullLimit[] =>
  limits.map((limit) => {
    if (holdsSlots(limit) && !scalesSlots) return limit;
    return {
      ...limit,
      limit: product(limit.limit, factor),
      ...(limit.burst !== undefined && { burst: product(limit.burst, factor) }),
    };
  });

/** The options that an answer shows as they are written, and their defaults. */
const options: Readonly<Record<string, unknown>> = {
  align: "first-request",
  timezone: undefined,
  elastic: false,
  buckets: undefined,
  edge: "keep",
  burst: undefined,
  refill: "continuous",
  mode: "queue",
};

/** A limit as the admin API reads it: counters of the same window, strategy and options are kept. */
export function writtenLimit(limit: FullLimit, policy: string): Readonly<Record<string, unknown>> {
  const { name, limit: units, windowMs, strategy, period, precision } = limit;
  const kept = Object.entries(limit).filter(
    ([option, value]) => option in options && value !== undefined && value !== options[option],
  );
  return {
    limit: units,
    window: period === undefined ? durationNotation(windowMs) : periodNotation[period],
    strategy,
    ...(isDerivedName(name, policy) ? {} : { name }),
    ...Object.fromEntries(kept),
    ...(precision !== undefined && { precision: durationNotation(precision) }),
  };
}

/** Unnamed limits get the name of the policy, or one that begins with it and has the limit in it. */
const isDerivedName = (name: string, policy: string): boolean =>
  name === policy || (name.startsWith(`${policy}.`) && name.includes("-per-"));

const periodNotation = { day: "1d", week: "1w", month: "1mo", year: "1y" } as const;

const units = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
] as const;

function durationNotation(durationMs: number): string {
  const [unit, lengthMs] = units.find(([, each]) => durationMs % each === 0) ?? ["ms", 1];
  return `${durationMs / lengthMs}${unit}`;
}

/** The limits that still count what was spent during a boost when it has ended. */
export const outlastingLimits = (limits: readonly FullLimit[], lengthMs: number | null): readonly FullLimit[] =>
  lengthMs === null ? [] : limits.filter((limit) => !holdsSlots(limit) && limit.windowMs > lengthMs);
