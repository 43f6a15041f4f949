/** The decisions of a policy in the last hour. */
import type { Mode, Outcome, Statistics } from "../api/answers.ts";
import { numberText, percentText } from "../parts/text.ts";

export interface Decisions {
  readonly all: number;
  readonly denied: number;
  /** Denials that a dry run left out. */
  readonly wouldBeDenied: number;
}

/** As in the overview, decisions by `onError` are none of them. */
const denials: readonly Outcome[] = ["denied", "banned", "blocked"];

export function decisionsOf({ points }: Pick<Statistics, "points">, policy: string): Decisions {
  const counts = points
    .filter((point) => point.policy === policy)
    .flatMap(({ outcomes }) => Object.entries(outcomes));
  const sum = (isCounted: (outcome: string) => boolean): number =>
    counts.reduce((total, [outcome, count]) => total + (isCounted(outcome) ? count : 0), 0);
  return {
    all: sum(() => true),
    denied: sum((outcome) => denials.some((each) => each === outcome)),
    wouldBeDenied: sum((outcome) => outcome === "dry-run-denied"),
  };
}

export const requestsText = ({ all }: Pick<Decisions, "all">): string =>
  `${numberText(all)} ${all === 1 ? "request" : "requests"} in the last hour`;

/** The number of requests with the share of denials, and of those that a dry run left out. */
export function decisionsText(decisions: Decisions, mode: Mode): string {
  const { all, denied, wouldBeDenied } = decisions;
  if (all === 0) return "No requests in the last hour.";
  const share = (part: number): string => `${numberText(part)} (${percentText(part, all)})`;
  const parts: string[] = [];
  if (denied > 0 || mode === "enforce") parts.push(`${share(denied)} denied`);
  if (wouldBeDenied > 0 || mode === "dry-run") {
    parts.push(`${share(wouldBeDenied)} would have been denied`);
  }
  return `${[requestsText(decisions), ...parts].join(", ")}.`;
}
