/** The sentences of a recommendation. */
import { formatDuration, type Limit } from "../strategies/index.ts";
import type { Candidate, Estimate, Goal } from "./advice.ts";
import { goalText, requestsText, windowWords } from "./goal.ts";

const significant = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 2 });
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** A share in percent with two significant digits. */
export const shareText = (share: number): string => `${significant.format(100 * share)} %`;

/** Such as "0.04 %, 95 % confidence 0.01-0.08 %". */
export const shareWithInterval = ({ value, low, high }: Estimate): string =>
  `${shareText(value)}, 95 % confidence ${significant.format(100 * low)}-${shareText(high)}`;

/** Such as "100 per minute with sliding-window-counter". */
export function limitText(limits: readonly Limit[]): string {
  return limits.map(oneLimitText).join(" and ");
}

function oneLimitText(limit: Limit): string {
  const words = windowWords(limit.windowMs).replace(/^an? /, "");
  const burst: unknown = Reflect.get(limit, "burst");
  const bursts =
    typeof burst === "number" && burst !== limit.limit
      ? ` and bursts of ${whole.format(burst)}`
      : "";
  return `${whole.format(limit.limit)} per ${words}${bursts} with ${limit.strategy}`;
}

/** Such as "12 requests per second (95 % confidence 5-23)". */
const burstText = ({ value, low, high }: Estimate): string =>
  `${requestsText(Math.round(value))} per second (95 % confidence ${whole.format(low)}-${whole.format(high)})`;

/** @param high the upper end of the goal's share, if keys outside the sample are like those in it */
export function recommendedReason(goal: Goal, candidate: Candidate, high: number): string {
  const { limits, deniedShare, deniedKeyShare, worstBurst } = candidate;
  const limit = limitText(limits);
  const denies = `denies the fewest requests (${shareWithInterval(deniedShare)})`;
  if (goal.kind === "key-rate") {
    const rate = `${requestsText(goal.most)} in ${windowWords(goal.windowMs)}`;
    return `${limit} never lets one key exceed ${rate}, and of the limits with this guarantee it ${denies}.`;
  }
  if (goal.kind === "origin-rate") {
    return `${limit} lets at most ${burstText(worstBurst)} of this traffic reach the origin, and of the limits that protect it at ${requestsText(goal.mostPerSecond)} per second it ${denies}.`;
  }
  const share = goal.kind === "denied-keys" ? deniedKeyShare : deniedShare;
  const text = goalText(goal).replace(/^deny/, "denies");
  const interval = shareWithInterval({ ...share, high });
  const others =
    share.high > goal.mostShare
      ? ` of keys like those in the sample (${interval}; flooding keys outside the sample could raise it to ${shareText(share.high)})`
      : ` (${interval})`;
  return `${limit} is the strictest limit that ${text}${others}, and lets at most ${burstText(worstBurst)} of this traffic reach the origin.`;
}

/** @param most units of one key in the window of the limit, which is the strictest that is considered */
export const sparseReason = (most: number, { windowMs }: Limit): string =>
  ` No stricter limit is considered. This traffic needs no limit: no key sends more than ${requestsText(most)} in ${windowWords(windowMs)}.`;

/** The reason of the closest candidate for an origin that no limit per key protects. */
export function unreachableReason(
  mostPerSecond: number,
  { limits, worstBurst }: Candidate,
): string {
  const reached = worstBurst.value > mostPerSecond ? worstBurst.value : worstBurst.high;
  return (
    `None of the limits per key that were tried keeps the origin at ${requestsText(mostPerSecond)} per second: even ${limitText(limits)} lets up to ` +
    `${requestsText(Math.round(reached))} per second through, because so many keys send in the same second. ` +
    `A limit on all keys together, with key = ["global"], can.`
  );
}

/** The data on which a recommendation has to wait. */
export interface WaitFacts {
  readonly keys: number;
  readonly oneKeyIn: number;
  readonly forMs: number | null;
  /** The least upper end that any limit reached. */
  readonly leastHigh: number;
  readonly accountsForAll: boolean;
  /** Requests of the keys that were not recorded. */
  readonly lostArrivals: number;
  /** Undefined: without end. */
  readonly keptMs: number | undefined;
  readonly periodMs: number;
}

/** The number of keys in a shorter log says little about that of a longer one. */
const shortLogMs = 86_400_000;

export const nothingRecordedReason =
  "The timelines hold no requests, so there is nothing to replay.";

export function waitReason(goal: Goal, facts: WaitFacts, nearest: Candidate | null): string {
  const { keys, oneKeyIn, forMs, leastHigh, accountsForAll, lostArrivals, keptMs, periodMs } =
    facts;
  const sampled = oneKeyIn === 1 ? "recorded" : "sampled";
  const held = `${whole.format(keys)} ${sampled} ${keys === 1 ? "key" : "keys"}`;
  const cause = accountsForAll
    ? `With ${held}, no limit can be shown to ${goalText(goal)}: even without a denial up to ${shareText(leastHigh)} could be denied`
    : `The ${held} do not account for all requests: a few keys outside the sample send much of the traffic, and whether a limit denies them is unknown`;
  const lost =
    lostArrivals > 0 ? ` ${requestsText(lostArrivals)} of these keys were not recorded.` : "";
  const remedies = [
    ...(forMs === null ? [] : [`record for another ${durationText(forMs)}`]),
    ...(oneKeyIn > 1
      ? [`sample more keys (such as SAMPLE = "1/${Math.max(1, Math.floor(oneKeyIn / 8))}")`]
      : []),
  ];
  const noRemedy =
    keptMs !== undefined
      ? `Samples are kept for ${formatDuration(keptMs)} only, so choose a larger share`
      : periodMs < shortLogMs
        ? `The log covers ${durationText(periodMs)} only, so use a longer one`
        : "The number of keys hardly grows, so choose a larger share";
  const remedy = remedies.length > 0 ? ` ${capitalized(remedies.join(", or "))}.` : ` ${noRemedy}.`;
  const closest =
    nearest === null
      ? ""
      : ` So far the closest is ${limitText(nearest.limits)} (${shareWithInterval(goal.kind === "denied-keys" ? nearest.deniedKeyShare : nearest.deniedShare)}).`;
  return `${cause}.${lost}${remedy}${closest}`;
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
