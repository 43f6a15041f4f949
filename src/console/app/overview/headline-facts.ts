/** The facts of the first sentences of the overview. All of them are about one period. */
import type { LoggedKeysView, PolicyView, TopKeyList } from "../../../admin/wire.ts";
import { percentText, shortInstantText, timeText } from "../parts/text.ts";
import type { SpanTraffic } from "./spans.ts";
import { type CountedTraffic, type Numbers, numbersOf, shownTraffic } from "./traffic.ts";

interface PolicyShare {
  readonly policy: string;
  readonly count: number;
  readonly decisions: number;
}

export interface HeadlineFacts {
  /** Null when they are unknown. */
  readonly requests: Pick<Numbers, "denied" | "decisions"> | null;
  /** The policy that denied the largest number of requests, whatever its share. */
  readonly denying: PolicyShare | null;
  /** The dry run that would have denied most. */
  readonly dryRun: PolicyShare | null;
}

/** @param policy null for all policies */
export function factsOf(traffic: CountedTraffic, policy: string | null): HeadlineFacts {
  const { denied, decisions } = shownTraffic(traffic, policy).numbers;
  const isUnknown = policy === null && traffic.unknownUntilMs !== null && decisions === 0;
  const shares = [...traffic.policies]
    .filter(([name]) => policy === null || name === policy)
    .map(([name, { total }]) => ({ policy: name, ...numbersOf(total) }));
  const most = (count: (numbers: Numbers) => number): PolicyShare | null => {
    const [first] = shares.toSorted((one, other) => count(other) - count(one));
    if (first === undefined || count(first) === 0) return null;
    return { policy: first.policy, count: count(first), decisions: first.decisions };
  };
  return {
    requests: isUnknown ? null : { denied, decisions },
    denying: most((numbers) => numbers.denied),
    dryRun: most((numbers) => numbers.dryRunDenied),
  };
}

/** As in the statistics: a run of denials ends when the policy denies nothing for this time. */
const longestPauseMs = 5 * 60_000;
const dayMs = 86_400_000;

/** When denials began that still last at an instant, or when they ended. */
export type DenyingTime = { readonly sinceMs: number } | { readonly lastMs: number } | "longer than shown";

/** @returns null if the statistics do not have it: of each policy, they keep the latest run in the last 24 hours. */
export function denyingTimeOf(
  traffic: Pick<CountedTraffic, "countedFromMs" | "denialRuns" | "firsts">,
  policy: string,
  endMs: number,
  nowMs: number,
): DenyingTime | null {
  const run = traffic.denialRuns.get(policy);
  const { countedFromMs } = traffic;
  if (run !== undefined && run.sinceMs < endMs && run.lastMs >= countedFromMs) {
    return endMs - run.lastMs <= longestPauseMs ? { sinceMs: run.sinceMs } : { lastMs: run.lastMs };
  }
  // A control plane of an earlier version does not know the runs.
  const deniedAtMs = traffic.firsts.get(policy)?.deniedAtMs ?? null;
  if (run !== undefined || nowMs - countedFromMs > dayMs) return null;
  return deniedAtMs !== null && deniedAtMs > countedFromMs ? { sinceMs: deniedAtMs } : "longer than shown";
}

interface Ended {
  readonly span: Pick<SpanTraffic["span"], "stepMs">;
  readonly endMs: number;
}

/** "from 16:56 to 17:55": the period of all numbers of a screen. Live numbers change each second. */
export function countedPeriodText(fromMs: number, { span, endMs }: Ended, nowMs: number): string {
  const text = (atMs: number): string => (span.stepMs === null ? timeText(atMs) : shortInstantText(atMs, nowMs));
  return `from ${text(fromMs)} to ${text(endMs)}`;
}

/** The period of the numbers of a policy, or of all requests, which may be unknown at its beginning. */
export function countedPeriod(
  spanTraffic: Ended & Pick<SpanTraffic, "traffic">,
  policy: string | null,
  nowMs: number,
): string {
  const { traffic, endMs } = spanTraffic;
  const { countedFromMs, unknownUntilMs } = traffic;
  const knownFromMs = policy === null && unknownUntilMs !== null && unknownUntilMs < endMs ? unknownUntilMs : 0;
  return countedPeriodText(Math.max(countedFromMs, knownFromMs), spanTraffic, nowMs);
}

/**
 * The counts of steps of equal length up to the last step whose counts have arrived: the later ones are unknown. If these have
 * the only denials, they are kept.
 */
export function arrivedSteps(
  values: readonly (number | null)[],
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
  endMs: number,
): readonly (number | null)[] {
  const complete = Math.floor((values.length * (endMs - latestReportMs - fromMs)) / (toMs - fromMs));
  const hasCounts = values.some((value, step) => step < complete && (value ?? 0) > 0);
  return values.map((value, step) => (step < complete || (!hasCounts && (value ?? 0) > 0) ? value : null));
}

/** Isolates report after this time at the latest. */
const latestReportMs = 30_000;

/** A label such as `ip=203.0.113.7` without the name of its part, if the key has only one. */
export const shownKey = (label: string, { key }: Pick<PolicyView, "key">): string =>
  key.length === 1 ? label.replace(/^[^=]*=/, "") : label;

/**
 * The key that a policy denied most, and its share of the policy's denials; null unless they are logged. If the log does not
 * have all denials, the share is a lower bound, and the key is stated only if no other can have more.
 */
export function mostDeniedKey(
  top: TopKeyList | null,
  { policy, count }: Pick<PolicyShare, "policy" | "count">,
): { id: string; share: string } | null {
  const { period = null } = top?.policy === policy ? (top ?? {}) : {};
  const [first] = period?.keys ?? [];
  if (period === null || first === undefined || first.count > count) return null;
  const share = percentText(first.count, count);
  if (hasEveryDenial(period, count)) return { id: first.id, share };
  return 2 * first.count > count ? { id: first.id, share: `At least ${share}` } : null;
}

/** Whether the log of denials has exactly the denials that the statistics count. */
export const hasEveryDenial = ({ isComplete, denials }: LoggedKeysView, denied: number): boolean =>
  isComplete && denials === denied;
