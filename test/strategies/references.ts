/**
 * The rule of each strategy (design section 5), applied literally to a list of all admitted requests. The code is
 * deliberately slow and simple: it keeps no state, and finds waits by search.
 */
import { Temporal } from "temporal-polyfill";
import type { Limit } from "../../src/strategies/index.ts";

/** The units admitted at one time, or 0 for a denied request that restarted an elastic window. */
export interface Request {
  readonly atMs: number;
  readonly units: number;
}

/** The units that count against the capacity at `nowMs`. Requests are in the order of time. */
export type Rule = (limit: Limit, requests: readonly Request[], nowMs: number) => number;

const option = (limit: Limit, name: string): unknown => Reflect.get(limit, name);

const burstOf = (limit: Limit): number => Number(option(limit, "burst") ?? limit.limit);

const isQueue = (limit: Limit): boolean => limit.strategy === "leaky-bucket" && option(limit, "mode") !== "police";

/** The greatest number of units that can be spent at one time. */
export function capacityOf(limit: Limit): number {
  if (limit.strategy === "token-bucket") return burstOf(limit);
  if (limit.strategy === "leaky-bucket") return burstOf(limit) + (isQueue(limit) ? 1 : 0);
  return limit.limit;
}

/** An upper bound on `retryAfterMs` of a cost within the capacity. */
export const longestWaitMs = (limit: Limit): number =>
  2 * limit.windowMs * Math.ceil(1 + capacityOf(limit) / limit.limit);

/** Whether a denied request restarts the window. */
export const isElastic = (limit: Limit): boolean => option(limit, "elastic") === true;

const sumOf = (requests: readonly Request[], counts: (request: Request) => boolean): number =>
  requests.reduce((sum, request) => (counts(request) ? sum + request.units : sum), 0);

const isWithin =
  (fromMs: number, untilMs: number) =>
  ({ atMs }: Request): boolean =>
    atMs >= fromMs && atMs < untilMs;

const countInWindow: Rule = (limit, requests, nowMs) => {
  const { windowMs } = limit;
  if (isElastic(limit)) return countSinceGap(limit, requests, nowMs);
  if (limit.period !== undefined) {
    const today = periodName(limit, nowMs);
    return sumOf(requests, ({ atMs }) => periodName(limit, atMs) === today);
  }
  let openedAtMs = Number.NEGATIVE_INFINITY;
  if (option(limit, "align") === "clock") openedAtMs = Math.floor(nowMs / windowMs) * windowMs;
  else {
    for (const { atMs } of requests) {
      if (atMs >= openedAtMs + windowMs) openedAtMs = atMs;
    }
    if (nowMs >= openedAtMs + windowMs) return 0;
  }
  return sumOf(requests, isWithin(openedAtMs, openedAtMs + windowMs));
};

/** The units since the last pause of at least a window between two requests, allowed or denied. */
const countSinceGap: Rule = ({ windowMs }, requests, nowMs) => {
  let previousMs = Number.NEGATIVE_INFINITY;
  let count = 0;
  for (const { atMs, units } of [...requests, { atMs: nowMs, units: 0 }]) {
    count = atMs - previousMs >= windowMs ? units : count + units;
    previousMs = atMs;
  }
  return count;
};

const quarterMs = 900_000;
const periodNames = new Map<string, Map<number, string>>();

/**
 * A name for the calendar period. Time zone offsets are multiples of a quarter of an hour, so one lookup per quarter is
 * enough.
 */
function periodName(limit: Limit, atMs: number): string {
  const configured = option(limit, "timezone");
  const timezone = typeof configured === "string" ? configured : "UTC";
  const kind = `${limit.period} ${timezone}`;
  const names = periodNames.get(kind) ?? new Map<number, string>();
  periodNames.set(kind, names);
  const quarter = Math.floor(atMs / quarterMs);
  const known = names.get(quarter);
  if (known !== undefined) return known;
  const date = Temporal.Instant.fromEpochMilliseconds(atMs).toZonedDateTimeISO(timezone).toPlainDate();
  const name = {
    day: () => date.toString(),
    week: () => date.subtract({ days: date.dayOfWeek - 1 }).toString(),
    month: () => date.toString().slice(0, 7),
    year: () => date.toString().slice(0, 4),
  }[limit.period ?? "day"]();
  names.set(quarter, name);
  return name;
}

const countInLog: Rule = (limit, requests, nowMs) => sumOf(requests, ({ atMs }) => nowMs - atMs < limit.windowMs);

const countInTwoBuckets: Rule = (limit, requests, nowMs) => {
  const { windowMs } = limit;
  let openedAtMs = Number.NEGATIVE_INFINITY;
  if (option(limit, "align") === "clock") openedAtMs = Math.floor(nowMs / windowMs) * windowMs;
  else {
    for (const { atMs } of requests) {
      if (atMs >= openedAtMs + 2 * windowMs) openedAtMs = atMs;
      else if (atMs >= openedAtMs + windowMs) openedAtMs += windowMs;
    }
    if (nowMs >= openedAtMs + 2 * windowMs) return 0;
    if (nowMs >= openedAtMs + windowMs) openedAtMs += windowMs;
  }
  const current = sumOf(requests, isWithin(openedAtMs, openedAtMs + windowMs));
  const previous = sumOf(requests, isWithin(openedAtMs - windowMs, openedAtMs));
  const leftMs = windowMs - (nowMs - openedAtMs);
  return Number((BigInt(current) * BigInt(windowMs) + BigInt(previous) * BigInt(leftMs)) / BigInt(windowMs));
};

/** The greatest divisor of the window that is at most 60. */
function mostBuckets(windowMs: number): number {
  let most = 1;
  for (let count = 2; count <= 60; count++) if (windowMs % count === 0) most = count;
  return most;
}

const countInBuckets: Rule = (limit, requests, nowMs) => {
  const { windowMs } = limit;
  const buckets = Number(option(limit, "buckets") ?? mostBuckets(windowMs));
  const widthMs = windowMs / buckets;
  const bucketOf = (atMs: number): number => Math.floor(atMs / widthMs);
  const endOf = (bucket: number): number => (bucket + 1) * widthMs;
  return option(limit, "edge") === "drop"
    ? sumOf(requests, ({ atMs }) => bucketOf(atMs) > bucketOf(nowMs) - buckets)
    : sumOf(requests, ({ atMs }) => nowMs - endOf(bucketOf(atMs)) < windowMs);
};

/** Caches the result for each list of requests, since the reference rules read one list at many times. */
function cachedFor<Result>(compute: (limit: Limit, requests: readonly Request[]) => Result) {
  const known = new WeakMap<readonly Request[], Result>();
  return (limit: Limit, requests: readonly Request[]): Result => {
    const result = known.get(requests) ?? compute(limit, requests);
    known.set(requests, result);
    return result;
  };
}

/** Counts tokens in units of 1/W, so that each millisecond adds L of them. */
const tokensAfter = cachedFor((limit, requests) => {
  const [capacity, unit] = [BigInt(burstOf(limit)), BigInt(limit.windowMs)];
  let tokens = capacity * unit;
  let atMs = 0;
  for (const request of requests) {
    tokens += BigInt(request.atMs - atMs) * BigInt(limit.limit);
    if (tokens > capacity * unit) tokens = capacity * unit;
    tokens -= BigInt(request.units) * unit;
    atMs = request.atMs;
  }
  return { tokens, atMs };
});

const countContinuous: Rule = (limit, requests, nowMs) => {
  const { tokens, atMs } = tokensAfter(limit, requests);
  const [capacity, unit] = [BigInt(burstOf(limit)), BigInt(limit.windowMs)];
  const earned = tokens + BigInt(nowMs - atMs) * BigInt(limit.limit);
  const missing = earned > capacity * unit ? 0n : capacity * unit - earned;
  return Number((missing + unit - 1n) / unit);
};

/**
 * Refills happen at regular times that start with the first spend from a full bucket, and end when the bucket is full
 * again.
 */
const countByInterval: Rule = (limit, requests, nowMs) => {
  const capacity = burstOf(limit);
  let tokens = capacity;
  let refillAtMs = Number.POSITIVE_INFINITY;
  for (const { atMs, units } of [...requests, { atMs: nowMs, units: 0 }]) {
    while (refillAtMs <= atMs) {
      tokens = Math.min(capacity, tokens + limit.limit);
      refillAtMs = tokens === capacity ? Number.POSITIVE_INFINITY : refillAtMs + limit.windowMs;
    }
    if (tokens === capacity && units > 0) refillAtMs = atMs + limit.windowMs;
    tokens -= units;
  }
  return capacity - tokens;
};

/** The first free departure slot after all admitted requests, in 1/L ms. */
const freeSlotAfter = cachedFor((limit, requests) => {
  let slot = 0n;
  for (const { atMs, units } of requests) {
    const now = BigInt(atMs) * BigInt(limit.limit);
    if (units > 0) slot = (slot > now ? slot : now) + BigInt(units) * BigInt(limit.windowMs);
  }
  return slot;
});

/** The time until the first free departure slot, rounded up. */
export function delayMs(limit: Limit, requests: readonly Request[], nowMs: number): number {
  if (!isQueue(limit)) return 0;
  const unit = BigInt(limit.limit);
  const wait = freeSlotAfter(limit, requests) - BigInt(nowMs) * unit;
  return wait <= 0n ? 0 : Number((wait + unit - 1n) / unit);
}

/** The capacity minus the greatest cost whose last unit waits at most burst × W/L. */
const countInQueue: Rule = (limit, requests, nowMs) => {
  const now = BigInt(nowMs) * BigInt(limit.limit);
  const free = freeSlotAfter(limit, requests);
  const first = free > now ? free : now;
  const unit = BigInt(limit.windowMs);
  const fits = (cost: number): boolean => first + BigInt(cost - 1) * unit - now <= BigInt(burstOf(limit)) * unit;
  let [most, tooMany] = [0, capacityOf(limit) + 1];
  while (tooMany - most > 1) {
    const middle = Math.floor((most + tooMany) / 2);
    if (fits(middle)) most = middle;
    else tooMany = middle;
  }
  return capacityOf(limit) - most;
};

export const rules: Readonly<Record<string, Rule>> = {
  "fixed-window": countInWindow,
  "sliding-log": countInLog,
  "sliding-window-counter": countInTwoBuckets,
  "sliding-buckets": countInBuckets,
  "token-bucket": (limit, requests, nowMs) =>
    option(limit, "refill") === "interval"
      ? countByInterval(limit, requests, nowMs)
      : countContinuous(limit, requests, nowMs),
  "leaky-bucket": (limit, requests, nowMs) =>
    isQueue(limit) ? countInQueue(limit, requests, nowMs) : countContinuous(limit, requests, nowMs),
  concurrency: countInLog,
};
