/** The facts of the first sentences of the overview: how many requests were denied, by which policy, and since when. */
import type { PolicyView } from "../../../admin/wire.ts";
import type { TimeRange } from "../parts/plot-data.ts";
import { shortInstantText } from "../parts/text.ts";
import { type CountedTraffic, type Numbers, numbersOf, shownTraffic } from "./traffic.ts";

interface PolicyShare {
  readonly policy: string;
  readonly count: number;
  readonly decisions: number;
}

export interface HeadlineFacts {
  /** Null when they are unknown. */
  readonly requests: Pick<Numbers, "denied" | "decisions"> | null;
  /** The policy that denied most. */
  readonly denying: PolicyShare | null;
  /** "since 09:41", "from 09:41 to 09:58"; null when it is unknown. */
  readonly run: string | null;
  /** The dry run that would have denied most. */
  readonly dryRun: PolicyShare | null;
}

/** A run of denials ends after this pause. */
const longestPauseMs = 5 * 60_000;

/** @param policy null for all policies */
export function factsOf(traffic: CountedTraffic, policy: string | null, nowMs: number): HeadlineFacts {
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
  const denying = most((numbers) => numbers.denied);
  return {
    requests: isUnknown ? null : { denied, decisions },
    denying,
    run: denying && runText(traffic, denying.policy, nowMs),
    dryRun: most((numbers) => numbers.dryRunDenied),
  };
}

/** A run outside of the shown span is left out: the policy denies again, or was denying earlier. */
function runText({ denialRuns, fromMs, toMs }: CountedTraffic, policy: string, nowMs: number): string | null {
  const run = denialRuns.find((each) => each.policy === policy);
  if (run === undefined) return null;
  const sinceMs = Date.parse(run.since);
  const lastMs = Date.parse(run.last);
  if (sinceMs > toMs || lastMs < fromMs) return null;
  const since = shortInstantText(sinceMs, nowMs);
  if (nowMs - lastMs <= longestPauseMs) return `since ${since}`;
  const last = shortInstantText(lastMs, nowMs);
  return since === last ? `at ${since}` : `from ${since} to ${last}`;
}

/** The start of the known requests, in place of that of the span, if some of them are unknown. */
export const wordsOf = (
  { unknownUntilMs, toMs }: Pick<CountedTraffic, "unknownUntilMs" | "toMs">,
  words: string,
  nowMs: number,
): string =>
  unknownUntilMs === null || unknownUntilMs >= toMs ? words : `since ${shortInstantText(unknownUntilMs, nowMs)}`;

/** A label such as `ip=203.0.113.7` without the name of its part, if the key has only one. */
export const shownKey = (label: string, { key }: Pick<PolicyView, "key">): string =>
  key.length === 1 ? label.replace(/^[^=]*=/, "") : label;

/** The lists of denied keys begin with a whole hour, and end now. */
const hourMs = 3_600_000;

/** Whether lists that end now describe the span. */
export const endsNow = (range: TimeRange | null, nowMs: number): boolean =>
  range === null || range.toMs > nowMs - hourMs;
