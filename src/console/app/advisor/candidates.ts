/** The candidates of the advisor in words, as points of the plot, and in the URL. */
import type { Estimate, Goal } from "../../../advisor/search/goal.ts";
import type { FullLimit } from "../../../admin/wire.ts";
import { limitsLine } from "../policies/texts.ts";
import { countOf, durationText, numberText } from "../parts/text.ts";
import type { KnownSamples, ShownAdvice, ShownCandidate } from "../replay/messages.ts";
import type { Query } from "../shell/route.ts";

/**
 * About keys, because a few clients often send much of the traffic: then no limit can be shown to deny few requests. Some
 * hundred keys are enough for it.
 */
export const defaultGoal = "deny at most 1 key in 100";

/** As many digits as the sentences of the advisor have, so that both show the same number. */
const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });

/** "0.043 %", "12 %". */
export function shareText(share: number): string {
  const percent = 100 * share;
  return percent > 0 && percent < 0.001 ? "< 0.001 %" : `${digits.format(percent)} %`;
}

/** "0.043 % (0.02 to 0.1 %)". A range of 0 to 100 % would say nothing. */
export function shareEstimateText({ value, low, high }: Estimate): string {
  if (low === high) return shareText(value);
  if (low <= 0 && high >= 1) return `${shareText(value)} (sample too small for a range)`;
  return `${shareText(value)} (${shareText(low).replace(" %", "")} to ${shareText(high)})`;
}

/** "240 (180 to 310)". */
export function countEstimateText({ value, low, high }: Estimate): string {
  if (low === high) return rounded(value);
  return `${rounded(value)} (${rounded(low)} to ${rounded(high)})`;
}

const rounded = (value: number): string => numberText(Math.round(value));

/** "Based on 41 of about 2,600 keys (1 in 64) with 12,345 requests in 3 h 20 min, until 2 min ago." */
export function samplesText(samples: KnownSamples, nowMs: number): string {
  const { keys, arrivals, coverage, source } = samples;
  const ofAll =
    source.oneKeyIn === 1
      ? `${keys === 1 ? "" : "all "}${countOf(keys, "key")}`
      : `${numberText(keys)} of about ${roughText(keys * source.oneKeyIn)} keys (1 in ${numberText(source.oneKeyIn)})`;
  const traffic = `${ofAll} with ${countOf(arrivals, "request")} in ${durationText(source.toMs - source.fromMs)}`;
  const lost = coverage < 1 ? ` Only ${coverageText(coverage)} of the requests of these keys were recorded.` : "";
  return `Based on ${traffic}, ${ageText(samples, nowMs)}.${lost}`;
}

/** Never rounds up to 100 %. */
const coverageText = (coverage: number): string => `${Math.min(99.9, Math.floor(1_000 * coverage) / 10)} %`;

const ageText = ({ storedAtMs }: KnownSamples, nowMs: number): string =>
  storedAtMs === null ? "none stored yet" : `until ${agoText(nowMs - storedAtMs)}`;

const minuteMs = 60_000;

/** Rounds down to whole minutes, so that the text does not change each second. */
const agoText = (agoMs: number): string =>
  agoMs < minuteMs ? "less than a minute ago" : `${durationText(minuteMs * Math.floor(agoMs / minuteMs))} ago`;

/** Two digits: the number of all keys is estimated. */
const roughText = (count: number): string => {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(1, count))) - 1);
  return numberText(unit * Math.round(count / unit));
};

/** Isolates with traffic report every few seconds, so samples that are older show that none arrive. */
const oldMs = 900_000;
export const areOld = ({ storedAtMs }: KnownSamples, nowMs: number): boolean =>
  storedAtMs !== null && nowMs - storedAtMs > oldMs;

/** Strategies differ in color and in shape. */
export const strategyMarks = {
  "fixed-window": { color: "--advisor-1", shape: "square" },
  "sliding-window-counter": { color: "--advisor-2", shape: "circle" },
  "sliding-log": { color: "--advisor-3", shape: "triangle" },
  "token-bucket": { color: "--advisor-4", shape: "diamond" },
  other: { color: "--text", shape: "cross" },
} as const;

export type MarkName = keyof typeof strategyMarks;

export interface PlotPoint {
  /** From 0 to 1. */
  readonly share: number;
  readonly burst: number;
  readonly mark: MarkName;
  readonly label: string;
  /** Index of the candidate; null for limits that are no candidate. */
  readonly candidate: number | null;
  readonly isSelected: boolean;
  readonly isRecommended: boolean;
}

const isMark = (name: string): name is MarkName => Object.hasOwn(strategyMarks, name);
const markOf = (strategy: string): MarkName => (isMark(strategy) ? strategy : "other");

interface OtherPoints {
  /** The limits in effect now; null before their replay. */
  readonly inEffect: ShownCandidate | null;
  /** The selected candidate with the limit of the slider; null while it is unchanged. */
  readonly changed: ShownCandidate | null;
  readonly selected: number | null;
}

export function pointsOf(
  { candidates, recommendation }: ShownAdvice,
  { inEffect, changed, selected }: OtherPoints,
): readonly PlotPoint[] {
  const recommended = recommendation.kind === "recommended" ? recommendation.candidate : null;
  const own = candidates.map((candidate, index) => ({
    ...placeOf(candidate),
    mark: markOf(candidate.strategy),
    label: limitsLine(candidate.limits),
    candidate: index,
    isSelected: index === selected && changed === null,
    isRecommended: index === recommended,
  }));
  return [
    ...own,
    ...(inEffect === null ? [] : [otherPoint(inEffect, "In effect now", false)]),
    ...(changed === null ? [] : [otherPoint(changed, "Changed", true)]),
  ];
}

const otherPoint = (candidate: ShownCandidate, name: string, isSelected: boolean): PlotPoint => ({
  ...placeOf(candidate),
  mark: isSelected ? markOf(candidate.strategy) : "other",
  label: `${name}: ${limitsLine(candidate.limits)}`,
  candidate: null,
  isSelected,
  isRecommended: false,
});

const placeOf = ({ deniedShare, worstBurst }: ShownCandidate) => ({
  share: deniedShare.value,
  burst: worstBurst.value,
});

/** The position of the goal on an axis; null for a goal that no axis shows. */
export function goalLine(goal: Goal): { readonly axis: "share" | "burst"; readonly at: number } | null {
  if (goal.kind === "denied-requests") return { axis: "share", at: goal.mostShare };
  return goal.kind === "origin-rate" ? { axis: "burst", at: goal.mostPerSecond } : null;
}

interface Place {
  readonly left: number;
  readonly top: number;
}

/** The distance within which a finger hits a point. */
const nearPx = 24;

/** The index of the point that is nearest to the pointer; null for none near it. */
export function nearestPoint(places: readonly Place[], { left, top }: Place): number | null {
  let nearest: number | null = null;
  let least = nearPx;
  for (const [index, place] of places.entries()) {
    const distance = Math.hypot(place.left - left, place.top - top);
    if (distance <= least) [nearest, least] = [index, distance];
  }
  return nearest;
}

export function plotSummary(points: readonly PlotPoint[]): string {
  const candidates = points.filter(({ candidate }) => candidate !== null);
  const recommended = points.find(({ isRecommended }) => isRecommended);
  const end = recommended === undefined ? "" : `; recommended: ${recommended.label}`;
  return `${candidates.length} candidates${end}. The table below has their numbers.`;
}

/** "sliding-log 120/60000": strategy, units and window. */
const nameOf = ({ strategy, limits: [first] }: ShownCandidate): string =>
  `${strategy} ${first?.limit ?? 0}/${first?.windowMs ?? 0}`;

const familyOf = (name: string): string => name.replace(/ \d+\//, " ");

/** A new goal has other candidates, so the selection is removed from the URL. */
export const noSelection: Query = { candidate: undefined, limit: undefined };

export const queryOf = (candidate: ShownCandidate, units?: number): Query => ({
  candidate: nameOf(candidate),
  limit: units === candidate.limits[0]?.limit ? undefined : units,
});

/**
 * The index of the candidate that the URL names. Newer samples may give that candidate another number of units. If the
 * URL names none, it is the index of the recommended candidate; null if no candidate is recommended.
 */
export function chosenIn({ candidates, recommendation }: ShownAdvice, query: URLSearchParams): number | null {
  const chosen = query.get("candidate") ?? "";
  const exact = candidates.findIndex((candidate) => nameOf(candidate) === chosen);
  if (exact !== -1) return exact;
  const similar = candidates.findIndex((candidate) => familyOf(nameOf(candidate)) === familyOf(chosen));
  if (similar !== -1) return similar;
  return recommendation.kind === "recommended" ? recommendation.candidate : null;
}

/** Units per window of the slider. */
export function unitsIn({ limits }: ShownCandidate, query: URLSearchParams): number {
  const own = limits[0]?.limit ?? 1;
  const given = Number(query.get("limit") ?? own);
  return Number.isSafeInteger(given) && given > 0 ? given : own;
}

/** Numbers that people choose. */
const mantissas = [1, 1.2, 1.5, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9] as const;
/** The slider reaches from a tenth of the limit to ten times as much. */
const reach = 10;

/** The steps of the slider in ascending order, including the limit itself. */
export function stepsAround(limit: number): readonly number[] {
  const [least, most] = [Math.max(1, Math.ceil(limit / reach)), limit * reach];
  const steps = new Set([limit]);
  for (let unit = 1; unit <= most; unit *= 10) {
    for (const mantissa of mantissas) {
      const step = mantissa * unit;
      if (Number.isInteger(step) && step >= least && step <= most) steps.add(step);
    }
  }
  return [...steps].toSorted((one, other) => one - other);
}

export const nearestStep = (steps: readonly number[], value: number): number =>
  steps.reduce(
    (best, step, index) => (Math.abs(step - value) < Math.abs((steps[best] ?? 0) - value) ? index : best),
    0,
  );

/** Sets the units of the first limit. The burst keeps its ratio to the limit, and all other limits stay the same. */
export const withLimit = ([first, ...others]: readonly FullLimit[], units: number): readonly FullLimit[] => {
  if (first === undefined) return others;
  const { limit, burst } = first;
  const scaled = {
    ...first,
    limit: units,
    ...(burst !== undefined && { burst: Math.max(1, Math.round((burst * units) / limit)) }),
  };
  return [scaled, ...others];
};
