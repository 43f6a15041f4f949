/** The decisions of a policy in the last hour, and those since its dry run began. */
import type { Mode, Outcome, Policy, Statistics } from "../api/answers.ts";
import { numberText, percentText, timeText } from "../parts/text.ts";

export interface Decisions {
  readonly all: number;
  readonly denied: number;
  /** Denials that a dry run left out. */
  readonly wouldBeDenied: number;
}

/** As in the overview, decisions by `onError` are none of them. */
const denials: readonly Outcome[] = ["denied", "banned", "blocked"];

export function decisionsOf(
  { points }: Pick<Statistics, "points">,
  policy: string,
  fromMs = Number.NEGATIVE_INFINITY,
): Decisions {
  const counts = points
    .filter((point) => point.policy === policy && Date.parse(point.at) >= fromMs)
    .flatMap(({ outcomes }) => Object.entries(outcomes));
  const sum = (isCounted: (outcome: string) => boolean): number =>
    counts.reduce((total, [outcome, count]) => total + (isCounted(outcome) ? count : 0), 0);
  return {
    all: sum(() => true),
    denied: sum((outcome) => denials.some((each) => each === outcome)),
    wouldBeDenied: sum((outcome) => outcome === "dry-run-denied"),
  };
}

const requests = (count: number): string => `${numberText(count)} ${count === 1 ? "request" : "requests"}`;

export const requestsText = ({ all }: Pick<Decisions, "all">, span = "in the last hour"): string =>
  `${requests(all)} ${span}`;

/** The number of requests with the share of denials, and of those that a dry run left out. */
export function decisionsText(decisions: Decisions, mode: Mode, span?: string): string {
  const { all, denied, wouldBeDenied } = decisions;
  if (all === 0) return "No requests in the last hour.";
  const share = (part: number): string => `${numberText(part)} (${percentText(part, all)})`;
  const parts: string[] = [];
  if (denied > 0 || mode === "enforce") parts.push(`${share(denied)} denied`);
  if (wouldBeDenied > 0 || mode === "dry-run") {
    parts.push(`${share(wouldBeDenied)} would have been denied`);
  }
  return `${[requestsText(decisions, span), ...parts].join(", ")}.`;
}

const minuteMs = 60_000;
/** Running instances of the Worker decide by a new mode within this time. */
const propagationMs = 5_000;

/**
 * The decisions of the last hour, or those since the dry run began if it is shorter: the denials before it would make the
 * share of would-be denials too small. Statistics have whole minutes, so the share waits for the first one after the change.
 */
export function modeDecisionsText(
  statistics: Pick<Statistics, "points" | "from" | "to">,
  { name, mode, rules }: Pick<Policy, "name" | "mode" | "rules">,
): string {
  const rule = rules.find(({ id }) => id === mode.rule);
  const setMs = mode.value === "dry-run" ? Date.parse(rule?.appliedAt ?? "") : Number.NaN;
  if (!(setMs > Date.parse(statistics.from))) {
    return decisionsText(decisionsOf(statistics, name), mode.value);
  }
  const wholeMs = Math.ceil((setMs + propagationMs) / minuteMs) * minuteMs;
  const decisions = decisionsOf(statistics, name, wholeMs);
  if (decisions.all > 0) return decisionsText(decisions, mode.value, `since ${timeText(wholeMs)}`);
  const beganMs = Math.floor(setMs / minuteMs) * minuteMs;
  const { wouldBeDenied } = decisionsOf(statistics, name, beganMs);
  const share = Date.parse(statistics.to) <= wholeMs ? ` Their share is counted from ${timeText(wholeMs)}.` : "";
  return `${requests(wouldBeDenied)} would have been denied since ${timeText(beganMs)}.${share}`;
}
