/** The ratios between the contestants of a run, and whether they meet the goals. */
import { type Goal, goals } from "./goals.ts";
import type { LoadName } from "./load.ts";
import { pairedRatio, type Spread } from "./statistics.ts";
import { type MatchOutcome, perSecond } from "./turns.ts";

export interface Verdict extends Goal {
  /** Null when one of the two was not measured. */
  readonly ratio: Spread | null;
  readonly isMet: boolean | null;
}

export function judge(outcomes: readonly MatchOutcome[]): Verdict[] {
  return goals.map((goal) => {
    const ratio = ratioTo(outcomes, goal.of, goal.to, goal.load);
    if (ratio === null) return { ...goal, ratio, isMet: null };
    const isMet = goal.load === "loaded" ? ratio.median >= goal.bound : ratio.median <= goal.bound;
    return { ...goal, ratio, isMet };
  });
}

/** The ratio of request rates, or of p50 alone. Null if the two have no turns next to each other. */
export function ratioTo(
  outcomes: readonly MatchOutcome[],
  of: string,
  to: string,
  load: LoadName,
): Spread | null {
  const value = load === "loaded" ? perSecond : ({ p50Ms }: { p50Ms: number }): number => p50Ms;
  const pairs = outcomes
    .filter(({ match }) => match.subject === of && match.load === load)
    .flatMap(({ rounds }) => rounds)
    .flatMap((turns) => {
      const [ours, theirs] = [turns.get(of), turns.get(to)];
      return ours === undefined || theirs === undefined
        ? []
        : [[value(ours), value(theirs)] as const];
    });
  return pairs.length === 0 ? null : pairedRatio(pairs);
}
