/** A lane in words: its strategy, its limits and bounds, and the headline of the results. */
import { waitText } from "../../../strategies/index.ts";
import { limitText, numberText, windowText } from "../../app/parts/text.ts";
import { type LaneLimit, writtenLane } from "../model/lanes.ts";
import type { LaneRun } from "../model/run.ts";
import type { WorstBurst } from "../model/summary.ts";

/** "200 per minute", "4 at once". */
export const burstText = ({ windowMs, holdsSlots }: LaneLimit, units: number): string =>
  holdsSlots ? `${numberText(units)} at once` : `${numberText(units)} per ${windowText(windowMs)}`;

/** For example "100 per minute" for each limit. The name is added if several limits have the same text. */
export function limitLabels(limits: readonly LaneLimit[]): readonly string[] {
  const texts = limits.map(limitText);
  return texts.map((text, index) =>
    texts.indexOf(text) === texts.lastIndexOf(text) ? text : `${text} (${limits[index]?.name})`,
  );
}

/**
 * For example "bound is 2L = 200", where L is the limit. If the capacity of a bucket differs from L, the bound is burst
 * + L.
 */
export function boundText({ limit, capacity, mostPerWindow }: LaneLimit): string {
  if (capacity !== limit && mostPerWindow === capacity + limit)
    return `bound is burst + L = ${numberText(mostPerWindow)}`;
  const times = mostPerWindow / limit;
  const formula = Number.isInteger(times) ? `${times === 1 ? "" : times}L = ` : "";
  return `bound is ${formula}${numberText(mostPerWindow)}`;
}

/** The plot of a lane for people who cannot see it. */
export function summaryText(run: LaneRun): string {
  const { title } = laneText(run);
  const { summary, limits } = run;
  const { allowed, denied, delayed, longestWaitMs, deniedKeys, worstBursts } = summary;
  const bursts = limits.flatMap((limit, index) => {
    const burst = worstBursts[index];
    if (burst === undefined || burst === null) return [];
    const bound = burstText(limit, limit.mostPerWindow);
    return [`worst burst ${burstText(limit, burst.units)}, documented bound ${bound}`];
  });
  return [
    `${title}: ${numberText(allowed)} requests allowed, ${numberText(denied)} denied`,
    ...(delayed > 0 ? [`${numberText(delayed)} waited, the longest ${waitText(longestWaitMs)}`] : []),
    ...(deniedKeys > 1 ? [`${numberText(deniedKeys)} clients were denied`] : []),
    ...bursts,
  ].join("; ");
}

interface StrategyText {
  readonly title: string;
  readonly text: string;
}

const strategyTexts: Readonly<Record<string, StrategyText>> = {
  "sliding-window-counter": {
    title: "Sliding window counter",
    text: "Keeps the counts of two windows, and weights the previous one by its overlap with the last window. It is small, but it assumes that the previous requests were evenly spread.",
  },
  "sliding-log": {
    title: "Sliding log",
    text: "Keeps the time of every allowed request. It is exact: no span of one window has more than the limit. Its memory grows with the limit.",
  },
  "sliding-buckets": {
    title: "Sliding buckets",
    text: "Cuts the window into equal buckets and counts each. No window has more than the limit, but a request can count up to one bucket too long.",
  },
  "fixed-window": {
    title: "Fixed window",
    text: "Counts one window after the other, each from zero. Around the boundary of two windows, twice the limit can pass.",
  },
  "token-bucket": {
    title: "Token bucket",
    text: "Each request takes a token, and tokens come back at a steady rate. After a pause, a full bucket and its refill can pass in one window.",
  },
  "leaky-bucket": {
    title: "Leaky bucket",
    text: "Requests leave at a steady rate. A burst waits in a queue, and is denied only when the queue is full.",
  },
  concurrency: {
    title: "Concurrency",
    text: "Counts requests in progress instead of requests per time. Each holds a slot until it ends.",
  },
};

const writtenText: StrategyText = {
  title: "As written",
  text: "All limits exactly as you wrote them. A request is allowed only if every limit allows it, and then it is charged to all.",
};

/** If all limits have one strategy, the lane of the limits as written has the text of that strategy. */
export function laneText({ lane, limits }: Pick<LaneRun, "lane" | "limits">): StrategyText {
  const [first, ...others] = new Set(limits.map(({ strategy }) => strategy));
  const isMixed = lane === "written" && (others.length > 0 || limits.length > 1);
  return isMixed ? writtenText : (strategyTexts[first ?? lane] ?? writtenText);
}

export const laneTitle = (name: string): string =>
  name === "written" ? writtenText.title : (strategyTexts[name]?.title ?? name);

interface LaneBurst {
  readonly run: LaneRun;
  readonly limit: LaneLimit;
  readonly burst: WorstBurst;
}

/** The bursts of the first limit of each lane. Slots are counted at one instant, so they have no burst over a window. */
function burstsOf(runs: readonly LaneRun[]): LaneBurst[] {
  return runs.flatMap((run) => {
    const [limit] = run.limits;
    const [burst = null] = run.summary.worstBursts;
    if (limit === undefined || burst === null || limit.holdsSlots) return [];
    return [{ run, limit, burst }];
  });
}

const isOver = ({ limit, burst }: LaneBurst): boolean => burst.units > limit.limit;

/** Whether a queue accepted the burst. A queue does not let it through at once. */
const isQueued = ({ run }: LaneBurst): boolean => run.summary.delayed > 0;

/**
 * The sentence about the worst bursts: first of the limits as written, then of a strategy that differs. Null without a
 * burst.
 */
export function headlineOf(runs: readonly LaneRun[]): string | null {
  const bursts = burstsOf(runs).toSorted((a, b) => b.burst.units - a.burst.units);
  const written = bursts.find(({ run }) => run.lane === writtenLane);
  if (written !== undefined && hidesBound(written.run))
    return `${mostText(written)} Its ${boundText(written.limit)}, which this traffic does not reach.`;
  const passed = bursts.filter((each) => !isQueued(each));
  const subject = written ?? passed[0];
  if (subject === undefined) return null;
  const fewest = passed.filter(({ burst }) => burst.units === passed.at(-1)?.burst.units);
  // If several strategies allow the least, the exact one is compared.
  const least = fewest.find(({ run }) => run.lane === "sliding-log") ?? fewest[0] ?? subject;
  const { units } = subject.burst;
  const most = passed.find(({ burst }) => burst.units > units);
  if (most !== undefined && !isOver(subject) && !isQueued(subject))
    return `${burstSentence(subject)} ${burstSentence(most)}`;
  if (least.burst.units < units) return `${burstSentence(subject)} ${burstSentence(least)}`;
  if (isOver(subject) || isQueued(subject) || passed.length === 1) return burstSentence(subject);
  const isSame = bursts.every(({ burst }) => burst.units === units);
  return mostText(subject, isSame ? "Every strategy" : "Every strategy without a queue");
}

function burstSentence(lane: LaneBurst): string {
  if (isQueued(lane)) return queueText(lane);
  return isOver(lane) ? excessText(lane) : mostText(lane);
}

function queueText({ run, limit, burst }: LaneBurst): string {
  const { delayed, longestWaitMs } = run.summary;
  const what = delayed === 1 ? "request" : "requests";
  const { title } = laneText(run);
  return `${title}: at most ${numberText(burst.units)} accepted in any ${windowText(limit.windowMs)}. ${numberText(delayed)} ${what} waited in its queue, for up to ${waitText(longestWaitMs)}.`;
}

const mostText = ({ run, limit, burst }: LaneBurst, title: string = laneText(run).title): string =>
  `${title}: at most ${numberText(burst.units)} in any ${windowText(limit.windowMs)}.`;

/** Whether this run hides that a fixed window can let more than its limit through. */
export const hidesBound = ({ limits: [limit], summary: { worstBursts } }: LaneRun): boolean =>
  limit?.strategy === "fixed-window" &&
  limit.mostPerWindow > limit.limit &&
  (worstBursts[0]?.units ?? 0) <= limit.limit;

function excessText({ run, limit, burst }: LaneBurst): string {
  const { rows, units, lengthMs, unitsByWindow } = burst;
  const what = rows.length === units ? "requests" : "units";
  const span = lengthMs === 0 ? "at one instant" : `within ${waitText(lengthMs)}`;
  const excess = units === 2 * limit.limit ? "twice" : `${numberText(units - limit.limit)} above`;
  const [before, after, ...others] = unitsByWindow.map(numberText);
  const parts =
    after === undefined || others.length > 0
      ? ""
      : `: ${before} at the end of one window and ${after} at the start of the next`;
  return `${laneText(run).title}: ${numberText(units)} ${what} passed ${span}, ${excess} the limit of ${limitText(limit)}${parts}. Its ${boundText(limit)}.`;
}
