/** The spans of time that the overview shows, and the function that reads each of them. */
import type { StatisticsView, TopKeyList } from "../../../admin/wire.ts";
import { call, queryText, read } from "../api/client.ts";
import { Polling } from "../api/poll.ts";
import { now } from "../clock.ts";
import type { TimeRange } from "../parts/plot-data.ts";
import { windowText } from "../parts/text.ts";
import { route } from "../shell/route.ts";
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
/** A live read for the overview, with the most denied keys of a policy. Null: of the policy that denied most. */
interface EarlyRead {
  readonly policy: string | null;
  readonly sampled: Promise<LiveTraffic>;
}
/**
 * The first read, which starts while the token is checked, or with the sign-in, so that the first numbers appear early. Null
 * once it has ended, and for other views and spans.
 */
let early: EarlyRead | null = null;
/** The policy of the keys of the last live read; undefined when it had none. */
let topPolicy: string | null | undefined;

const mostKeys = 10;
const topOf = (policy: string | null) => ({ top: mostKeys, topPolicy: policy ?? "" });

const livePath = (policy: string | null | undefined): string => {
  const from = new Date(live.fromMs(now())).toISOString();
  return `stats${queryText({ from, step: "1m", ...(policy !== undefined && topOf(policy)) })}`;
};

function showsLive(): boolean {
  const { view, query } = route.peek();
  return view === "" && !query.has("span") && !query.has("from");
}

function readEarly(checkedToken?: string): EarlyRead {
  const policy = route.peek().query.get("policy");
  const sampled = addSample(call<StatisticsView>("GET", livePath(policy), { checkedToken }), policy);
  const own = { policy, sampled };
  // The sign-in reports a refused token.
  sampled
    .catch(() => {})
    .finally(() => {
      if (early === own) early = null;
    });
  return own;
}

/** @param policy undefined for a read without keys */
async function addSample(reading: Promise<StatisticsView>, policy: string | null | undefined, abort?: AbortSignal) {
  // Another operator may sign in before the answer arrives, and then `live` is another object.
  const sampled = live;
  const statistics = await reading.catch((error: unknown) => {
    if (abort?.aborted !== true) sampled.fail();
    throw error;
  });
  sampled.add(statistics, now());
  topPolicy = policy;
  return sampled;
}

async function readLiveTraffic(policy: string | null, abort: AbortSignal): Promise<Omit<SpanTraffic, "span">> {
  const isFresh = now() - live.readAtMs < freshMs && topPolicy === policy;
  const sampled =
    early?.policy === policy
      ? await early.sampled
      : isFresh
        ? live
        : await addSample(read<StatisticsView>(livePath(policy), abort), policy, abort);
  const traffic = sampled.traffic();
  return { traffic, endMs: traffic.toMs, top: sampled.top };
}

async function sampleUnlessRecent(abort: AbortSignal): Promise<void> {
  if (early !== null || now() - live.readAtMs < recentMs) return;
  await addSample(read<StatisticsView>(livePath(undefined), abort), undefined, abort);
}

session.subscribe((value) => {
  polling?.stop();
  polling = null;
  if (value.kind === "signed-in" && may("read")) {
    early ??= showsLive() ? readEarly() : null;
    polling = new Polling(sampleUnlessRecent, pauseMs);
    polling.start();
  } else {
    live = new LiveTraffic();
    early = value.kind === "checking" && value.token !== null && showsLive() ? readEarly(value.token) : null;
  }
});

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

export interface TimeSpan {
  /** The name in the URL; null for a span with a beginning and an end of its own. */
  readonly name: string | null;
  readonly label: string;
  readonly lengthMs: number;
  readonly pauseMs: number;
  /** The length of a step in milliseconds; null for the live span, which shows traffic within seconds. */
  readonly stepMs: number | null;
  /** Null for a span that ends now. */
  readonly range: TimeRange | null;
}

/**
 * The numbers of the live span begin with a whole minute, and cover five to six minutes: its sentence says which. The steps of
 * a long span are coarse, so that the answer for 50 policies has less than 5,000 points.
 */
export const spans: readonly [TimeSpan, TimeSpan, ...TimeSpan[]] = [
  span("5m", "Live", 5 * minuteMs, null, 2_000),
  span("1h", "1 h", hourMs, minuteMs, 5_000),
  span("24h", "24 h", dayMs, 15 * minuteMs, 30_000),
  span("90d", "90 d", 90 * dayMs, dayMs, 300_000),
];

function span(name: string, label: string, lengthMs: number, stepMs: number | null, pausedMs: number): TimeSpan {
  return { name, label, lengthMs, pauseMs: pausedMs, stepMs, range: null };
}

const [liveSpan, lastHour] = spans;
export { lastHour };

export const startOf = ({ range, lengthMs }: TimeSpan): number => range?.fromMs ?? now() - lengthMs;

/** The span that the URL names. */
export function spanOf(query: URLSearchParams): TimeSpan {
  const range = rangeIn(query);
  return range === null ? (spans.find(({ name }) => name === query.get("span")) ?? liveSpan) : ownSpan(range);
}

function rangeIn(query: URLSearchParams): TimeRange | null {
  const fromMs = Number(query.get("from") ?? "");
  const toMs = Number(query.get("to") ?? "");
  return Number.isSafeInteger(fromMs) && Number.isSafeInteger(toMs) && 0 < fromMs && fromMs < toMs
    ? { fromMs, toMs }
    : null;
}

const stepsMs = [minuteMs, 5 * minuteMs, 15 * minuteMs, hourMs, 6 * hourMs, dayMs];
const mostSteps = 120;
/** Late counts can still arrive for the end of a span. */
const ownPauseMs = 30_000;

function ownSpan(range: TimeRange): TimeSpan {
  const lengthMs = range.toMs - range.fromMs;
  return {
    name: null,
    label: "",
    lengthMs,
    pauseMs: ownPauseMs,
    stepMs: stepsMs.find((stepMs) => lengthMs / stepMs <= mostSteps) ?? dayMs,
    range,
  };
}

/** The parameters of the URL that name a span. The default is not part of the URL. */
export const queryOfSpan = ({ name, range }: TimeSpan) => ({
  span: name === null || name === liveSpan.name ? "" : name,
  from: range === null ? "" : String(range.fromMs),
  to: range === null ? "" : String(range.toMs),
});

/** "per second", "per 15 min", "per day (UTC)". */
export const unitOf = (stepMs: number | null): string =>
  stepMs === null ? "per second" : `per ${windowText(stepMs)}${stepMs >= dayMs ? " (UTC)" : ""}`;

/** The numbers of one answer, so that all of them are of one period. */
export interface SpanTraffic {
  readonly span: TimeSpan;
  readonly traffic: CountedTraffic;
  /** The end of the numbers: when they were read, or the end of the span before that. */
  readonly endMs: number;
  /** The most denied keys; null when nothing was denied. */
  readonly top: TopKeyList | null;
}

/** @param policy the policy whose keys are read; null for the policy that denied most */
export function readerOf(chosen: TimeSpan, policy: string | null): (abort: AbortSignal) => Promise<SpanTraffic> {
  const { stepMs, range } = chosen;
  if (stepMs === null) return async (abort) => ({ span: chosen, ...(await readLiveTraffic(policy, abort)) });
  return async (abort) => {
    // Without `to`, the span ends now by the clock of the control plane. It begins one step later than its length, because the
    // API has a longest span, and the clock of the browser may be behind.
    const from = new Date(startOf(chosen) + (range === null ? stepMs : 0)).toISOString();
    const to = range === null ? undefined : new Date(range.toMs).toISOString();
    const query = queryText({ from, to, step: `${stepMs / minuteMs}m`, ...topOf(policy) });
    const statistics = await read<StatisticsView>(`stats${query}`, abort);
    const traffic = trafficOf(statistics);
    return { span: chosen, traffic, endMs: Math.min(traffic.toMs, now()), top: statistics.top ?? null };
  };
}
