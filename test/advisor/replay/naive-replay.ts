/**
 * A replay in the simplest form: it decides all requests in order of time and computes each figure from the list of
 * decisions. It does not support reservations.
 */
import { createMeter, type Limit, type Meter } from "../../../src/strategies/index.ts";
import type { ReplayOptions, ReplayResult } from "../../../src/advisor/replay/result.ts";
import type { Timelines } from "../../../src/advisor/replay/timelines.ts";

interface NaiveRequest {
  readonly key: number;
  readonly row: number;
  readonly atMs: number;
  readonly retry: number;
}

interface NaiveDecision extends NaiveRequest {
  readonly allowed: boolean;
  readonly waitMs: number | null;
  /** When the request reaches the origin if it is allowed. */
  readonly departsMs: number;
}

export function naiveReplay(
  timelines: Timelines,
  limits: readonly Limit[],
  { retry = "none", stepMs = 60_000, keepsDecisions = false }: ReplayOptions,
): ReplayResult {
  const decisions = decide(timelines, limits, retry === "obey");
  const first = decisions.filter((each) => each.retry === 0);
  const denied = first.filter(({ allowed }) => !allowed);
  const admitted = decisions.filter(({ allowed }) => allowed);
  const again = decisions.filter((each) => each.retry > 0);
  const perKey = (count: (key: number) => number): number[] => timelines.keys.map((_, key) => count(key));
  const deniedOfKey = perKey((key) => denied.filter((each) => each.key === key).length);
  const longest = perKey((key) => longestDenial(decisions.filter((each) => each.key === key)));
  const secondOf = (instantMs: number): number => instantMs - (instantMs % 1_000);
  const departures = admitted.map(({ departsMs }) => secondOf(departsMs));
  const seconds = [...new Set([...first.map(({ atMs }) => secondOf(atMs)), ...departures])].toSorted((a, b) => a - b);
  const { fromMs, toMs } = timelines.source;
  const startMs = fromMs - (fromMs % stepMs);
  const lastMs = Math.max(toMs, ...first.map(({ atMs }) => atMs - (atMs % 1_000) + 999));
  const steps = Array.from({ length: Math.floor((lastMs - startMs) / stepMs) + 1 }, (_, n) => n);
  const countsOf = (list: readonly NaiveDecision[]) => ({
    startMs,
    stepMs,
    counts: Float64Array.from(
      steps,
      (step) => list.filter(({ atMs }) => Math.floor((atMs - startMs) / stepMs) === step).length,
    ),
  });
  return {
    limits,
    requests: first.length,
    denied: denied.length,
    keys: timelines.keys.length,
    deniedKeys: deniedOfKey.filter((count) => count > 0).length,
    longestDeniedMs: Math.max(0, ...longest),
    mostAdmitted: limits.map(({ name, windowMs }) => {
      const most = perKey((key) =>
        mostOf(
          admitted.filter((each) => each.key === key),
          timelines,
          windowMs,
        ),
      );
      const units = Math.max(0, ...most);
      return { limit: name, windowMs, units, key: units === 0 ? null : most.indexOf(units) };
    }),
    admittedPerSecond: {
      startsMs: Float64Array.from(seconds),
      counts: Float64Array.from(seconds, (second) => departures.filter((each) => each === second).length),
    },
    admitted: countsOf(admitted),
    denials: countsOf(decisions.filter(({ allowed }) => !allowed)),
    deniedOfKey: Uint32Array.from(deniedOfKey),
    longestDeniedMsOfKey: Float64Array.from(longest),
    allowed: keepsDecisions
      ? Uint8Array.from(timelines.atMs, (_, row) => (denied.some((d) => d.row === row) ? 0 : 1))
      : null,
    retries:
      retry === "none"
        ? null
        : {
            sent: again.length,
            denied: again.filter(({ allowed }) => !allowed).length,
            abandoned: first.filter(({ row }) => !admitted.some((each) => each.row === row)).length,
            longestWaitMs: Math.max(
              0,
              ...again.filter(({ allowed }) => allowed).map(({ row, atMs }) => atMs - (timelines.atMs[row] ?? 0)),
            ),
          },
  };
}

/**
 * Decides all requests in order of time. Requests of the same instant are decided in order of their rows, retries last.
 */
function decide({ keys, firstRow, atMs, cost }: Timelines, limits: readonly Limit[], obeys: boolean): NaiveDecision[] {
  const meters = new Map<number, Meter>();
  const waiting: NaiveRequest[] = keys.flatMap((_, key) =>
    Array.from(atMs.subarray(firstRow[key], firstRow[key + 1]), (ms, place) => {
      return { key, row: (firstRow[key] ?? 0) + place, atMs: ms, retry: 0 };
    }),
  );
  const decided: NaiveDecision[] = [];
  for (;;) {
    waiting.sort((a, b) => a.atMs - b.atMs || Math.min(a.retry, 1) - Math.min(b.retry, 1) || a.row - b.row);
    const request = waiting.shift();
    if (request === undefined) return decided;
    const { key, row, retry } = request;
    const meter = meters.get(key) ?? createMeter(limits);
    meters.set(key, meter);
    const { allowed, retryAfterMs, delayMs } = meter.consume(cost[row] ?? 0, request.atMs);
    const departsMs = request.atMs + delayMs;
    decided.push({ ...request, allowed, waitMs: retryAfterMs, departsMs });
    if (obeys && !allowed && retryAfterMs !== null && retry < 10) {
      const seconds = Math.max(1, Math.ceil(retryAfterMs / 1_000));
      waiting.push({ ...request, atMs: request.atMs + 1_000 * seconds, retry: retry + 1 });
    }
  }
}

/** @param decisions the decisions about one key, in order of time */
function longestDenial(decisions: readonly NaiveDecision[]): number {
  let longestMs = 0;
  for (const [index, start] of decisions.entries()) {
    if (start.allowed || decisions[index - 1]?.allowed === false) continue;
    const next = decisions.findIndex((each, place) => place > index && each.allowed);
    const last = decisions[(next === -1 ? decisions.length : next) - 1] ?? start;
    const endMs = Math.min(decisions[next]?.atMs ?? Infinity, last.atMs + (last.waitMs ?? 0));
    longestMs = Math.max(longestMs, endMs - start.atMs);
  }
  return longestMs;
}

/** @param admitted the admitted requests of one key, in order of time */
const mostOf = (admitted: readonly NaiveDecision[], { cost }: Timelines, windowMs: number): number =>
  Math.max(
    0,
    ...admitted.map((start) =>
      admitted
        .filter(({ atMs }) => atMs >= start.atMs && atMs < start.atMs + windowMs)
        .reduce((sum, { row }) => sum + (cost[row] ?? 0), 0),
    ),
  );
