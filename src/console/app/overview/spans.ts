/** The spans of time that the overview shows. */
import type { Statistics } from "../api/answers.ts";
import { queryText, read } from "../api/client.ts";
import { now } from "../clock.ts";
import { readLiveTraffic } from "./sampling.ts";
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
  /** Null for the live span. */
  readonly step: { readonly text: string; readonly lengthMs: number } | null;
}

/** The default: it shows traffic within seconds, and has the minutes before. */
const live: TimeSpan = {
  name: "5m",
  label: "5 min, live",
  unit: "per second",
  lengthMs: 5 * minuteMs,
  pauseMs: 2_000,
  step: null,
};

/** The steps of a long span are coarse, so that the answer for 50 policies has less than 5,000 points. */
export const spans: readonly TimeSpan[] = [
  live,
  {
    name: "1h",
    label: "1 h",
    unit: "per minute",
    lengthMs: hourMs,
    pauseMs: 5_000,
    step: { text: "1m", lengthMs: minuteMs },
  },
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

export const spanOf = (name: string | null): TimeSpan => spans.find((each) => each.name === name) ?? live;

/** The default is not part of the URL. */
export const nameInUrl = ({ name }: TimeSpan): string => (name === live.name ? "" : name);

export interface SpanTraffic {
  readonly span: TimeSpan;
  readonly traffic: CountedTraffic;
}

/** Returns a function that reads the traffic of the span up to now. */
export function readerOf(span: TimeSpan): (abort: AbortSignal) => Promise<SpanTraffic> {
  const { step, lengthMs } = span;
  if (step === null) return async (abort) => ({ span, traffic: await readLiveTraffic(abort) });
  return async (abort) => {
    // Without `to`, the span ends now by the clock of the control plane. It begins one step later than its length, because the
    // API has a longest span, and the clock of the browser may be behind.
    const from = new Date(now() - lengthMs + step.lengthMs).toISOString();
    const query = queryText({ from, step: step.text });
    return { span, traffic: trafficOf(await read<Statistics>(`stats${query}`, abort)) };
  };
}
