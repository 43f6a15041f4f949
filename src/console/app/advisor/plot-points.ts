/** The candidates as points: the share that they deny against the worst burst that they admit. */
import type { Goal } from "../../../advisor/search/advice.ts";
import type { ShownAdvice, ShownCandidate } from "../replay/messages.ts";
import { limitsLine } from "./texts.ts";

/** Strategies differ in color and in shape. */
export const strategyMarks = {
  "fixed-window": { color: "--advisor-1", shape: "square" },
  "sliding-window-counter": { color: "--advisor-2", shape: "circle" },
  "sliding-log": { color: "--advisor-3", shape: "triangle" },
  "token-bucket": { color: "--advisor-4", shape: "diamond" },
  other: { color: "--text", shape: "cross" },
} as const;

export type MarkName = keyof typeof strategyMarks;
export type Shape = (typeof strategyMarks)[MarkName]["shape"];

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

/** Where the goal ends on an axis; null for goals that are on none. */
export function goalLine(goal: Goal): { readonly axis: "share" | "burst"; readonly at: number } | null {
  if (goal.kind === "denied-requests") return { axis: "share", at: goal.mostShare };
  return goal.kind === "origin-rate" ? { axis: "burst", at: goal.mostPerSecond } : null;
}

interface PlacedPoint {
  readonly left: number;
  readonly top: number;
}

/** As large as a finger. */
const nearPx = 24;

/** The index of the point that is nearest to the pointer; null for none near it. */
export function nearestPoint(places: readonly PlacedPoint[], { left, top }: PlacedPoint): number | null {
  let nearest: number | null = null;
  let least = nearPx;
  for (const [index, place] of places.entries()) {
    const distance = Math.hypot(place.left - left, place.top - top);
    if (distance <= least) [nearest, least] = [index, distance];
  }
  return nearest;
}

/** The content of the plot in one sentence. */
export function plotSummary(points: readonly PlotPoint[]): string {
  const candidates = points.filter(({ candidate }) => candidate !== null);
  const recommended = points.find(({ isRecommended }) => isRecommended);
  const end = recommended === undefined ? "" : `; recommended: ${recommended.label}`;
  return `${candidates.length} candidates${end}. The table below has their numbers.`;
}
