/**
 * Fixed window: one counter per window, at most L units in each. A window opens with its first admitted request and lasts
 * W, or is aligned to the clock, or is a calendar period of a time zone.
 *
 * Promise: at most L units in one window. Bound: 2L in any span of W; 3L for calendar months, because 31 days can
 * contain a whole February. Known weakness: such a burst is possible across the boundary of two full windows. An
 * elastic window ends only after W without any request, allowed or denied. Its bound is L in any span of W, but a
 * client that keeps sending is never allowed again.
 */
import * as v from "valibot";
import {
  alignOption,
  openingMs,
  addFinalSpend,
  addReservedSpend,
  decodeFirstSpends,
  encodeFinalSpends,
  encodeReservedSpends,
  type FirstSpends,
  firstSpendReservations,
  hasReservedSpend,
  noFirstSpends,
  removeFinalSpend,
  reopenedAtMs,
  settleReservedSpend,
  windowBytes,
} from "./window-opening.ts";
import { periodAt, canonicalTimeZone } from "./calendar.ts";
import { decodeIntegers, encodeIntegers } from "./log/varint.ts";
import { type DatedUnits, type Limit, type ReservedUnits, type SettledUnits, strategyOfParts } from "./strategy.ts";

interface FixedWindowLimit extends Limit {
  readonly align: "first-request" | "clock" | "calendar";
  /** IANA name; calendar windows only. */
  readonly timezone?: string;
  readonly elastic: boolean;
}

/** The latest window. A count of 0 means that there is none. */
interface FixedWindow {
  readonly openedAtMs: number;
  /** The start of its W: `openedAtMs`, or the last restart of an elastic window. */
  readonly startedAtMs: number;
  readonly count: number;
  /** Empty unless a request opened the window; also empty for elastic windows. */
  readonly firstSpends: FirstSpends;
}

const acceptedZone = 'an IANA time zone such as "Europe/Berlin" or "UTC"';

const timezoneSchema = v.pipe(
  v.string(acceptedZone),
  v.rawTransform<string, string>(({ dataset, addIssue, NEVER }) => {
    const canonical = canonicalTimeZone(dataset.value);
    if (canonical !== null) return canonical;
    addIssue({ message: acceptedZone });
    return NEVER;
  }),
);

const none: FixedWindow = { openedAtMs: 0, startedAtMs: 0, count: 0, firstSpends: noFirstSpends };

const periodOf = ({ period = "day", timezone = "UTC" }: FixedWindowLimit, atMs: number) =>
  periodAt(period, timezone, atMs);

const startMsOf = (limit: FixedWindowLimit, atMs: number): number =>
  limit.align === "calendar" ? periodOf(limit, atMs).startMs : openingMs(limit.align, limit.windowMs, atMs);

const endMsOf = (limit: FixedWindowLimit, startedAtMs: number): number =>
  limit.align === "calendar" ? periodOf(limit, startedAtMs).endMs : startedAtMs + limit.windowMs;

const isOver = (limit: FixedWindowLimit, window: FixedWindow, nowMs: number): boolean =>
  window.count === 0 || nowMs >= endMsOf(limit, window.startedAtMs);

const isOpenedByRequest = ({ align, elastic }: FixedWindowLimit): boolean => align === "first-request" && !elastic;

function spend(limit: FixedWindowLimit, window: FixedWindow, spent: DatedUnits, nowMs: number): FixedWindow {
  const { atMs, units } = spent;
  if (isOver(limit, window, nowMs)) {
    const openedAtMs = startMsOf(limit, atMs);
    if (nowMs >= endMsOf(limit, openedAtMs)) return window;
    const firstSpends = isOpenedByRequest(limit) ? { final: [spent], open: null } : noFirstSpends;
    return { openedAtMs, startedAtMs: openedAtMs, count: units, firstSpends };
  }
  // A late booking may be from before the open window. If its own window is over, it is dropped. Otherwise it counts in the
  // open window, which never adds quota.
  const isOfFormerWindow = limit.align === "first-request" ? atMs + limit.windowMs <= nowMs : atMs < window.openedAtMs;
  if (isOfFormerWindow) return window;
  const { openedAtMs, startedAtMs, count, firstSpends } = window;
  return {
    openedAtMs,
    startedAtMs: limit.elastic ? Math.max(startedAtMs, atMs) : startedAtMs,
    count: count + units,
    firstSpends: isOpenedByRequest(limit) ? addFinalSpend(firstSpends, count, spent) : firstSpends,
  };
}

function refund(limit: FixedWindowLimit, window: FixedWindow, refunded: DatedUnits, nowMs: number): FixedWindow {
  if (isOver(limit, window, nowMs) || refunded.atMs < window.openedAtMs) return window;
  const firstSpends = removeFinalSpend(window.firstSpends, refunded);
  return removeUnits(limit, window, refunded.units, firstSpends);
}

/** @param firstSpends the first spends that are left */
function removeUnits(
  limit: FixedWindowLimit,
  window: FixedWindow,
  units: number,
  firstSpends: FirstSpends,
): FixedWindow {
  // The last unit was removed, so no window is open.
  if (units >= window.count) return none;
  const count = window.count - units;
  const openedAtMs = reopenedAtMs(window.firstSpends, firstSpends, window.openedAtMs, count);
  const startedAtMs = limit.elastic ? window.startedAtMs : openedAtMs;
  return { openedAtMs, startedAtMs, count, firstSpends };
}

function reserve(limit: FixedWindowLimit, window: FixedWindow, reserved: ReservedUnits, nowMs: number): FixedWindow {
  const { units } = reserved;
  if (!isOpenedByRequest(limit)) return spend(limit, window, { atMs: nowMs, units }, nowMs);
  const isFirst = isOver(limit, window, nowMs);
  const { openedAtMs, count, firstSpends } = isFirst ? { ...none, openedAtMs: nowMs } : window;
  return {
    openedAtMs,
    startedAtMs: openedAtMs,
    count: count + units,
    firstSpends: addReservedSpend(firstSpends, count, reserved, nowMs),
  };
}

function settle(limit: FixedWindowLimit, window: FixedWindow, settlement: SettledUnits, nowMs: number): FixedWindow {
  const { cost, actualCost, spentAtMs } = settlement;
  if (isOver(limit, window, nowMs) || spentAtMs < window.openedAtMs) return window;
  const units = cost - actualCost;
  if (hasReservedSpend(window.firstSpends, spentAtMs)) {
    const firstSpends = settleReservedSpend(window.firstSpends, settlement);
    return removeUnits(limit, window, units, firstSpends);
  }
  return units === 0 ? window : refund(limit, window, { atMs: spentAtMs, units }, nowMs);
}

export const fixedWindow = strategyOfParts<FixedWindowLimit, FixedWindow>({
  name: "fixed-window",
  options: {
    ...alignOption(["first-request", "clock", "calendar"]),
    timezone: v.optional(timezoneSchema),
    elastic: v.optional(v.boolean("true or false"), false),
  },
  complete: (limit) => (limit.align === "calendar" ? { ...limit, timezone: limit.timezone ?? "UTC" } : limit),
  problem(limit) {
    if (limit.align === "calendar" && limit.period === undefined) {
      return {
        field: "window",
        accepted: 'one of "1d", "1w", "1mo", "1y" with align = "calendar"',
      };
    }
    if (limit.align !== "calendar" && limit.period !== undefined) {
      return { field: "align", accepted: '"calendar", which months and years imply' };
    }
    if (limit.align !== "calendar" && limit.timezone !== undefined) {
      return { field: "timezone", accepted: 'no timezone unless align is "calendar"' };
    }
    return limit.elastic && limit.align !== "first-request"
      ? { field: "elastic", accepted: 'false unless align is "first-request"' }
      : null;
  },
  warning: (limit) =>
    limit.elastic
      ? "elastic windows are deprecated: a client that keeps sending is never allowed again; a sliding-log is as strict, and allows requests as soon as they fit"
      : null,
  identity: ({ align, timezone, elastic }) => {
    if (elastic) return "elastic";
    // Stored states have the time zone in lower case.
    return align === "calendar" ? `calendar ${timezone?.toLowerCase()}` : align === "clock" ? "clock" : "";
  },
  capacity: (limit) => limit.limit,
  mostPerWindow: ({ limit, elastic }) => (elastic ? limit : 2 * limit),
  windowMs(limit, nowMs) {
    if (limit.align !== "calendar") return limit.windowMs;
    const { startMs, endMs } = periodOf(limit, nowMs);
    return endMs - startMs;
  },
  mostStoredBytes: () => 100,

  fresh: () => none,

  used: (limit, window, nowMs) => (isOver(limit, window, nowMs) ? 0 : window.count),

  account(limit, window, nowMs) {
    const isOpen = !isOver(limit, window, nowMs);
    return {
      kind: "window",
      units: isOpen ? window.count : 0,
      endsInMs: isOpen ? endMsOf(limit, window.startedAtMs) - nowMs : 0,
      isElastic: limit.elastic,
      period: limit.period ?? null,
      timezone: limit.timezone ?? null,
    };
  },

  waitMs: (limit, window, _cost, nowMs) => endMsOf(limit, window.startedAtMs) - nowMs,

  spend,

  refund,

  reservations: {
    ...firstSpendReservations,
    reserve,
    settle,
    store: (limit, window, nowMs) =>
      isOver(limit, window, nowMs) ? "" : encodeReservedSpends(window.firstSpends, nowMs),
  },

  deny(limit, window, nowMs) {
    const restarts = limit.elastic && window.startedAtMs !== nowMs && !isOver(limit, window, nowMs);
    if (!restarts) return window;
    const { openedAtMs, count, firstSpends } = window;
    return { openedAtMs, startedAtMs: nowMs, count, firstSpends };
  },

  idleAtMs: (limit, window) => (window.count === 0 ? 0 : endMsOf(limit, window.startedAtMs)),

  store: (_limit, { openedAtMs, startedAtMs, count, firstSpends }, nowMs) =>
    encodeIntegers([nowMs - startedAtMs, count, startedAtMs - openedAtMs]) + encodeFinalSpends(firstSpends, nowMs),

  sizeBytes: windowBytes,

  restore(_limit, stored, nowMs, storedReservations = "") {
    const [ageMs, count, restartedAfterMs, ...integers] = decodeIntegers(stored) ?? [];
    if (ageMs === undefined || count === undefined || restartedAfterMs === undefined) return null;
    const firstSpends = decodeFirstSpends(integers, storedReservations, count, nowMs);
    const startedAtMs = nowMs - ageMs;
    const openedAtMs = startedAtMs - restartedAfterMs;
    if (firstSpends === null || openedAtMs < 0) return null;
    return { openedAtMs, startedAtMs, count, firstSpends };
  },
});
