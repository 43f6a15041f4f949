/** The spans of time that the overview shows. */
import type { Statistics } from "../api/answers.ts";
import { queryText, read } from "../api/client.ts";
import { now } from "../clock.ts";
import { LiveTraffic } from "./live-traffic.ts";
import { type CountedTraffic, trafficOf } from "./traffic.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

export interface TimeSpan {
  /** The name in the URL. */
  readonly name: string;
  readonly label: string;
  /** The unit of the plot's values. */
  readonly unit: string;
  readonly lengthMs: number;
  readonly pauseMs: number;
  /** Null for the span that reads counts as they arrive. */
  readonly step: { readonly text: string; readonly lengthMs: number } | null;
}

const hour: TimeSpan = {
  name: "1h",
  label: "1 h",
  unit: "per minute",
  lengthMs: hourMs,
  pauseMs: 5_000,
  step: { text: "1m", lengthMs: minuteMs },
};

/** The steps of a long span are coarse, so that the answer for 50 policies has less than 5,000 points. */
export const spans: readonly TimeSpan[] = [
  {
    name: "5m",
    label: "5 min, live",
    unit: "per second",
    lengthMs: 5 * minuteMs,
    pauseMs: 2_000,
    step: null,
  },
  hour,
  {
    name: "24h",
    label: "24 h",
    unit: "per 15 minutes",
    lengthMs: 24 * hourMs,
    pauseMs: 30_000,
    step: { text: "15m", lengthMs: 15 * minuteMs },
  },
  {
    name: "90d",
    label: "90 d",
    unit: "per day (UTC)",
    lengthMs: 90 * 24 * hourMs,
    pauseMs: 300_000,
    step: { text: "24h", lengthMs: 24 * hourMs },
  },
];

export const spanOf = (name: string | null): TimeSpan =>
  spans.find((each) => each.name === name) ?? hour;

/** The default is not part of the URL. */
export const nameInUrl = ({ name }: TimeSpan): string => (name === hour.name ? "" : name);

export interface SpanTraffic {
  readonly span: TimeSpan;
  readonly traffic: CountedTraffic;
}

/** Returns a function that reads the traffic of the span up to now. */
export function readerOf(span: TimeSpan): (abort: AbortSignal) => Promise<SpanTraffic> {
  const live = new LiveTraffic();
  return async (abort) => {
    const statistics = await read<Statistics>(`stats${queryOf(span, live.fromMs)}`, abort);
    if (span.step !== null) return { span, traffic: trafficOf(statistics) };
    live.add(statistics, now());
    return { span, traffic: live.traffic() };
  };
}

/**
 * Without `to`, the span ends now by the clock of the control plane. It begins one step later than its length, because the API
 * has a longest span, and the clock of the browser may be behind.
 */
function queryOf({ lengthMs, step }: TimeSpan, liveFromMs: number | null): string {
  const fromMs = step === null ? liveFromMs : now() - lengthMs + step.lengthMs;
  return queryText({
    from: fromMs === null ? undefined : new Date(fromMs).toISOString(),
    step: step?.text ?? "1m",
  });
}
