/** The advisor's vocabulary: a goal, the candidates that were replayed for it, and a recommendation; and the texts of goals. */
import type { DeniedKey, ReplayResult } from "../replay/result.ts";
import type { TimelinesSource } from "../replay/timelines.ts";
import { type Limit, type LimitInput, parseDuration } from "../../strategies/index.ts";
import { ConfigProblems } from "../../validation/problems.ts";

export type Goal =
  /** Deny at most this share of requests. */
  | { readonly kind: "denied-requests"; readonly mostShare: number }
  /** Deny at most this share of keys. */
  | { readonly kind: "denied-keys"; readonly mostShare: number }
  /** Never admit more than this many requests of one key within a window. */
  | { readonly kind: "key-rate"; readonly most: number; readonly windowMs: number }
  /** Never admit more than this many requests of all keys within a second. */
  | { readonly kind: "origin-rate"; readonly mostPerSecond: number };

/** A value with its 95 % confidence interval. */
export interface Estimate {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

export interface Candidate {
  readonly strategy: string;
  readonly limits: readonly Limit[];
  /** As written in a policy. */
  readonly written: readonly LimitInput[];
  readonly result: ReplayResult;
  /** The share of requests that are denied. */
  readonly deniedShare: Estimate;
  /** The share of keys with a denial. */
  readonly deniedKeyShare: Estimate;
  /**
   * The share of denied keys among those with at least 10 requests; null without such keys. Keys with fewer requests
   * are hardly ever denied.
   */
  readonly deniedActiveKeyShare: Estimate | null;
  /** The most requests of all keys that reach the origin within one second. */
  readonly worstBurst: Estimate;
  /**
   * Whether the goal is met with 95 % confidence, if keys outside the sample are like those in it. A goal for the rate of a key
   * is met when the bound of the strategy ensures it.
   */
  readonly meetsGoal: boolean;
}

export type Recommendation =
  /** A candidate meets the goal. */
  | { readonly kind: "recommended"; readonly candidate: number; readonly reason: string }
  /** One limit for all keys denies fewer requests than any limit for each key. It is `Advice.global`. */
  | { readonly kind: "global"; readonly reason: string }
  /** The traffic meets the goal even without a limit. */
  | { readonly kind: "unneeded"; readonly reason: string }
  /** There is too little data. `forMs`: how much longer to record; null when it cannot be estimated. */
  | { readonly kind: "wait"; readonly forMs: number | null; readonly reason: string };

export interface Advice {
  readonly goal: Goal;
  /** The strictest first, by strategy and window. */
  readonly candidates: readonly Candidate[];
  readonly recommendation: Recommendation;
  /** One limit for all keys, if the goal is a rate at an origin; null for any other goal. */
  readonly global: Candidate | null;
  /** Sentences about the shares of this traffic. */
  readonly notes: readonly string[];
  /** Under the recommended or closest candidate, the most denied first. */
  readonly outliers: readonly DeniedKey[];
  readonly source: TimelinesSource;
}

export const acceptedGoal =
  '"deny at most 0.1 % of requests", "deny at most 1 key in 1,000", "never let one key exceed 20 requests in a second" or ' +
  '"protect the origin at 500 requests per second"';

const requestWord = String.raw`(?:requests?|reqs?|calls?|traffic)`;
const keyWord = String.raw`(?:keys?|clients?|users?|customers?|consumers?|callers?|visitors?|tenants?|ips?|(?:ip )?address(?:es)?)`;
const originWord = String.raw`(?:origins?|backends?|upstreams?|servers?)`;
const articles = String.raw`(?:(?:all|the|my|our) )*`;
const subject = String.raw`${articles}(?<of>${requestWord}|${keyWord})`;
const number = String.raw`(?:-?(?:\d[\d.,_']*(?: \d{3}\b)*|\.\d+)(?: ?(?:k|thousand|million)\b)?|(?:(?:an?|one) )?(?:hundred|thousand|million)|an?|one|ten|half an?|zero|no)`;
const amount = `(?<amount>${number})`;
const ofTotal = `(?<total>${number})`;
const ofEach = String.raw`(?:in|of|per|out of|from|\/)(?: (?:every|each))?`;
const percent = String.raw`(?<unit>%|‰|percent|per cent|pct|per ?mille?|ppm)`;

/** "0.1 % of requests", "1 key in 1,000", "1 in 1,000 keys". */
const shareForms = [
  String.raw`${amount} ?${percent} (?:of )?${subject}\b`,
  String.raw`${amount} ${subject} ?${ofEach} ?${ofTotal}(?: ${articles}(?:${requestWord}|${keyWord}))?(?![\w])`,
  String.raw`${amount} ?${ofEach} ?${ofTotal} (?:of )?${subject}(?![\w])`,
].map((form) => new RegExp(String.raw`(?<![\w.,-])${form}`));

const partsOf = (unit: string): number => (unit === "ppm" ? 1e6 : unit === "‰" || unit.includes("mil") ? 1_000 : 100);

const perWindow = String.raw`(?:\/|(?:per|in|within|over|during|every|each|an?)\b)(?: ?(?:an?|any|one|each|every|single)\b)* ?(?<window>(?:\d+ ?)?[a-z]+)`;
const rateForms = [
  new RegExp(String.raw`(?<![\w.,-])${amount} ?(?:${requestWord} ?)?${perWindow}(?![\w])`),
  new RegExp(String.raw`(?<![\w.,-])${amount} ?(?:rp|qp|req\/)(?<window>s)\b`),
];

const mostWords = [
  ..."at most the no more than not maximum max up to less fewer under below over above".split(" "),
  ..."<= < ≤ never exceed exceeds exceeding do don't dont of".split(" "),
];
const negations = /\b(?:never|no|not|don't|dont|nobody|none)\b|(?:under|below|less|fewer|at most)/;
const shareWords = new Set([
  ...mostWords,
  ..."deny denies denied denying reject rejects rejected refuse refused block blocked drop dropped".split(" "),
  ..."throttle throttled limited turn away".split(" "),
  ..."please i want we to are be is may should must can will get have it only a let".split(" "),
]);
const rateWords = new Set([
  ...mostWords,
  ..."please i want we to are be is may should must can will get gets have let lets allow allows".split(" "),
  ..."permit limit limits cap caps restrict hold keep protect protects shield guard with against".split(" "),
  ..."receive receives reach reaches see sees serve send sends sending make makes go by for from per".split(" "),
  ..."one any a an single each every my our your it only rate requests request traffic in on that".split(" "),
]);

/**
 * Reads a goal.
 * @throws ConfigProblems for a text that is no goal, or whose amount is impossible
 */
export function parseGoal(text: string): Goal {
  const plain = text
    .toLowerCase()
    .replaceAll("’", "'")
    .replaceAll("−", "-")
    .replaceAll(/\s+/gu, " ")
    .trim()
    .replace(/[.!;]+$/, "");
  const goal = readRate(plain, text) ?? readShare(plain, text);
  if (goal === null) throw problem(text, acceptedGoal);
  return goal;
}

const problem = (text: string, accepted: string): ConfigProblems =>
  new ConfigProblems([{ variable: "goal", field: "", value: text, accepted }]);

/** Whether all words are known. Words such as "more than" are accepted only with a negation. */
function isPlain(rest: string, words: ReadonlySet<string>, nouns: RegExp): boolean {
  const others = rest.replaceAll(nouns, " ").split(/[\s,:]+/);
  const isKnown = others.every((word) => word === "" || words.has(word));
  return isKnown && (!/\b(?:more|over|above|exceed\w*)\b/.test(rest) || negations.test(rest));
}

function readShare(plain: string, text: string): Goal | null {
  for (const form of shareForms) {
    const found = form.exec(plain);
    if (found === null) continue;
    const { amount: part = "", unit, total: whole = "", of = "" } = found.groups ?? {};
    const share = readNumber(part) / (unit === undefined ? readNumber(whole) : partsOf(unit));
    const rest = plain.replace(found[0], " ");
    if (Number.isNaN(share) || !isPlain(rest, shareWords, new RegExp(`\\b${subject}\\b`, "g"))) continue;
    if (!(share > 0 && share <= 1)) {
      const hint = share === 0 ? "; no recording can prove that a limit denies nothing, so state a share" : "";
      throw problem(text, `a share above 0 % and at most 100 %${hint}`);
    }
    const mostShare = Number(share.toPrecision(12));
    const isOfRequests = new RegExp(`^${requestWord}$`).test(of);
    return { kind: isOfRequests ? "denied-requests" : "denied-keys", mostShare };
  }
  return null;
}

/** Slightly below the largest `limit` of a policy, because greater numbers could round up beyond it. */
const mostRequests = 999_999_999_999;

function readRate(plain: string, text: string): Goal | null {
  for (const form of rateForms) {
    const found = form.exec(plain);
    if (found === null) continue;
    const { amount: count = "", window = "" } = found.groups ?? {};
    const windowMs = parseDuration(window);
    const rest = plain.replace(found[0], " ");
    const isOrigin = new RegExp(`\\b${originWord}\\b`).test(rest);
    const isKey = new RegExp(`\\b${keyWord}\\b`).test(rest);
    const nouns = new RegExp(`\\b(?:${originWord}|${keyWord})\\b`, "g");
    if (windowMs === null || !(isOrigin || isKey) || !isPlain(rest, rateWords, nouns)) continue;
    const most = readNumber(count);
    if (!Number.isInteger(most) || most < 1) throw problem(text, "a whole number of at least 1 request");
    if (most > mostRequests) throw problem(text, `at most ${numberFormat.format(mostRequests)} requests`);
    if (!isOrigin) return { kind: "key-rate", most, windowMs };
    if (windowMs === 1_000) return { kind: "origin-rate", mostPerSecond: most };
    throw problem(text, "requests per second, which is what an origin is protected at");
  }
  return null;
}

const wordNumbers: Readonly<Record<string, number>> = {
  a: 1,
  an: 1,
  one: 1,
  ten: 10,
  hundred: 100,
  thousand: 1_000,
  million: 1e6,
  k: 1_000,
  zero: 0,
  no: 0,
  half: 0.5,
};

/** The number in digits with separators, in words, or both, such as "10 thousand". NaN for any other text. */
function readNumber(text: string): number {
  const [, digits = "", rest = ""] = /^(-?[\d.,_' ]*)(.*)$/.exec(text) ?? [];
  let value = digits.trim() === "" ? 1 : Number(plainDigits(digits.trim()));
  for (const word of rest.split(" ")) if (word !== "") value *= wordNumbers[word] ?? Number.NaN;
  return value;
}

/** Removes separators of thousands. A comma that does not separate thousands is a decimal comma. */
function plainDigits(digits: string): string {
  const joined = digits.replaceAll(/[_' ]/g, "");
  return /^-?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?$/.test(joined) ? joined.replaceAll(",", "") : joined.replace(",", ".");
}

const numberFormat = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 12 });
const percentText = (share: number): string => `${numberFormat.format(share * 100)} %`;

/** A number of requests in words, such as "1,000 requests". */
export const requestsText = (requests: number): string =>
  `${numberFormat.format(requests)} ${requests === 1 ? "request" : "requests"}`;

/** The goal in the words of `acceptedGoal`, which `parseGoal` reads. */
export function goalText(goal: Goal): string {
  if (goal.kind === "denied-requests") return `deny at most ${percentText(goal.mostShare)} of requests`;
  if (goal.kind === "denied-keys") {
    const total = Math.round(1 / goal.mostShare);
    const isOneIn = total > 1 && Number((1 / total).toPrecision(12)) === goal.mostShare;
    return isOneIn
      ? `deny at most 1 key in ${numberFormat.format(total)}`
      : `deny at most ${percentText(goal.mostShare)} of keys`;
  }
  return goal.kind === "key-rate"
    ? `never let one key exceed ${requestsText(goal.most)} in ${windowWords(goal.windowMs)}`
    : `protect the origin at ${requestsText(goal.mostPerSecond)} per second`;
}

const unitWords: readonly (readonly [milliseconds: number, name: string])[] = [
  [86_400_000, "day"],
  [3_600_000, "hour"],
  [60_000, "minute"],
  [1_000, "second"],
  [1, "millisecond"],
];

/** A window in words, such as "a minute", "an hour" or "10 seconds". */
export function windowWords(windowMs: number): string {
  const [size, name] = unitWords.find(([each]) => windowMs % each === 0) ?? [1, "millisecond"];
  const count = windowMs / size;
  if (count > 1) return `${count} ${name}s`;
  return name === "hour" ? "an hour" : `a ${name}`;
}
