/** The facts of the first sentences of the overview. All of them are about one period. */
import type { LoggedKeysView, PolicyView, TopKeyList } from "../../../admin/wire.ts";
import { instantText, percentText, shortInstantText } from "../parts/text.ts";
import type { TimeSpan } from "./spans.ts";
import { type CountedTraffic, type Numbers, numbersOf, requestsName, shownTraffic } from "./traffic.ts";

interface PolicyShare {
  readonly policy: string;
  readonly count: number;
  readonly decisions: number;
}

export interface HeadlineFacts {
  /** Null when they are unknown. */
  readonly requests: Pick<Numbers, "denied" | "decisions"> | null;
  /** When the first request within the period was counted. Null when it is not known. */
  readonly firstAtMs: number | null;
  /** When the policy in `denying` first denied, if that was after the first counts. */
  readonly denyingSinceMs: number | null;
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
  const denying = most((numbers) => numbers.denied);
  const firstAtMs = traffic.firsts.get(policy ?? requestsName)?.atMs ?? null;
  const deniedAtMs = denying && (traffic.firsts.get(denying.policy)?.deniedAtMs ?? null);
  return {
    requests: isUnknown ? null : { denied, decisions },
    firstAtMs,
    denyingSinceMs: (deniedAtMs ?? 0) > Math.max(traffic.countedFromMs, firstAtMs ?? 0) ? deniedAtMs : null,
    denying,
    dryRun: most((numbers) => numbers.dryRunDenied),
  };
}

type Counted = Pick<CountedTraffic, "toMs" | "countedFromMs" | "unknownUntilMs">;

/**
 * The words of the span if its first minute has requests. Otherwise since when there are any, or since when they are known.
 * Live traffic begins with a whole minute, which is always stated.
 */
export function wordsOf(
  { countedFromMs, unknownUntilMs, toMs }: Counted,
  { words, stepMs, range }: Pick<TimeSpan, "words" | "stepMs" | "range">,
  firstAtMs: number | null,
  nowMs: number,
): string {
  const isKnown = unknownUntilMs === null || unknownUntilMs >= toMs;
  const beganMs = Math.max(isKnown ? countedFromMs : unknownUntilMs, firstAtMs ?? 0);
  if (beganMs === countedFromMs && stepMs !== null) return words;
  const began = shortInstantText(beganMs, nowMs);
  return range === null ? `since ${began}` : `from ${began} to ${instantText(range.toMs)}`;
}

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
