/**
 * The stored rows of statistics: one for each finished minute of a day, one for each hour of 90 days, and the open state. Minutes
 * and hours are rings: a row takes the place of the row one day, or 90 days, before it. While traffic lasts, nothing has to be
 * deleted, since a deletion costs as much as a write.
 */
import { type Sql, isNumber, numberIn, numberOf, numbersIn, parsedRecord, recordIn, rowsIn } from "./storage.ts";
import { isRecord } from "../../validation/json.ts";
import { type PolicyCounts, type StatisticsBatch, outcomeNames } from "../protocol.ts";
import type { FirstCounts, RequestsPoint, Statistics, StatisticsQuery } from "../statistics-calls.ts";

export const minuteMs = 60_000;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

const periods = {
  minutes: { ms: minuteMs, keptMs: dayMs },
  hours: { ms: hourMs, keptMs: 90 * dayMs },
} as const;
type StoredPeriod = keyof typeof periods;

export const floorTo = (stepMs: number, atMs: number): number => Math.floor(atMs / stepMs) * stepMs;

/** A row has at most 2 MB. A character of UTF-16 takes at most three bytes of UTF-8. */
const mostPartCharacters = 600_000;

export class StatisticsRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
    for (const period of ["minutes", "hours"]) {
      sql.exec(
        `CREATE TABLE IF NOT EXISTS ${period} (slot INTEGER PRIMARY KEY, at INTEGER NOT NULL, body TEXT NOT NULL)`,
      );
    }
    sql.exec("CREATE TABLE IF NOT EXISTS statistics (part INTEGER PRIMARY KEY, body TEXT NOT NULL)");
  }

  /** The rows from `fromMs` (inclusive) to `toMs` (exclusive), the oldest first. */
  read(period: StoredPeriod, fromMs: number, toMs: number): [atMs: number, tally: Tally][] {
    return this.#sql
      .exec<{ at: number; body: string }>(
        `SELECT at, body FROM ${period} WHERE at >= ? AND at < ? ORDER BY at`,
        fromMs,
        toMs,
      )
      .toArray()
      .map(({ at, body }) => [at, Tally.revived(parsedRecord<TallySource>(body))]);
  }

  /**
   * Writes the row of a minute or an hour. Adds to an existing row, which there is only when the clock stepped back.
   */
  add(period: StoredPeriod, atMs: number, tally: Tally): void {
    const [[, stored] = []] = this.read(period, atMs, atMs + 1);
    stored?.add(tally.toJSON());
    this.replace(period, atMs, stored ?? tally);
  }

  replace(period: StoredPeriod, atMs: number, tally: Tally): void {
    const { ms, keptMs } = periods[period];
    this.#sql.exec(
      `INSERT OR REPLACE INTO ${period} (slot, at, body) VALUES (?, ?, ?)`,
      (atMs / ms) % (keptMs / ms),
      atMs,
      JSON.stringify(tally),
    );
  }

  /**
   * Writes each hour from `fromMs` (inclusive) to `toMs` (exclusive) as the sum of its minutes. Repeating this changes
   * nothing.
   */
  rollUp(fromMs: number, toMs: number): void {
    const hours = summedBySteps(this.read("minutes", fromMs, toMs), hourMs);
    for (const [atMs, hour] of hours) this.replace("hours", atMs, hour);
  }

  /** Deletes rows that are too old. */
  deleteOld(nowMs: number): void {
    this.#sql.exec("DELETE FROM minutes WHERE at <= ?", nowMs - periods.minutes.keptMs);
    this.#sql.exec("DELETE FROM hours WHERE at <= ?", nowMs - periods.hours.keptMs);
  }

  /** When the first row will be too old; null when there is none. */
  nextDeletionMs(): number | null {
    return numberOf(
      this.#sql,
      "SELECT min(at) FROM (SELECT min(at) + ? AS at FROM minutes UNION ALL SELECT min(at) + ? FROM hours)",
      periods.minutes.keptMs,
      periods.hours.keptMs,
    );
  }

  /** The text of the open state as it was last written; empty when there is none. */
  readState(): string {
    const rows = this.#sql.exec<{ body: string }>("SELECT body FROM statistics ORDER BY part").toArray();
    return rows.map(({ body }) => body).join("");
  }

  /** Writes the open state to one row, or to several if it is larger than a row can be. */
  writeState(text: string): void {
    const parts = Math.ceil(text.length / mostPartCharacters);
    for (let part = 0; part < parts; part++) {
      const body = text.slice(part * mostPartCharacters, (part + 1) * mostPartCharacters);
      this.#sql.exec("INSERT OR REPLACE INTO statistics (part, body) VALUES (?, ?)", part, body);
    }
    this.#sql.exec("DELETE FROM statistics WHERE part >= ?", parts);
  }
}

/** The counts of one policy that can be added up, without its top lists. */
export type Counts = Pick<PolicyCounts, "outcomes" | "nearLimit" | "latency" | "latencySumMs" | "deniedRequests">;

export type TallySource = Pick<StatisticsBatch, "originFailures" | "requests"> & {
  readonly policies: Readonly<Record<string, Counts>>;
  /** Whether `requests` leaves out those of an earlier version, which does not count them. */
  readonly lacksRequests?: boolean;
};

const noSums = () => ({
  outcomes: new Map<string, number>(),
  nearLimit: 0,
  /** By bucket. */
  latency: new Map<number, number>(),
  latencySumMs: 0,
  deniedRequests: 0,
});

const addTo = <Key>(sums: Map<Key, number>, key: Key, count: number): void =>
  void sums.set(key, (sums.get(key) ?? 0) + count);

export class Tally {
  readonly #policies = new Map<string, ReturnType<typeof noSums>>();
  originFailures = 0;
  /** The requests that were counted. */
  requests = 0;
  #lacksRequests = false;

  /** Adds a batch, or the value of another tally's `toJSON`. */
  add({ policies, originFailures, requests, lacksRequests = false }: TallySource): void {
    this.originFailures += originFailures;
    this.requests += requests ?? 0;
    this.#lacksRequests ||= lacksRequests || (requests === undefined && Object.keys(policies).length > 0);
    for (const [policy, counts] of Object.entries(policies)) {
      const sums = this.#policies.get(policy) ?? noSums();
      this.#policies.set(policy, sums);
      for (const [outcome, count] of Object.entries(counts.outcomes)) {
        addTo(sums.outcomes, outcome, count);
      }
      sums.nearLimit += counts.nearLimit;
      for (const [bucket, count] of counts.latency) addTo(sums.latency, bucket, count);
      sums.latencySumMs += counts.latencySumMs;
      sums.deniedRequests += counts.deniedRequests ?? 0;
    }
  }

  get policies(): string[] {
    return [...this.#policies.keys()];
  }

  /** The counts of a policy; zeros for one without any. */
  of(policy: string): Counts {
    const { outcomes, latency, nearLimit, latencySumMs, deniedRequests } = this.#policies.get(policy) ?? noSums();
    return {
      outcomes: Object.fromEntries(outcomes),
      nearLimit,
      latency: [...latency].toSorted(([one], [other]) => one - other),
      latencySumMs,
      ...(deniedRequests > 0 && { deniedRequests }),
    };
  }

  get deniedRequests(): number {
    return [...this.#policies.values()].reduce((sum, each) => sum + each.deniedRequests, 0);
  }

  /** Null when there are no requests. */
  requestsAt(atMs: number): RequestsPoint | null {
    if (this.#lacksRequests) return { atMs, decided: null, denied: null };
    return this.requests === 0 ? null : { atMs, decided: this.requests, denied: this.deniedRequests };
  }

  toJSON(): TallySource {
    const policies = this.policies.map((policy) => [policy, this.of(policy)] as const);
    return {
      policies: Object.fromEntries(policies),
      originFailures: this.originFailures,
      requests: this.requests,
      ...(this.#lacksRequests && { lacksRequests: true }),
    };
  }

  /** Reads the JSON of a tally. */
  static revived(stored: Partial<TallySource> | undefined): Tally {
    const tally = new Tally();
    const { policies, originFailures, requests, lacksRequests } = recordIn(stored);
    const counted = Object.entries(recordIn(policies)).flatMap(([policy, counts]) => {
      const { outcomes, nearLimit, latency, latencySumMs, deniedRequests } = recordIn(counts);
      if (!isRecord(outcomes)) return [];
      const read: Counts = {
        outcomes: Object.fromEntries(numbersIn(outcomes)),
        nearLimit: numberIn(nearLimit),
        latency: rowsIn(latency, "number", "number"),
        latencySumMs: numberIn(latencySumMs),
        deniedRequests: numberIn(deniedRequests),
      };
      return [[policy, read] as const];
    });
    tally.add({
      policies: Object.fromEntries(counted),
      originFailures: numberIn(originFailures),
      ...(isNumber(requests) && { requests }),
      lacksRequests: lacksRequests === true,
    });
    return tally;
  }
}

/** The number of decisions of all outcomes. */
export const decisionsIn = ({ outcomes }: Counts): number =>
  outcomeNames.reduce((sum, outcome) => sum + (outcomes[outcome] ?? 0), 0);

/** The number of decisions by limits, or in their place: those that samples of traffic have. */
export const limitedIn = (counts: Counts): number =>
  decisionsIn(counts) - (counts.outcomes.exempt ?? 0) - (counts.outcomes.blocked ?? 0);

/** The number of denied requests: by a limit, a ban or a block. Dry runs and decisions by `onError` are no part of it. */
export const denialsIn = ({ outcomes: { denied = 0, banned = 0, blocked = 0 } }: Counts): number =>
  denied + banned + blocked;

/** The number of decisions without the object's answer. */
export const fallbacksIn = ({ outcomes }: Counts): number =>
  (outcomes["fallback-local"] ?? 0) + (outcomes["fallback-open"] ?? 0) + (outcomes["fallback-closed"] ?? 0);

interface Steps {
  readonly period: StoredPeriod;
  readonly fromMs: number;
  readonly toMs: number;
  readonly stepMs: number;
}

/**
 * Rounds the step up to whole minutes, or to whole hours if the span begins before the oldest minute that is kept.
 * Rounds the span to whole steps.
 */
export function stepsOf({ fromMs, toMs, stepMs }: StatisticsQuery, nowMs: number): Steps {
  const isLong = floorTo(minuteMs, fromMs) < nowMs - periods.minutes.keptMs;
  const unitMs = isLong || stepMs >= hourMs ? hourMs : minuteMs;
  const step = Math.max(unitMs, Math.ceil(stepMs / unitMs) * unitMs);
  const first = Math.max(fromMs, nowMs - periods.hours.keptMs);
  return {
    period: unitMs === hourMs ? "hours" : "minutes",
    fromMs: floorTo(step, first),
    toMs: Math.max(floorTo(step, first), floorTo(step, toMs + step - 1)),
    stepMs: step,
  };
}

/** The sum of the rows of each step, the earliest first. */
function summedBySteps(rows: readonly (readonly [atMs: number, tally: Tally])[], stepMs: number): [number, Tally][] {
  const steps = new Map<number, Tally>();
  for (const [rowMs, tally] of rows) {
    const atMs = floorTo(stepMs, rowMs);
    const step = steps.get(atMs) ?? new Tally();
    step.add(tally.toJSON());
    steps.set(atMs, step);
  }
  return [...steps].toSorted(([one], [other]) => one - other);
}

/** Clocks differ, and a batch takes time to arrive: the time of a denial within the minute of its counts, if that is known. */
export const withinMinute = (minuteAtMs: number | null, atMs: number): number =>
  minuteAtMs === null ? atMs : Math.min(Math.max(atMs, minuteAtMs), minuteAtMs + minuteMs - 1);

/** When each policy, and requests of all policies, were first counted and first denied. */
export function firstCountsOf(rows: Parameters<typeof summedBySteps>[0]): readonly FirstCounts[] {
  const firsts = new Map<string | null, FirstCounts>();
  const note = (policy: string | null, atMs: number, hasDenials: boolean): void => {
    const known = firsts.get(policy);
    const deniedAtMs = known?.deniedAtMs ?? (hasDenials ? atMs : null);
    firsts.set(policy, { policy, atMs: known?.atMs ?? atMs, deniedAtMs });
  };
  for (const [atMs, tally] of rows.toSorted(([one], [other]) => one - other)) {
    if (tally.requests > 0) note(null, atMs, tally.deniedRequests > 0);
    for (const policy of tally.policies) {
      if ((firsts.get(policy)?.deniedAtMs ?? null) !== null) continue;
      const counts = tally.of(policy);
      if (decisionsIn(counts) > 0) note(policy, atMs, denialsIn(counts) > 0);
    }
  }
  return [...firsts.values()];
}

/** The policy that denied most; without denials, the one whose dry run would have. Null when there is none. */
export function mostDenying(points: Statistics["points"]): string | null {
  const most = (countOf: (point: Counts) => number): string | null => {
    const sums = new Map<string, number>();
    for (const point of points) sums.set(point.policy, (sums.get(point.policy) ?? 0) + countOf(point));
    const [first] = [...sums].toSorted(([, one], [, other]) => other - one);
    return first === undefined || first[1] === 0 ? null : first[0];
  };
  return most(denialsIn) ?? most(({ outcomes }) => outcomes["dry-run-denied"] ?? 0);
}

/** The points of one policy or of all. */
export function pointsOf(
  rows: Parameters<typeof summedBySteps>[0],
  stepMs: number,
  only: string | undefined,
): Pick<Statistics, "points" | "originFailures" | "requests"> {
  const steps = summedBySteps(rows, stepMs);
  return {
    points: steps.flatMap(([atMs, tally]) =>
      tally.policies
        .filter((policy) => only === undefined || policy === only)
        .map((policy) => ({ atMs, policy, ...tally.of(policy) })),
    ),
    requests: steps.flatMap(([atMs, tally]) => tally.requestsAt(atMs) ?? []),
    originFailures: steps
      .filter(([, { originFailures }]) => originFailures > 0)
      .map(([atMs, { originFailures }]) => ({ atMs, count: originFailures })),
  };
}
