/** The ratios between the contestants of a run, and whether they meet the goals. */
import { cpuUsPerRequest } from "./cpu.ts";
import { type Goal, goals } from "./goals.ts";
import type { LoadName } from "./load.ts";
import { pairedRatio, type Spread } from "./statistics.ts";
import { type MatchOutcome, type MeasuredTurn, perSecond } from "./turns.ts";

export interface Verdict extends Goal {
  /** Null when one of the two contestants was not measured. */
  readonly ratio: Spread | null;
  readonly isMet: boolean | null;
  /**
   * The ratio of the processor times per request, above 1 if Headgate uses less. On a busy machine, this ratio is
   * steadier than that of the rates. Null for one request at a time, and when processor times are not reported.
   */
  readonly byCpu: number | null;
}

export function judge(outcomes: readonly MatchOutcome[]): Verdict[] {
  return goals.map((goal) => {
    const pairs = pairsOf(outcomes, goal.of, goal.to, goal.load);
    const ratio = ratioIn(pairs, goal.load);
    const byCpu = goal.load === "loaded" ? cpuRatioIn(pairs) : null;
    if (ratio === null) return { ...goal, ratio, isMet: null, byCpu };
    const isMet = goal.load === "loaded" ? ratio.median >= goal.bound : ratio.median <= goal.bound;
    return { ...goal, ratio, isMet, byCpu };
  });
}

/** The ratio of request rates under load. Null if the two contestants have no turns next to each other. */
export const rateRatio = (outcomes: readonly MatchOutcome[], of: string, to: string): Spread | null =>
  ratioIn(pairsOf(outcomes, of, to, "loaded"), "loaded");

type Pair = readonly [ours: MeasuredTurn, theirs: MeasuredTurn];

/** The turns of two contestants in the same match and round. */
const pairsOf = (outcomes: readonly MatchOutcome[], of: string, to: string, load: LoadName): Pair[] =>
  outcomes
    .filter(({ match }) => match.subject === of && match.load === load)
    .flatMap(({ rounds }) => rounds)
    .flatMap((turns): Pair[] => {
      const [ours, theirs] = [turns.get(of), turns.get(to)];
      return ours === undefined || theirs === undefined ? [] : [[ours, theirs]];
    });

function ratioIn(pairs: readonly Pair[], load: LoadName): Spread | null {
  if (pairs.length === 0) return null;
  const value = load === "loaded" ? perSecond : ({ p50Ms }: MeasuredTurn): number => p50Ms;
  return pairedRatio(pairs.map(([ours, theirs]) => [value(ours), value(theirs)]));
}

function cpuRatioIn(pairs: readonly Pair[]): number | null {
  const ours = cpuUsPerRequest(pairs.map(([turn]) => turn));
  const theirs = cpuUsPerRequest(pairs.map(([, turn]) => turn));
  return ours === null || theirs === null ? null : theirs / ours;
}
