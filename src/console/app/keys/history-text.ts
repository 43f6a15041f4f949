/** The words that say where the history of a key comes from, and its plot. */
import type { KeyHistory } from "../../../admin/wire.ts";
import { lineLooks } from "../overview/traffic-plot.tsx";
import { lines, newTally, numbersOf, tallyOf } from "../overview/traffic.ts";
import type { PlotData, TimeRange } from "../parts/plot-data.ts";
import { instantText, numberText, percentText } from "../parts/text.ts";

const none = { nearLimit: 0, latency: [], latencySumMs: 0 };

/** The counts of the points, and those of a step without requests if there is no point. */
function numbersAt(points: KeyHistory["points"], policy: string) {
  const numbers = new Map(
    points.map(({ at, outcomes }) => [Date.parse(at), numbersOf(tallyOf({ at, policy, outcomes, ...none }, 0))]),
  );
  const zeros = numbersOf(newTally(0));
  return (atMs: number) => numbers.get(atMs) ?? zeros;
}

/** The spans of time in which every request of the key is known, or its sampled share. */
export function knownRanges({ sample, recordings, to }: KeyHistory): readonly TimeRange[] {
  const toMs = Date.parse(to);
  const recorded = recordings.map(({ from, until }) => ({
    fromMs: Date.parse(from),
    toMs: Math.min(toMs, Date.parse(until)),
  }));
  return sample === null ? recorded : [...recorded, { fromMs: Date.parse(sample.from), toMs }];
}

/** Steps outside of the known ranges have no value. */
export function plotOf(history: KeyHistory): PlotData {
  const { stepMs, points, policy } = history;
  const fromMs = Date.parse(history.from);
  const toMs = Date.parse(history.to);
  const firstMs = Math.floor(fromMs / stepMs) * stepMs;
  const times = Array.from({ length: Math.ceil((toMs - firstMs) / stepMs) }, (_, index) => firstMs + index * stepMs);
  const ranges = knownRanges(history);
  const isKnown = (atMs: number): boolean => ranges.some((each) => atMs + stepMs > each.fromMs && atMs < each.toMs);
  const at = numbersAt(points, policy);
  const series = lines
    .filter((line) => line === "allowed" || line === "denied" || times.some((atMs) => at(atMs)[line] > 0))
    .map((line) => ({
      ...lineLooks[line],
      values: times.map((atMs) => (isKnown(atMs) ? at(atMs)[line] : null)),
    }));
  return { fromMs, toMs, times, stepMs, longSteps: [], series };
}

/** The plot in words. */
export function totalText(history: KeyHistory): string {
  const at = numbersAt(history.points, history.policy);
  const all = history.points.map((point) => at(Date.parse(point.at)));
  const sum = (line: "allowed" | "denied"): string => numberText(all.reduce((total, each) => total + each[line], 0));
  return `Allowed ${sum("allowed")}, denied ${sum("denied")}.`;
}

/** One sentence: which requests the plot has, and since when. */
export function basisText({ sample, recordings, recording }: KeyHistory): string {
  if (sample !== null) {
    const part = sample.coverage < 0.995 ? `${percentText(sample.coverage, 1)} of the requests` : "all requests";
    return `From ${part} of this key since ${instantText(sample.from)}: the key is in the sample of traffic.`;
  }
  if (recording !== null)
    return `From all requests of this key since ${instantText(recording.from)}, when its recording began.`;
  const last = recordings.at(-1);
  if (last === undefined) return "Requests of this key are not recorded: the key is not in the sample of traffic.";
  return `From all requests of this key while it was recorded, last until ${instantText(last.until)}.`;
}
