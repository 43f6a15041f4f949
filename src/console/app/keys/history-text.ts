/** The texts of a key's page about its requests over time: the period, the totals, the plot, and where they come from. */
import type { KeyHistory } from "../../../admin/wire.ts";
import { type Line, lines, newTally, numbersOf, tallyOf } from "../overview/traffic.ts";
import type { TimeRange } from "../parts/plot-data.ts";
import { countOf, numberText, percentText, shortInstantText } from "../parts/text.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

export interface HistorySpan {
  /** The name in the URL, and on the button. */
  readonly name: string;
  readonly label: string;
  readonly words: string;
  readonly lengthMs: number;
}

export const historySpans: readonly [HistorySpan, ...HistorySpan[]] = [
  { name: "15m", label: "15 min", words: "in the last 15 minutes", lengthMs: 15 * minuteMs },
  { name: "1h", label: "1 h", words: "in the last hour", lengthMs: hourMs },
  { name: "24h", label: "24 h", words: "in the last 24 hours", lengthMs: 24 * hourMs },
];

const none = { nearLimit: 0, latency: [], latencySumMs: 0 };

/** The counts of the points by the step that they begin in. */
function numbersBySteps({ points, policy }: KeyHistory, stepMs: number) {
  const tallies = new Map<number, Float64Array>();
  for (const { at, outcomes } of points) {
    const atMs = Math.floor(Date.parse(at) / stepMs) * stepMs;
    const sum = tallies.get(atMs) ?? newTally(0);
    tallies.set(atMs, sum);
    for (const [index, count] of tallyOf({ at, policy, outcomes, ...none }, 0).entries()) {
      sum[index] = (sum[index] ?? 0) + count;
    }
  }
  const zeros = numbersOf(newTally(0));
  return (atMs: number) => {
    const tally = tallies.get(atMs);
    return tally === undefined ? zeros : numbersOf(tally);
  };
}

/** The spans of time in which every request of the key is known, or its sampled share. */
function knownRanges({ sample, recordings, to }: KeyHistory): readonly TimeRange[] {
  const toMs = Date.parse(to);
  const recorded = recordings.map(({ from, until }) => ({
    fromMs: Date.parse(from),
    toMs: Math.min(toMs, Date.parse(until)),
  }));
  return sample === null ? recorded : [...recorded, { fromMs: Date.parse(sample.from), toMs }];
}

/** The shortest span that has all known requests of the key. */
export function fittingSpan({ points: [first], to }: Pick<KeyHistory, "points" | "to">): HistorySpan {
  const ageMs = first === undefined ? 0 : Date.parse(to) - Date.parse(first.at);
  return historySpans.find(({ lengthMs }) => ageMs <= lengthMs) ?? historySpans[0];
}

/** When the plot begins: with the first known request of the key, if that is later than the beginning of the span. */
function beginningOf({ points: [first], to }: KeyHistory, { lengthMs }: HistorySpan): number {
  const toMs = Date.parse(to);
  const firstMs = first === undefined ? toMs : Date.parse(first.at);
  return Math.max(toMs - lengthMs, Math.min(firstMs, toMs - historySpans[0].lengthMs));
}

/** The plot of a span, and the totals of what it shows. Steps outside of the known ranges have no value. */
export function historyOf(history: KeyHistory, span: HistorySpan) {
  const toMs = Date.parse(history.to);
  const fromMs = beginningOf(history, span);
  const stepMs = toMs - fromMs <= 2 * hourMs ? minuteMs : 5 * minuteMs;
  const firstMs = Math.floor(fromMs / stepMs) * stepMs;
  const times = Array.from({ length: Math.ceil((toMs - firstMs) / stepMs) }, (_, index) => firstMs + index * stepMs);
  const ranges = knownRanges(history);
  const isKnown = (atMs: number): boolean => ranges.some((each) => atMs + stepMs > each.fromMs && atMs < each.toMs);
  const at = numbersBySteps(history, stepMs);
  const total = (line: Line | "decisions"): number => times.reduce((sum, atMs) => sum + at(atMs)[line], 0);
  const series = lines
    .filter((line) => line === "allowed" || line === "denied" || total(line) > 0)
    .map((line) => ({ line, values: times.map((atMs) => (isKnown(atMs) ? at(atMs)[line] : null)) }));
  return {
    data: { fromMs: firstMs, toMs, times, stepMs, longSteps: [], series },
    totals: { denied: total("denied"), requests: total("decisions") },
  };
}

/** "in the last hour", or "since 16:38" if the first known request of the key is later than the beginning of the span. */
export function historyPeriod({ points: [first], to }: KeyHistory, { lengthMs, words }: HistorySpan): string {
  const toMs = Date.parse(to);
  if (first === undefined || Date.parse(first.at) <= toMs - lengthMs) return words;
  return `since ${shortInstantText(first.at, toMs)}`;
}

/** For example "1,204 requests in the last hour, of which 120 (10 %) were denied." */
export function totalText({ denied, requests }: ReturnType<typeof historyOf>["totals"], period: string): string {
  if (requests === 0) return `No request ${period}.`;
  const share =
    denied === 0 ? "none was denied" : `${numberText(denied)} (${percentText(denied, requests)}) were denied`;
  return `${countOf(requests, "request")} ${period}, of which ${share}.`;
}

/** One sentence: which requests are known, and why. */
export function basisText({ sample, recordings, recording, to }: KeyHistory): string {
  const text = (at: string): string => shortInstantText(at, Date.parse(to));
  if (sample !== null) {
    const part = sample.coverage < 0.995 ? `${percentText(sample.coverage, 1)} of its requests` : "All its requests";
    return `${part} are known, because the key is in the sample of traffic.`;
  }
  if (recording !== null) return `All its requests since ${text(recording.from)} are known, when its recording began.`;
  const last = recordings.at(-1);
  if (last === undefined) return "Requests of this key are not recorded: the key is not in the sample of traffic.";
  return `All its requests while it was recorded are known, last until ${text(last.until)}.`;
}
