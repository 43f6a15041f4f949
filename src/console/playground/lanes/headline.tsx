/** The result in one sentence with its numbers: the strategy with the worst burst, and the one with the smallest. */
import { durationText, numberText, windowText } from "../../parts/text.ts";
import type { LaneLimit, LaneRun, WorstBurst } from "../model/scenario.ts";
import { burstMs } from "./lane-text.ts";
import { visibleRuns } from "./plots.ts";
import { laneText } from "./strategy-texts.ts";

interface LaneBurst {
  readonly lane: string;
  readonly title: string;
  readonly limit: LaneLimit;
  readonly burst: WorstBurst;
  readonly lengthMs: number;
}

/** The bursts of the first limit of each lane. Slots are counted at one instant, so they have no burst over a window. */
function burstsOf(runs: readonly LaneRun[]): LaneBurst[] {
  return runs.flatMap((run) => {
    const [limit] = run.limits;
    const [burst = null] = run.summary.worstBursts;
    if (limit === undefined || burst === null || limit.holdsSlots) return [];
    return [
      { lane: run.lane, title: laneText(run).title, limit, burst, lengthMs: burstMs(run, burst) },
    ];
  });
}

function headlineOf(runs: readonly LaneRun[]): string | null {
  const bursts = burstsOf(runs).toSorted((a, b) => b.burst.units - a.burst.units);
  const worst = bursts[0];
  const fewest = bursts.filter(({ burst }) => burst.units === bursts.at(-1)?.burst.units);
  // The exact strategy is the one to compare with.
  const least = fewest.find(({ lane }) => lane === "sliding-log") ?? fewest[0];
  if (worst === undefined || least === undefined) return null;
  const { limit, burst, title, lengthMs } = worst;
  const window = windowText(limit.windowMs);
  const span = lengthMs === 0 ? "at one instant" : `in ${durationText(lengthMs)}`;
  const bound = `the documented bound is ${numberText(limit.mostPerWindow)} per ${window}`;
  const first = `${title} let ${numberText(burst.units)} through ${span}; ${bound}.`;
  if (least.burst.units === burst.units) {
    return bursts.length === 1
      ? first
      : `Every strategy let at most ${numberText(burst.units)} through in any ${window}.`;
  }
  return `${first} ${least.title} let at most ${numberText(least.burst.units)} through in any ${window}.`;
}

export function Headline() {
  const text = headlineOf(visibleRuns.value);
  return (
    <p class="pg-headline" role="status">
      {text ?? "\u00A0"}
    </p>
  );
}
