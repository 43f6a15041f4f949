/** Which limits can be shared, and how the parts of children are counted: see `shares.ts`. */
import { compiledLimit } from "./compiled-limit.ts";
import { isCount } from "./integers.ts";
import type { Meter } from "./meter.ts";
import type { Limit } from "./strategy.ts";

/** Units of the limit, or an equal part for each active child in proportion to its weight. */
export type Guarantee = number | "fair";

export const greatestWeight = 1_000_000;
export const acceptedWeight = `an integer from 1 to ${greatestWeight}`;
export const isWeight = (value: unknown): value is number => isCount(value) && value >= 1 && value <= greatestWeight;

/** Why a limit cannot be shared; null if it can. */
export function shareProblem(written: Limit, guarantee: Guarantee): string | null {
  const { strategy, limit, capacity, units } = compiledLimit(written);
  const option = (name: string): unknown => Reflect.get(limit, name);
  const isBucket = isBucketLimit(limit);
  if (option("elastic") === true) return "a limit that is not elastic";
  if (strategy.name === "leaky-bucket" && option("mode") !== "police") return 'mode = "police"';
  if (isBucket && option("refill") === "interval") return 'refill = "continuous"';
  if (guarantee === "fair") return isBucket ? 'a number, because "fair" needs a window or a log' : null;
  const most = Math.min(capacity, units);
  if (!isCount(guarantee) || guarantee < 1 || guarantee > most) return `an integer from 1 to ${most}, or "fair"`;
  return strategy.problem(strategy.complete(usageLimitOf(limit, guarantee)))?.accepted ?? null;
}

/** The limit under which a child's part is counted. */
export const usageLimitOf = (limit: Limit, guarantee: Guarantee): Limit =>
  guarantee === "fair" || !isBucketLimit(limit)
    ? limit
    : Object.assign({ ...limit, limit: guarantee }, { burst: guarantee });

const isBucketLimit = ({ strategy }: Limit): boolean => strategy === "token-bucket" || strategy === "leaky-bucket";

/**
 * The opening of the parent's window, to which a child's units are booked. Null for limits without such a window. Call it
 * after the parent's spend.
 */
export function openedAtMs(
  parent: Meter,
  { index, limit: { strategy, windowMs } }: { readonly index: number; readonly limit: Limit },
  nowMs: number,
): number | null {
  // The account of a log takes long.
  if (strategy !== "fixed-window" && strategy !== "sliding-window-counter") return null;
  const terms = parent.account(nowMs)[index]?.terms;
  if (terms?.kind === "window" && terms.period === null && terms.endsInMs > 0) return nowMs + terms.endsInMs - windowMs;
  if (terms?.kind === "two-windows" && terms.overlapMs > 0) return nowMs + terms.overlapMs - windowMs;
  return null;
}
