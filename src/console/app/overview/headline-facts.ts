/** The facts of the first sentences of the overview. All of them are about one period. */
import type { PolicyView, TopKeyList } from "../../../admin/wire.ts";
import type { TimeRange } from "../parts/plot-data.ts";
import { percentText, shortInstantText } from "../parts/text.ts";
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

/** The words of the span, or the start of what is counted if that is earlier, or known only from later on. */
export function wordsOf(
  { countedFromMs, fromMs, unknownUntilMs, toMs }: TimeRange & Pick<CountedTraffic, "countedFromMs" | "unknownUntilMs">,
  words: string,
  nowMs: number,
): string {
  const isKnown = unknownUntilMs === null || unknownUntilMs >= toMs;
  if (isKnown && countedFromMs === fromMs) return words;
  return `since ${shortInstantText(isKnown ? countedFromMs : unknownUntilMs, nowMs)}`;
}

/** A label such as `ip=203.0.113.7` without the name of its part, if the key has only one. */
export const shownKey = (label: string, { key }: Pick<PolicyView, "key">): string =>
  key.length === 1 ? label.replace(/^[^=]*=/, "") : label;

/** The key that a policy denied most, and its share of the policy's denials; null unless all of them are logged. */
export function mostDeniedKey(top: TopKeyList | null, policy: string): { id: string; share: string } | null {
  const { period = null } = top?.policy === policy ? (top ?? {}) : {};
  const [first] = period?.keys ?? [];
  if (period === null || !period.isComplete || first === undefined) return null;
  return { id: first.id, share: percentText(first.count, period.denials) };
}
