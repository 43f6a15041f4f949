/**
 * How a limit arrives at the units that it counts as used: the terms of the sum, for people to check, and one plain sentence
 * for each limit.
 */
import type { Period, LimitDecision } from "./strategy.ts";
import { multiplyDivideFloor } from "./integers.ts";

/** Units that stop counting together. */
export interface LeavingUnits {
  readonly units: number;
  /** More than 0. */
  readonly leavesInMs: number;
}

/** The units of a bucket are counted in credits: `creditsPerUnit` make one unit. */
export interface BucketTerms {
  /** Credits of spent units that have not drained (leaky bucket) or been refilled (token bucket). */
  readonly owedCredits: number;
  readonly creditsPerUnit: number;
  /** Credits that drain at the end of each step. */
  readonly creditsPerStep: number;
  readonly stepMs: number;
  /** 0 when nothing is owed. */
  readonly nextStepInMs: number;
}

/**
 * The terms by kind. All numbers are integers of at least 0. Durations are in milliseconds, from the instant of the account.
 */
export type UsageTerms =
  /** Fixed window: the units of the open window. 0 units and 0 ms when none is open. */
  | {
      readonly kind: "window";
      readonly units: number;
      readonly endsInMs: number;
      /** Whether each request restarts the window. */
      readonly isElastic: boolean;
      /** For a calendar window. */
      readonly period: Period | null;
      readonly timezone: string | null;
    }
  /** Sliding-window counter: `currentUnits`, and the part of `previousUnits` in proportion to the overlap. */
  | {
      readonly kind: "two-windows";
      readonly currentUnits: number;
      readonly previousUnits: number;
      /**
       * How much of the window before is within the last `windowMs`. The current window ends after the same time. 0
       * when no window is open.
       */
      readonly overlapMs: number;
      readonly windowMs: number;
    }
  /** Sliding log: the units of the last window. The oldest of them leave together. */
  | {
      readonly kind: "log";
      readonly units: number;
      readonly oldest: LeavingUnits | null;
    }
  /** Sliding buckets: the units of each bucket that counts, the oldest first. */
  | {
      readonly kind: "buckets";
      readonly bucketMs: number;
      readonly buckets: readonly LeavingUnits[];
    }
  /** Token bucket, and leaky bucket in the mode `police`. */
  | (BucketTerms & { readonly kind: "level" })
  /** Leaky bucket in the mode `queue`. */
  | (BucketTerms & {
      readonly kind: "queue";
      /** Units that are allowed and have not departed. */
      readonly waitingUnits: number;
      /** The delay of the next request that is allowed. */
      readonly delayMs: number;
      /** Credits that may be owed beyond whole units, because `maxDelay` is not a whole number of slots. */
      readonly slackCredits: number;
    })
  /** Concurrency: held slots. The lease of the oldest ends first. */
  | {
      readonly kind: "slots";
      readonly slots: number;
      readonly oldest: LeavingUnits | null;
    };

/** The units that one limit counts at an instant. The rest of the capacity remains. */
export interface UsageBreakdown {
  /** The used units: the sum of the terms and of `heldUnits`. It exceeds the capacity while there is a debt. */
  readonly used: number;
  /** Units that are lent to isolates. They count as spent. */
  readonly heldUnits: number;
  /** How the strategy arrives at its used units. */
  readonly terms: UsageTerms;
}

export const sumOf = (parts: readonly LeavingUnits[]): number => parts.reduce((sum, { units }) => sum + units, 0);

/**
 * For example: "62 of 60 in the last minute: 41 in this window and 43 × 0.49 of the one before; the next request fits in
 * 3.2 s."
 * @param limit a look at the limit, made at the instant of the account
 */
export function limitSentence(limit: LimitDecision, account: UsageBreakdown): string {
  const { used, heldUnits, terms } = account;
  const { sum } = arithmeticOf(limit, terms);
  const own = sum.length === 0 ? [`${numberText(used - heldUnits)} counted here`] : sum;
  const parts = heldUnits === 0 ? sum : [...own, `${numberText(heldUnits)} lent to isolates`];
  const head = limitTotal(limit, account);
  const body = parts.length === 0 ? head : `${head}: ${parts.join(" and ")}`;
  return [body, ...notesOf(terms, limit), nextText(limit, terms)].join("; ").concat(".");
}

/** The beginning of the sentence, such as "62 of 60 in the last minute". */
export const limitTotal = (limit: LimitDecision, { used, terms }: Pick<UsageBreakdown, "used" | "terms">): string =>
  `${numberText(used)} of ${numberText(limit.capacity)} ${arithmeticOf(limit, terms).place}`;

const tokenBucketName = "token-bucket";

interface Arithmetic {
  /** Follows "5 of 10". */
  readonly place: string;
  /** The terms of the sum, as text. Empty when the total is its only term. */
  readonly sum: readonly string[];
}

function arithmeticOf(limit: LimitDecision, terms: UsageTerms): Arithmetic {
  const lastWindow = `in the last ${spanText(limit.windowMs)}`;
  switch (terms.kind) {
    case "window":
      return { place: windowPlace(limit, terms), sum: [] };
    case "two-windows":
      return { place: lastWindow, sum: windowSums(terms) };
    case "log":
      return { place: lastWindow, sum: [] };
    case "buckets":
      return {
        place: `in the buckets of ${spanText(terms.bucketMs, "1 ")} that count`,
        sum: bucketSums(terms.buckets),
      };
    case "level":
      return levelArithmetic(limit, terms);
    case "queue":
      return { place: "slots of the queue are taken", sum: queueSums(terms) };
    case "slots":
      return { place: "slots are held", sum: [] };
    default:
      return terms satisfies never;
  }
}

type TermsOf<Kind extends UsageTerms["kind"]> = Extract<UsageTerms, { readonly kind: Kind }>;

const periodNames: Readonly<Record<Period, string>> = {
  day: "today",
  week: "this week",
  month: "this month",
  year: "this year",
};

const windowPlace = ({ windowMs }: LimitDecision, { units, period, timezone }: TermsOf<"window">) =>
  period === null
    ? `in ${units === 0 ? "a" : "this"} window of ${spanText(windowMs, "1 ")}`
    : `${periodNames[period]} (${timezone ?? "UTC"})`;

function windowSums({ currentUnits, previousUnits, overlapMs, windowMs }: TermsOf<"two-windows">): string[] {
  if (previousUnits === 0) return [];
  const share = shareText(previousUnits, overlapMs, windowMs);
  return [`${numberText(currentUnits)} in this window`, `${numberText(previousUnits)} × ${share} of the one before`];
}

const fewestDecimals = 2;
const mostDecimals = 9;

/**
 * The overlap as a decimal, with as many places as its product with the units needs to be right.
 * Rounding up is the second choice at each precision: no rounded third of 2,580 reaches 860.
 */
function shareText(units: number, overlapMs: number, windowMs: number): string {
  const product = multiplyDivideFloor(units, overlapMs, windowMs);
  for (let decimals = fewestDecimals; ; decimals++) {
    const scale = 10 ** decimals;
    const exact = (overlapMs / windowMs) * scale;
    const share = [Math.round(exact), Math.ceil(exact)].find(
      (candidate) => multiplyDivideFloor(units, candidate, scale) === product,
    );
    if (share !== undefined) return String(share / scale);
    if (decimals === mostDecimals) return String(Math.round(exact) / scale);
  }
}

const mostListed = 6;

/** The units of the oldest buckets, and the sum of the others. */
function bucketSums(buckets: readonly LeavingUnits[]): string[] {
  if (buckets.length < 2) return [];
  const listed = buckets.slice(0, mostListed).map(({ units }) => numberText(units));
  const others = buckets.slice(mostListed);
  if (others.length === 0) return [listed.join(" + ")];
  const places = others.length === 1 ? "the latest" : `the ${others.length} latest`;
  return [`${listed.join(" + ")} + ${numberText(sumOf(others))} in ${places}`];
}

function levelArithmetic({ strategy }: LimitDecision, terms: TermsOf<"level">): Arithmetic {
  const isToken = strategy === tokenBucketName;
  const owed = unitsText(terms.owedCredits, terms.creditsPerUnit);
  const pending = `${owed} ${isToken ? "not refilled yet" : "not drained yet"}`;
  return {
    place: isToken ? "tokens are taken" : "units are in the bucket",
    sum: terms.owedCredits === 0 ? [] : [pending],
  };
}

function queueSums(terms: TermsOf<"queue">): string[] {
  const { owedCredits, creditsPerUnit, waitingUnits, slackCredits } = terms;
  if (owedCredits === 0) return [];
  if (slackCredits > 0) {
    const slack = unitsText(slackCredits, creditsPerUnit);
    return [`${unitsText(owedCredits, creditsPerUnit)} less ${slack} that maxDelay has left`];
  }
  const waiting = `${numberText(waitingUnits)} by waiting ${waitingUnits === 1 ? "unit" : "units"}`;
  return ["1 by the last departure", ...(waitingUnits === 0 ? [] : [waiting])];
}

/** States when units stop counting, unless the next request fits at that instant. */
function notesOf(terms: UsageTerms, limit: LimitDecision): string[] {
  const { remaining, replenishAfterMs } = limit;
  const isNext = (changesInMs: number): boolean => remaining === 0 && changesInMs === replenishAfterMs;
  switch (terms.kind) {
    case "window":
      return isNext(terms.endsInMs) && !terms.isElastic ? [] : [windowNote(terms)];
    case "two-windows":
    case "queue":
      return [];
    case "log":
      return leavingNote(terms.oldest, "leaves", "leave");
    case "buckets":
      return leavingNote(terms.buckets[0] ?? null, "leaves", "leave");
    case "slots":
      return leavingNote(terms.oldest, "is freed at the latest", "are freed at the latest");
    case "level":
      return terms.owedCredits === 0 ? [] : [rateNote(limit, terms)];
    default:
      return terms satisfies never;
  }
}

function rateNote({ strategy, limit: units, windowMs }: LimitDecision, terms: TermsOf<"level">): string {
  const { stepMs, nextStepInMs } = terms;
  if (stepMs > 1) return `up to ${numberText(units)} are refilled in ${waitText(nextStepInMs)}`;
  const verb = strategy === tokenBucketName ? "are refilled" : "drain";
  return `${numberText(units)} ${verb} per ${spanText(windowMs)}`;
}

function windowNote({ units, endsInMs, isElastic, period }: TermsOf<"window">): string {
  if (units === 0) return period === null ? "no window is open" : "nothing is spent";
  if (isElastic) return `the window ends after ${waitText(endsInMs)} without a request`;
  return `${period === null ? "the window" : "the period"} ends in ${waitText(endsInMs)}`;
}

function leavingNote(oldest: LeavingUnits | null, one: string, several: string): string[] {
  if (oldest === null) return [];
  const { units, leavesInMs } = oldest;
  const leaving = units === 1 ? `the oldest ${one}` : `the oldest ${numberText(units)} ${several}`;
  return [`${leaving} in ${waitText(leavesInMs)}`];
}

function nextText({ remaining, replenishAfterMs }: LimitDecision, terms: UsageTerms): string {
  if (remaining === 0) return `the next request fits in ${waitText(replenishAfterMs)}`;
  const isDelayed = terms.kind === "queue" && terms.delayMs > 0;
  const delay = isDelayed ? `, the next after ${waitText(terms.delayMs)}` : "";
  return `${numberText(remaining)} more ${remaining === 1 ? "fits" : "fit"} now${delay}`;
}

/** Credits in units, rounded up to two places, so that rounding up again gives the whole units. */
const unitsText = (credits: number, creditsPerUnit: number): string =>
  numberText(Math.ceil((credits / creditsPerUnit) * 100) / 100);

const numberText = (value: number): string => value.toLocaleString("en-US");

const spans: readonly (readonly [lengthMs: number, name: string])[] = [
  [604_800_000, "week"],
  [86_400_000, "day"],
  [3_600_000, "hour"],
  [60_000, "minute"],
  [1_000, "second"],
  [1, "millisecond"],
];

/** A length in its largest whole unit: "minute", "90 seconds". @param one the text before a single unit */
export function spanText(lengthMs: number, one = ""): string {
  const [unitMs, name] = spans.find(([size]) => lengthMs % size === 0) ?? [1, "millisecond"];
  const count = lengthMs / unitMs;
  return count === 1 ? `${one}${name}` : `${numberText(count)} ${name}s`;
}

/** A wait, rounded up to what a person needs: "320 ms", "58.2 s", "3 min 20 s", "4 h 10 min", "2 d 3 h". */
export function waitText(waitMs: number): string {
  if (waitMs < 1_000) return `${waitMs} ms`;
  if (waitMs <= 59_900) return `${Math.ceil(waitMs / 100) / 10} s`;
  const seconds = Math.ceil(waitMs / 1_000);
  if (seconds < 3_600) return twoUnits(seconds, 60, "min", "s");
  const minutes = Math.ceil(seconds / 60);
  if (minutes < 24 * 60) return twoUnits(minutes, 60, "h", "min");
  return twoUnits(Math.ceil(minutes / 60), 24, "d", "h");
}

function twoUnits(count: number, size: number, large: string, small: string): string {
  const rest = count % size;
  const whole = `${numberText(Math.floor(count / size))} ${large}`;
  return rest === 0 ? whole : `${whole} ${rest} ${small}`;
}
