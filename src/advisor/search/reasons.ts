/** The sentences of a recommendation. */
import type { DeniedKey } from "../replay/result.ts";
import { type Candidate, type Estimate, type Goal, goalText, requestsText, windowWords } from "./goal.ts";
import { leastKeysOfSizes } from "./tail.ts";
import { leastActive, type Traffic } from "./trial.ts";
import { formatDuration, type Limit } from "../../strategies/index.ts";

const significant = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 2 });
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** A share in percent with two significant digits. */
const shareText = (share: number): string => `${significant.format(100 * share)} %`;

/** Such as "0.04 %, 95 % confidence 0.01-0.08 %". A range of 0 to 100 % would say nothing. */
const shareWithInterval = ({ value, low, high }: Estimate): string =>
  low <= 0 && high >= 1
    ? `${shareText(value)} of the sample, which is too small for a range`
    : `${shareText(value)}, 95 % confidence ${significant.format(100 * low)}-${shareText(high)}`;

/** Such as "100 per minute with sliding-window-counter". */
const limitText = (limits: readonly Limit[]): string => limits.map(oneLimitText).join(" and ");

function oneLimitText(limit: Limit): string {
  const words = windowWords(limit.windowMs).replace(/^an? /, "");
  const burst: unknown = Reflect.get(limit, "burst");
  const bursts = typeof burst === "number" && burst !== limit.limit ? ` and bursts of ${whole.format(burst)}` : "";
  return `${whole.format(limit.limit)} per ${words}${bursts} with ${limit.strategy}`;
}

/** Such as "12 requests per second (95 % confidence 5-23)". */
const burstText = ({ value, low, high }: Estimate): string =>
  `${requestsText(Math.round(value))} per second (95 % confidence ${whole.format(low)}-${whole.format(high)})`;

export function recommendedReason(goal: Goal, candidate: Candidate): string {
  const { limits, deniedShare, deniedKeyShare, worstBurst } = candidate;
  const limit = limitText(limits);
  const denies = `denies the fewest requests (${shareWithInterval(deniedShare)})`;
  if (goal.kind === "key-rate") {
    const rate = `${requestsText(goal.most)} in ${windowWords(goal.windowMs)}`;
    return `${limit} never lets one key exceed ${rate}, and of the limits with this guarantee it ${denies}.`;
  }
  const share = goal.kind === "denied-keys" ? deniedKeyShare : deniedShare;
  const text = goalText(goal).replace(/^deny/, "denies");
  return `${limit} is the strictest limit that ${text} (${shareWithInterval(share)}), and lets at most ${burstText(worstBurst)} of this traffic reach the origin.`;
}

/**
 * The reason for the strictest limit that the advisor considers, where all keys stay far below the limit.
 * @param most the most units of one key in the limit's window
 */
export const sparseReason = (most: number, { windowMs }: Limit): string =>
  ` No stricter limit is considered. This traffic needs no limit: no key sends more than ${requestsText(most)} in ${windowWords(windowMs)}.`;

/** Such as "12 % of requests and 3 % of keys". */
const denialsText = ({ deniedShare, deniedKeyShare }: Candidate): string =>
  `${shareText(deniedShare.value)} of requests and ${shareText(deniedKeyShare.value)} of keys`;

const globalText = (mostPerSecond: number, { limits }: Candidate): string =>
  `${limitText(limits)} on all keys together, with key = ["global"], never lets more than ${requestsText(mostPerSecond)} per second reach the origin`;

/** The reason for a limit per key that protects an origin. `outliers`: the keys that it denies most. */
export function originReason(
  mostPerSecond: number,
  candidate: Candidate,
  global: Candidate,
  outliers: readonly DeniedKey[],
): string {
  const { limits, worstBurst, result, meetsGoal } = candidate;
  const rate = `${requestsText(mostPerSecond)} per second`;
  const reached = `${limitText(limits)} lets at most ${burstText(worstBurst)} of this traffic reach the origin, and denies ${denialsText(candidate)}`;
  const [largest] = outliers;
  const isOfOne = largest !== undefined && largest.denied > result.denied / 2;
  const ofOne = isOfOne
    ? ` ${shareText(largest.denied / result.denied)} of these denials are of the key ${largest.key}.`
    : "";
  const guarantee = meetsGoal
    ? ""
    : ` The recorded requests stay within ${rate}, but the interval reaches ${whole.format(worstBurst.high)}, so this limit is no guarantee: use the limit for all keys beside it.`;
  return `${reached}.${ofOne} ${capitalized(globalText(mostPerSecond, global))}, but would alone deny ${denialsText(global)}.${guarantee}`;
}

interface OriginFacts {
  /** The worst burst without a limit. */
  readonly unlimited: Estimate;
  /** The best limit per key that meets the goal, at least in the recording; null if there is none. */
  readonly best: Candidate | null;
  /** Whether more keys send in the same second than may reach the origin. */
  readonly isCrowded: boolean;
}

/** The reason for one limit for all keys. */
export function globalReason(mostPerSecond: number, global: Candidate, facts: OriginFacts): string {
  return `${globalText(mostPerSecond, global)}, and denies ${denialsText(global)}; ${comparedText(mostPerSecond, facts)}. It does not spare clients that send little, so give clients that send much a limit of their own, too.`;
}

function comparedText(mostPerSecond: number, { unlimited, best, isCrowded }: OriginFacts): string {
  const bound = whole.format(mostPerSecond);
  if (unlimited.value <= mostPerSecond)
    return `the recorded peak of ${requestsText(Math.round(unlimited.value))} per second is not above ${bound}, but its interval reaches ${whole.format(unlimited.high)}`;
  if (best === null) {
    const cause = isCrowded ? ", because so many keys send in the same second" : "";
    return `no limit per key was found that keeps this rate${cause}`;
  }
  const isSure = best.meetsGoal
    ? ""
    : `, and lets ${requestsText(Math.round(best.worstBurst.value))} per second reach the origin, with an interval up to ${whole.format(best.worstBurst.high)}`;
  return `the best limit per key, ${limitText(best.limits)}, denies ${denialsText(best)}${isSure}`;
}

/** @param burst the worst burst without a limit */
export const unneededReason = (mostPerSecond: number, burst: Estimate): string =>
  `No limit is needed to protect the origin at ${requestsText(mostPerSecond)} per second from this traffic: at most ${burstText(burst)} reach it without a limit.`;

/**
 * `few-keys`: a longer recording of similar keys would be enough. `few-sizes`: there are too few keys to show which
 * kinds of keys exist. `heavy-tail`: keys larger than all recorded ones may send much of the traffic. `outside-sample`:
 * keys outside the sample may send much of the traffic.
 */
export type WaitCause = "few-keys" | "few-sizes" | "heavy-tail" | "outside-sample";

/** Why a recommendation has to wait. */
interface WaitFacts {
  readonly forMs: number | null;
  /** The least upper end that any limit reached. */
  readonly leastHigh: number;
  readonly cause: WaitCause;
  /** The limit that is closest to the goal; null for none. */
  readonly nearest: Candidate | null;
}

/** A shorter log does not show how many keys a longer one has. */
const shortLogMs = 86_400_000;

export const nothingRecordedReason = "The timelines hold no requests, so there is nothing to replay.";

const helpOfKeys = 'A goal about keys, such as "deny at most 1 key in 100", counts each of them once';

export function waitReason(
  { timelines, requestsOfKey, recordedFromMs }: Traffic,
  goal: Goal,
  facts: WaitFacts,
): string {
  const { forMs, leastHigh, cause, nearest } = facts;
  const { oneKeyIn, lostArrivals, keptMs, toMs } = timelines.source;
  const keys = requestsOfKey.length;
  const largestShare = requestsOfKey.reduce((most, own) => Math.max(most, own), 0) / timelines.atMs.length;
  const periodMs = toMs - recordedFromMs;
  const held = `${whole.format(keys)} ${oneKeyIn === 1 ? "recorded" : "sampled"} ${keys === 1 ? "key" : "keys"}`;
  const causes = {
    "few-keys": `With ${held}, no limit can be shown to ${goalText(goal)}: even without a denial up to ${shareText(leastHigh)} could be denied`,
    "few-sizes": `${capitalized(held)} do not show how many requests other keys send, since rare keys that send much may be absent: no limit is recommended by a share of requests from fewer than ${whole.format(leastKeysOfSizes)} keys. ${helpOfKeys}`,
    "heavy-tail": `Keys that are not recorded may send much of the traffic: the largest of the ${held} sends ${shareText(largestShare)} of the requests, and the sizes of these keys do not rule out much larger ones. So no limit can be shown to ${goalText(goal)}. ${helpOfKeys}, and more keys may rule out larger ones`,
    "outside-sample": `The ${held} do not account for all requests: keys outside the sample may send much of the traffic, and a limit without a denial in the sample could deny up to ${shareText(leastHigh)}. ${helpOfKeys}`,
  };
  const lost = lostArrivals > 0 ? ` ${requestsText(lostArrivals)} of these keys were not recorded.` : "";
  const remedies = [
    ...(forMs === null ? [] : [`record for another ${durationText(forMs)}`]),
    ...(oneKeyIn > 1 ? [`sample more keys (such as SAMPLE = "1/${Math.max(1, Math.floor(oneKeyIn / 8))}")`] : []),
  ];
  const isShortLog = keptMs === undefined && periodMs < shortLogMs;
  const noRemedy =
    keptMs !== undefined
      ? `Samples are kept for ${formatDuration(keptMs)} only, so choose a larger share`
      : isShortLog
        ? `The log covers ${durationText(periodMs)} only, so use a longer one`
        : "The number of keys hardly grows, so choose a larger share";
  const remedy =
    remedies.length > 0
      ? ` ${capitalized(remedies.join(", or "))}.`
      : cause === "heavy-tail" || (cause === "few-sizes" && !isShortLog)
        ? ""
        : ` ${noRemedy}.`;
  const closest =
    nearest === null
      ? ""
      : ` So far the closest is ${limitText(nearest.limits)} (${shareWithInterval(goal.kind === "denied-keys" ? nearest.deniedKeyShare : nearest.deniedShare)}).`;
  return `${causes[cause]}.${lost}${remedy}${closest}`;
}

const capitalized = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

/** A duration of at least a minute in its largest two units, such as "3h 20m". */
function durationText(milliseconds: number): string {
  const minutes = Math.ceil(milliseconds / 60_000);
  const parts = [Math.floor(minutes / 1_440), Math.floor(minutes / 60) % 24, minutes % 60];
  const units = [86_400_000, 3_600_000, 60_000];
  return parts
    .map((count, index) => (count === 0 ? "" : formatDuration(count * (units[index] ?? 0))))
    .filter((part) => part !== "")
    .slice(0, 2)
    .join(" ");
}

const oftenActive = 2;

/** Sentences about the shares of this traffic. */
export function notesOf(
  { timelines, tail, requestsOfKey, activeKeys }: Traffic,
  goal: Goal,
  shown: Candidate | null,
): string[] {
  const notes: string[] = [];
  if (tail.isOfFew && timelines.source.oneKeyIn === 1 && goal.kind !== "denied-requests") {
    notes.push(
      `Fewer than ${whole.format(leastKeysOfSizes)} keys do not show how many requests other keys send, so the intervals of request shares reach up to 100 %.`,
    );
  } else if (tail.isHeavy && goal.kind !== "denied-requests") {
    notes.push(
      "The sizes of the recorded keys do not rule out much larger ones. The intervals of request shares allow for these, so they are wide.",
    );
  }
  if (shown === null || shown.deniedActiveKeyShare === null) return notes;
  const { deniedKeyShare: all, deniedActiveKeyShare: active } = shown;
  if (active.value > oftenActive * all.value) {
    const few = requestsOfKey.length - activeKeys;
    notes.push(
      `${whole.format(few)} of ${whole.format(requestsOfKey.length)} keys sent fewer than ${leastActive} requests and are hardly ever denied, so they dilute shares of keys: of the ${whole.format(activeKeys)} keys with at least ${leastActive} requests, ${limitText(shown.limits)} denies ${shareWithInterval(active)}.`,
    );
  }
  return notes;
}

const longestLogMs = 90 * 86_400_000;
/** If the number of keys grows more slowly, a longer recording never has enough. */
const leastGrowth = 0.05;

/**
 * How much longer to record until there are `factor` times as many keys; null if that cannot be estimated, or takes longer than
 * is recorded. The number of keys is taken to grow by the power of time with which it grew from the first half of the
 * period to the whole.
 */
export function waitMs({ timelines, recordedFromMs }: Traffic, factor: number): number | null {
  const { keys, firstRow, atMs, source } = timelines;
  const { toMs, keptMs = longestLogMs } = source;
  const periodMs = toMs - recordedFromMs;
  const middleMs = recordedFromMs + periodMs / 2;
  let early = 0;
  for (let key = 0; key < keys.length; key++) {
    if ((atMs[firstRow[key] ?? 0] ?? 0) < middleMs) early++;
  }
  const growth = early === 0 ? 1 : Math.min(1, Math.log2(keys.length / early));
  if (growth < leastGrowth || factor <= 1) return null;
  const neededMs = periodMs * factor ** (1 / growth);
  return neededMs > keptMs ? null : Math.ceil((neededMs - periodMs) / 60_000) * 60_000;
}
