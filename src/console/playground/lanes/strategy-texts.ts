/** The title of each lane, and a short explanation of its strategy. */
import type { LaneRun } from "../model/scenario.ts";

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
