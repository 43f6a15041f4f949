/**
 * Fixed window: one counter per window, at most L units in each. A window opens with the first admitted request and
 * lasts W, or is the one that the clock or the calendar of a time zone shows.
 *
 * Promise: never more than L units in one window. Bound: 2L in any span of W, since a full window may end where the
 * next one, full at once, begins. That burst across the boundary is its known weakness. An elastic window is over only
 * after W without a request, allowed or denied: at most L in any span of W, but who keeps asking is never let in again.
 */
import * as v from "valibot";
import { alignOption, opensAt } from "./align.ts";
import { periodAt } from "./calendar.ts";
import {
  isReserved,
  openingReservations,
  noOpenings,
  openedBy,
  type Openings,
  reopensAt,
  reservedAt,
  revivedOpenings,
  settledAt,
  spentAt,
  storedOpen,
  storedOpenings,
  withdrawn,
} from "./first-spends.ts";
import { sizeOfOpen } from "./open-reservations.ts";
import { packed, unpacked } from "./log/varint.ts";
import { constantSizeBytes, type Limit, type Settled, strategyOfParts } from "./strategy.ts";
import { canonicalTimeZone } from "./time-zones.ts";

interface FixedWindowLimit extends Limit {
  readonly align: "first-request" | "clock" | "calendar";
  /** IANA name; of calendar windows only. */
  readonly timezone?: string;
  readonly elastic: boolean;
}

/** A window that is open, or was the last to be; a count of 0 stands for none. */
interface Window {
  readonly openedAtMs: number;
  /** When its W began: when it opened, but that requests restart an elastic one. */
  readonly startedAtMs: number;
  readonly count: number;
  /** Of a window that requests open, unless it is elastic. */
  readonly openings: Openings;
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

const none: Window = { openedAtMs: 0, startedAtMs: 0, count: 0, openings: noOpenings };

const beginsAt = (limit: FixedWindowLimit, atMs: number): number =>
  limit.align === "calendar"
    ? periodOf(limit, atMs).startMs
    : opensAt(limit.align, limit.windowMs, atMs);

const endsAt = (limit: FixedWindowLimit, startedAtMs: number): number =>
  limit.align === "calendar" ? periodOf(limit, startedAtMs).endMs : startedAtMs + limit.windowMs;

const periodOf = ({ period = "day", timezone = "UTC" }: FixedWindowLimit, atMs: number) =>
  periodAt(period, timezone, atMs);

const isOver = (limit: FixedWindowLimit, window: Window, nowMs: number): boolean =>
  window.count === 0 || nowMs >= endsAt(limit, window.startedAtMs);

const isOpenedByRequest = ({ align, elastic }: FixedWindowLimit): boolean =>
  align === "first-request" && !elastic;

const used = (limit: FixedWindowLimit, window: Window, nowMs: number): number =>
  isOver(limit, window, nowMs) ? 0 : window.count;

function spend(
  limit: FixedWindowLimit,
  window: Window,
  units: number,
  atMs: number,
  nowMs: number,
): Window {
  if (isOver(limit, window, nowMs)) {
    const openedAtMs = beginsAt(limit, atMs);
    if (nowMs >= endsAt(limit, openedAtMs)) return window;
    const openings = isOpenedByRequest(limit) ? openedBy(atMs, units) : noOpenings;
    return { openedAtMs, startedAtMs: openedAtMs, count: units, openings };
  }
  // A late booking from before a window that the clock opened belongs to one that is over. Before a window that
  // a request opened it would have opened one itself: it counts in the open one, which never adds quota.
  const isOfAnother =
    limit.align === "first-request" ? atMs + limit.windowMs <= nowMs : atMs < window.openedAtMs;
  if (isOfAnother) return window;
  const { openedAtMs, startedAtMs, count, openings } = window;
  return {
    openedAtMs,
    startedAtMs: limit.elastic ? Math.max(startedAtMs, atMs) : startedAtMs,
    count: count + units,
    openings: isOpenedByRequest(limit) ? spentAt(openings, count, atMs, units) : openings,
  };
}

function refund(
  limit: FixedWindowLimit,
  window: Window,
  units: number,
  spentAtMs: number,
  nowMs: number,
): Window {
  if (isOver(limit, window, nowMs) || spentAtMs < window.openedAtMs) return window;
  const openings = withdrawn(window.openings, spentAtMs, units);
  return lessened(limit, window, units, openings);
}

/** The window with fewer units, as of those openings that are left. */
function lessened(
  limit: FixedWindowLimit,
  window: Window,
  units: number,
  openings: Openings,
): Window {
  // With its last unit the window goes too: had nothing been spent, none would be open.
  if (units >= window.count) return none;
  const count = window.count - units;
  const openedAtMs = reopensAt(window.openings, openings, window.openedAtMs, count);
  return {
    openedAtMs,
    startedAtMs: limit.elastic ? window.startedAtMs : openedAtMs,
    count,
    openings,
  };
}

function reserve(
  limit: FixedWindowLimit,
  window: Window,
  units: number,
  expiresAtMs: number,
  nowMs: number,
): Window {
  if (!isOpenedByRequest(limit)) return spend(limit, window, units, nowMs, nowMs);
  const isFirst = isOver(limit, window, nowMs);
  const { openedAtMs, count, openings } = isFirst ? { ...none, openedAtMs: nowMs } : window;
  return {
    openedAtMs,
    startedAtMs: openedAtMs,
    count: count + units,
    openings: reservedAt(openings, count, nowMs, units, expiresAtMs),
  };
}

function settle(
  limit: FixedWindowLimit,
  window: Window,
  { cost, actualCost, spentAtMs }: Settled,
  nowMs: number,
): Window {
  if (isOver(limit, window, nowMs) || spentAtMs < window.openedAtMs) return window;
  if (isReserved(window.openings, spentAtMs)) {
    const openings = settledAt(window.openings, spentAtMs, cost, actualCost);
    return lessened(limit, window, cost - actualCost, openings);
  }
  return cost === actualCost ? window : refund(limit, window, cost - actualCost, spentAtMs, nowMs);
}

export const fixedWindow = strategyOfParts<FixedWindowLimit, Window>({
  name: "fixed-window",
  options: {
    ...alignOption(["first-request", "clock", "calendar"]),
    timezone: v.optional(timezoneSchema),
    elastic: v.optional(v.boolean("true or false"), false),
  },
  complete: (limit) =>
    limit.align === "calendar" ? { ...limit, timezone: limit.timezone ?? "UTC" } : limit,
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
      return { field: "timezone", accepted: 'nothing unless align is "calendar"' };
    }
    return limit.elastic && limit.align !== "first-request"
      ? { field: "elastic", accepted: 'false unless align is "first-request"' }
      : null;
  },
  warning: (limit) =>
    limit.elastic
      ? "elastic windows are deprecated: who keeps asking is never let in again; a sliding-log is as strict and lets in what it can"
      : null,
  identity: ({ align, timezone, elastic }) => {
    if (elastic) return "elastic";
    // Isolates of the previous version send a time zone as it was written.
    return align === "calendar"
      ? `calendar ${timezone?.toLowerCase()}`
      : align === "clock"
        ? "clock"
        : "";
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

  used,

  waitMs: (limit, window, _cost, nowMs) => endsAt(limit, window.startedAtMs) - nowMs,

  spend,

  refund,

  reservations: {
    ...openingReservations,
    reserve,
    settle,
    store: (limit, window, nowMs) =>
      isOver(limit, window, nowMs) ? "" : storedOpen(window.openings, nowMs),
  },

  deny(limit, window, nowMs) {
    const restarts = limit.elastic && window.startedAtMs !== nowMs && !isOver(limit, window, nowMs);
    if (!restarts) return window;
    const { openedAtMs, count, openings } = window;
    return { openedAtMs, startedAtMs: nowMs, count, openings };
  },

  idleAtMs: (limit, window) => (window.count === 0 ? 0 : endsAt(limit, window.startedAtMs)),

  store: (_limit, { openedAtMs, startedAtMs, count, openings }, nowMs) =>
    packed([nowMs - startedAtMs, count, startedAtMs - openedAtMs]) +
    storedOpenings(openings, nowMs),

  sizeBytes: ({ openings }) => constantSizeBytes + sizeOfOpen(openings.open),

  revive(_limit, stored, nowMs, storedReservations = "") {
    const [ageMs, count, restartedAfterMs, ...integers] = unpacked(stored) ?? [];
    if (ageMs === undefined || count === undefined || restartedAfterMs === undefined) return null;
    const openings = revivedOpenings(integers, storedReservations, count, nowMs);
    const startedAtMs = nowMs - ageMs;
    const openedAtMs = startedAtMs - restartedAfterMs;
    if (openings === null || openedAtMs < 0) return null;
    return { openedAtMs, startedAtMs, count, openings };
  },
});
