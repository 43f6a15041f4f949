/** Sentences about samples and comparisons, and the plot of a comparison. */
import { now } from "../clock.ts";
import { countOf, durationText, instantText, numberText, percentText } from "../parts/text.ts";
import type { Comparison } from "../replay/compare.ts";
import type { KnownSamples } from "../replay/messages.ts";
import type { DecidedChange } from "./ways.ts";
import type { PlotSeries } from "../parts/plot-data.ts";

/** With fewer keys in the sample, its shares say little about all keys. */
const fewKeys = 30;
/** Samples are stale after this time, since isolates send them every few seconds. */
const silentMs = 300_000;

/** Why there is nothing to replay, and what to do about it; null when there is. */
export function noAnswer(
  { policy, sample, arrivals, source: { oneKeyIn, requests } }: KnownSamples,
  key: string | undefined,
): string | null {
  if (sample === "off") {
    return 'There is nothing to replay, because SAMPLE is "off". Set it to "1/64", deploy, and wait for some traffic.';
  }
  if (key !== undefined && !isInSample(key, oneKeyIn)) {
    return `This key is not in the sample, which has ${sampleName(oneKeyIn)}. The settings SAMPLE and "1/1" keep all keys.`;
  }
  if (arrivals > 0 || key !== undefined) return null;
  if ((requests ?? 0) === 0) {
    return `There is nothing to replay yet: policy ${policy} has counted no requests in the last 24 hours.`;
  }
  if (oneKeyIn === 1) {
    return "There is nothing to replay yet: the samples of the counted requests have not arrived. Wait for more traffic.";
  }
  return `There is nothing to replay yet: no key of the last 24 hours is in the sample, which has ${sampleName(oneKeyIn)}. If the policy has few keys, set SAMPLE to "1/1" and deploy.`;
}

const sampleName = (oneKeyIn: number): string => (oneKeyIn === 1 ? "all keys" : `1 key in ${numberText(oneKeyIn)}`);

/** Whether a key is sampled, which its first 24 bits decide. */
export function isInSample(id: string, oneKeyIn: number): boolean {
  const bytes = atob(id.slice(0, 4).replaceAll("-", "+").replaceAll("_", "/"));
  const prefix = [0, 1, 2].reduce((sum, index) => 256 * sum + bytes.charCodeAt(index), 0);
  return prefix < Math.floor(2 ** 24 / oneKeyIn);
}

/**
 * For example "Then: 120 of 4,300 requests denied, of 3 keys. Now: 12, of 1 key.", or for a key "From the last 10 min:
 * 617 requests. Then: 12 denied. Now: 480."
 */
export function changeSummary(comparison: Comparison, { titles, key }: Pick<DecidedChange, "titles" | "key">): string {
  const { requests, results } = comparison;
  if (requests === 0) return "The samples have no requests of the key.";
  const basis = key === undefined ? "" : `From ${periodText(comparison, key)}: ${countOf(requests, "request")}. `;
  const ofWay = (index: number, what: string): string => {
    const { denied = 0, deniedKeys = 0 } = results[index] ?? {};
    const keys = key === undefined && denied > 0 ? `, of ${countOf(deniedKeys, "key")}` : "";
    return `${titles[index] ?? ""}: ${numberText(denied)}${what}${keys}.`;
  };
  const last = results.length - 1;
  const ofAll = key === undefined ? ` of ${countOf(requests, "request")}` : "";
  return `${basis}${ofWay(last, `${ofAll} denied`)} ${ofWay(last - 1, "")}`;
}

/** The reasons why the numbers are less certain. */
export function warnings(
  known: Pick<KnownSamples, "coverage" | "storedAtMs">,
  { source, keys, requests }: Comparison,
  key?: string,
): readonly string[] {
  const { coverage, storedAtMs } = known;
  const { oneKeyIn, otherLimitsArrivals } = source;
  const ageMs = storedAtMs === null ? 0 : now() - storedAtMs;
  const texts: string[] = [];
  if (requests > 0 && key === undefined && oneKeyIn > 1 && keys < fewKeys) {
    texts.push(
      `Only ${countOf(keys, "key")} of the sample sent requests. This is too few to know the shares of all keys.`,
    );
  }
  if (ageMs > silentMs) {
    texts.push(
      `The control plane stored the newest samples ${durationText(ageMs)} ago. Requests since then are missing.`,
    );
  }
  if (coverage < 1) {
    texts.push(`${percentText(coverage, 1)} of the requests of sampled keys were recorded. The others are missing.`);
  }
  if (key === undefined && otherLimitsArrivals > 0) {
    texts.push(
      `${countOf(otherLimitsArrivals, "request")} that overrides or rules of keys decided ${otherLimitsArrivals === 1 ? "is" : "are"} left out.`,
    );
  }
  return texts;
}

/** The last known samples stay in use while newer ones cannot be read. */
export const olderText = ({ readAtMs }: Pick<KnownSamples, "readAtMs">, { message }: Error): string =>
  `These samples were read ${durationText(now() - readAtMs)} ago. Newer ones cannot be read: ${message}`;

/** The period in which a comparison counts: "the last 10 min", or "10 min until 22 Nov 2026, 18:30:00". */
export function periodText({ source: { fromMs, toMs } }: Pick<Comparison, "source">, key?: string): string {
  if (key === undefined) return "the last 24 hours";
  const length = durationText(toMs - fromMs);
  return now() - toMs < recentMs ? `the last ${length}` : `${length} until ${instantText(toMs)}`;
}

/** Isolates report every 30 seconds at the latest, and minutes without requests of the key are no part of the period. */
const recentMs = 150_000;

export function sampleText({ source, requests, keys }: Comparison, key?: string): string {
  const { fromMs, toMs, oneKeyIn } = source;
  const others = "Clients may have sent other requests after other answers.";
  if (key !== undefined) {
    return `Counted: ${countOf(requests, "request")} of the key, from ${instantText(fromMs)} to ${instantText(toMs)}. Its earlier requests of the last 24 hours were replayed, too, so that the limits have their usage. ${others}`;
  }
  const sampled = `${countOf(requests, "request")} of ${countOf(keys, "key")} in the sample, which has ${sampleName(oneKeyIn)}`;
  return `Replayed: ${sampled}, from ${instantText(fromMs)} to ${instantText(toMs)}, as if the change had been in effect all that time. ${others}`;
}

/** "0.1 to 0.6 %". */
export const rangeText = ({ low, high }: { readonly low: number; readonly high: number }): string => {
  const [from, to] = [percentText(low, 1), percentText(high, 1)];
  return from === to ? to : `${from.replace(" %", "")} to ${to}`;
};

const colors = ["--denied", "--accent", "--blocked"] as const;
const minuteMs = 60_000;

/** The plot of the denials. For the last way it also has a line with the denials if clients retry. */
export function denialsPlot({ results, source: { fromMs, toMs } }: Comparison, titles: readonly string[]) {
  const { startMs, stepMs, counts } = results.at(-1)?.denials ?? {
    startMs: fromMs,
    stepMs: minuteMs,
    counts: new Float64Array(),
  };
  const again = results.at(-1)?.retrying?.denials;
  const series = results
    .map(({ denials }, index): PlotSeries => ({
      label: titles[index] ?? "",
      color: colors[results.length - 1 - index] ?? "--dim",
      values: [...denials.counts],
    }))
    .concat(
      again === undefined
        ? []
        : [{ label: `${titles.at(-1) ?? ""}, if clients retry`, color: "--warning", values: [...again.counts] }],
    );
  return {
    title: `Denied requests per ${numberText(stepMs / minuteMs)} min`,
    summary: series.map((each) => `${each.label}: at most ${numberText(mostIn(each))}`).join("; "),
    data: {
      fromMs,
      toMs,
      times: [...counts.keys()].map((step) => startMs + step * stepMs),
      stepMs,
      longSteps: [],
      series,
    },
  };
}

const mostIn = ({ values }: PlotSeries): number =>
  values.reduce<number>((highest, value) => Math.max(highest, value ?? 0), 0);
