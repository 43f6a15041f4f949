/** The spans of time that the overview shows, and the function that reads each of them. */
import type { StatisticsView } from "../../../admin/wire.ts";
import { queryText, read } from "../api/client.ts";
import { Polling } from "../api/poll.ts";
import { now } from "../clock.ts";
import { may, session } from "../shell/session.ts";
import { LiveTraffic } from "./live-traffic.ts";
import { type CountedTraffic, trafficOf } from "./traffic.ts";

const pauseMs = 5_000;
/**
 * A sample in the background is skipped if the last one is younger: while the live span is shown, it reads more often.
 */
const recentMs = 4_000;
/** A sample that is younger than this is not read again, for example when the overview opens. */
const freshMs = 1_000;

/**
 * The live traffic of this tab. It is sampled in every view while an operator is signed in and the page is visible, so that the
 * overview shows what happened before it was opened, such as before a change under "Keys".
 */
let live = new LiveTraffic();
let polling: Polling<void> | null = null;

async function sample(abort: AbortSignal): Promise<LiveTraffic> {
  // Another operator may sign in before the answer arrives, and then `live` is another object.
  const sampled = live;
  const from = new Date(sampled.fromMs(now())).toISOString();
  const path = `stats${queryText({ from, step: "1m" })}`;
  const statistics = await read<StatisticsView>(path, abort).catch((error: unknown) => {
    if (!abort.aborted) sampled.fail();
    throw error;
  });
  sampled.add(statistics, now());
  return sampled;
}

async function readLiveTraffic(abort: AbortSignal): Promise<CountedTraffic> {
  const isFresh = now() - live.readAtMs < freshMs;
  return (isFresh ? live : await sample(abort)).traffic();
}

async function sampleUnlessRecent(abort: AbortSignal): Promise<void> {
  if (now() - live.readAtMs >= recentMs) await sample(abort);
}

session.subscribe(({ kind }) => {
  polling?.stop();
  polling = null;
  if (kind === "signed-in" && may("read")) {
    polling = new Polling(sampleUnlessRecent, pauseMs);
    polling.start();
  } else {
    live = new LiveTraffic();
  }
});

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/**
 * `name` is the name in the URL, and `unit` the unit of the plot's values. Only the live span has no `step`: it shows
 * traffic within seconds, and is based on whole minutes before the first read. The steps of a long span are coarse, so
 * that the answer for 50 policies has less than 5,000 points.
 */
export const spans = [
  {
    name: "5m",
    label: "5 min, live",
    unit: "per second",
    lengthMs: 5 * minuteMs,
    pauseMs: 2_000,
    step: null,
  },
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
] as const;

export type TimeSpan = (typeof spans)[number];

const [liveSpan] = spans;

export const spanOf = (name: string | null): TimeSpan => spans.find((each) => each.name === name) ?? liveSpan;

/** The default is not part of the URL. */
export const nameInUrl = ({ name }: TimeSpan): string => (name === liveSpan.name ? "" : name);

export interface SpanTraffic {
  readonly span: TimeSpan;
  readonly traffic: CountedTraffic;
}

export function readerOf(span: TimeSpan): (abort: AbortSignal) => Promise<SpanTraffic> {
  const { step, lengthMs } = span;
  if (step === null) return async (abort) => ({ span, traffic: await readLiveTraffic(abort) });
  return async (abort) => {
    // Without `to`, the span ends now by the clock of the control plane. It begins one step later than its length, because the
    // API has a longest span, and the clock of the browser may be behind.
    const from = new Date(now() - lengthMs + step.lengthMs).toISOString();
    const query = queryText({ from, step: step.text });
    return { span, traffic: trafficOf(await read<StatisticsView>(`stats${query}`, abort)) };
  };
}
