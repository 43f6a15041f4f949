/**
 * Recommends limits for recorded traffic and a goal.
 *
 * A goal about denials bounds the harm, so the advisor seeks the strictest limit of each strategy and window that meets it. A goal
 * about what is let through bounds the traffic, so the advisor seeks the limit that denies the fewest requests.
 */
import { deniedMost } from "../replay/result.ts";
import { peaks, type Timelines } from "../replay/timelines.ts";
import { ConfigProblems, formatDuration, type LimitInput } from "../../strategies/index.ts";
import type { Advice, Candidate, Goal, Recommendation } from "./goal.ts";
import {
  admittedFlood,
  familiesWithin,
  type Family,
  firstThatMeets,
  isLeast,
  limitsOf,
  type LimitTry,
  type SearchOutcome,
  unfamiliarity,
} from "./families.ts";
import { isBetter, isCrowded, type OriginGoal, replayGlobal, unlimitedBurst } from "./origin.ts";
import {
  globalReason,
  notesOf,
  nothingRecordedReason,
  originReason,
  recommendedReason,
  sparseReason,
  unneededReason,
  type WaitCause,
  waitMs,
  waitReason,
} from "./reasons.ts";
import { type Bound, judged, type JudgedLimit, type Traffic, trafficOf, type TriedLimit, tryLimits } from "./trial.ts";
import { leastKeysOfSizes } from "./tail.ts";

const mostOutliers = 10;

/**
 * Replays limits that may meet the goal. Yields the share that is done, from 0 to 1; a caller cancels by not continuing. Equal
 * timelines give equal advice.
 */
export function* advise(timelines: Timelines, goal: Goal): Generator<number, Advice> {
  const { source } = timelines;
  if (timelines.atMs.length === 0) {
    const recommendation = { kind: "wait", forMs: null, reason: nothingRecordedReason } as const;
    return { goal, candidates: [], recommendation, global: null, notes: [], outliers: [], source };
  }
  const traffic = trafficOf(timelines);
  if (goal.kind === "origin-rate") return yield* adviseForOrigin(traffic, goal);
  const found = goal.kind === "key-rate" ? yield* guaranteed(traffic, goal) : yield* foundInFamilies(traffic, goal);
  yield 1;
  const ordered = byStrictness(found);
  const candidates = ordered.map(({ best }) => best.candidate);
  const recommendation = recommend(traffic, goal, ordered);
  const shown = candidates[nearestIndex(goal, ordered)];
  const outliers = shown == null ? [] : deniedMost(timelines, shown.result, mostOutliers);
  const notes = notesOf(traffic, goal, shown ?? null);
  return { goal, candidates, recommendation, global: null, notes, outliers, source };
}

/**
 * Seeks limits per key whose interval is within the goal; if these are not better than one limit for all keys, those whose
 * recorded worst burst is.
 */
function* adviseForOrigin(traffic: Traffic, goal: OriginGoal): Generator<number, Advice> {
  const { source } = traffic.timelines;
  const { mostPerSecond } = goal;
  const unlimited = unlimitedBurst(traffic);
  if (unlimited.high <= mostPerSecond) {
    const reason = unneededReason(mostPerSecond, unlimited);
    const recommendation = { kind: "unneeded", reason } as const;
    return { goal, candidates: [], recommendation, global: null, notes: [], outliers: [], source };
  }
  const global = yield* scaled(replayGlobal(traffic, mostPerSecond), [0, 0.1]);
  let found = yield* scaled(foundInFamilies(traffic, goal), [0.1, 0.6]);
  const isFound = found.some(({ best: { candidate, meetsGoal } }) => meetsGoal && isBetter(candidate, global));
  if (!isFound && unlimited.value > mostPerSecond) {
    const estimated = yield* scaled(foundInFamilies(traffic, goal, "value"), [0.6, 1]);
    const added = estimated.filter(({ best: { isNear, meetsGoal } }) => isNear && !meetsGoal);
    const families = new Set(added.map(familyOf));
    const kept = found.filter((each) => each.best.meetsGoal || !families.has(familyOf(each)));
    found = [...kept, ...added];
  }
  yield 1;
  const ordered = byStrictness(found);
  const candidates = ordered.map(({ best }) => best.candidate);
  const sure = ordered.filter((each) => each.best.meetsGoal);
  const near = ordered.filter(({ best: { isNear, meetsGoal } }) => isNear && !meetsGoal);
  const best = [sure, near].flatMap((each) => each[nearestIndex(goal, each)]?.best.candidate ?? []);
  const chosen = best.find((each) => isBetter(each, global));
  const shown = chosen ?? global;
  const outliers = deniedMost(traffic.timelines, shown.result, mostOutliers);
  const recommendation: Recommendation =
    chosen === undefined
      ? {
          kind: "global",
          reason: globalReason(mostPerSecond, global, {
            unlimited,
            best: best.at(-1) ?? null,
            isCrowded: isCrowded(traffic, mostPerSecond),
          }),
        }
      : {
          kind: "recommended",
          candidate: candidates.indexOf(chosen),
          reason: originReason(mostPerSecond, chosen, global, outliers),
        };
  const notes = notesOf(traffic, goal, shown);
  return { goal, candidates, recommendation, global, notes, outliers, source };
}

const byStrictness = (found: readonly SearchOutcome<JudgedLimit>[]): SearchOutcome<JudgedLimit>[] =>
  found.toSorted((a, b) => strictness(a.best) - strictness(b.best));

const familyOf = ({ best }: SearchOutcome<JudgedLimit>): string =>
  best.candidate.limits.map(({ strategy, windowMs }) => `${strategy} ${windowMs}`).join();

const strictness = ({ candidate }: JudgedLimit): number => Math.min(...candidate.limits.map(admittedFlood));

/** A sliding log of more units takes too much storage: `sliding-buckets` ensures the same bound with less. */
const mostOfLog = 1_000;

/** Whether a strategy can count so many units in such a window. */
function isPossible(written: LimitInput): boolean {
  try {
    return limitsOf([written]).length > 0;
  } catch (error) {
    if (error instanceof ConfigProblems) return false;
    throw error;
  }
}

/** Tries the limits whose bound is the goal's rate. */
function* guaranteed(
  traffic: Traffic,
  goal: Goal & { readonly kind: "key-rate" },
): Generator<number, readonly SearchOutcome<JudgedLimit>[]> {
  const { most } = goal;
  const window = formatDuration(goal.windowMs);
  const half = Math.floor(most / 2);
  const written: LimitInput[] = [
    ...(most <= mostOfLog ? [{ limit: most, window, strategy: "sliding-log" }] : []),
    { limit: most, window, strategy: "sliding-buckets" },
    { limit: most, window, strategy: "sliding-window-counter" },
    ...(half > 0
      ? [
          { limit: half, window, strategy: "sliding-window-counter" },
          { limit: half, window, strategy: "token-bucket", burst: most - half },
          { limit: half, window, strategy: "fixed-window" },
        ]
      : []),
  ];
  const tried = yield* tryLimits(traffic, goal, written.filter(isPossible));
  return tried.map((each) => {
    const best = judged(traffic, goal, each, undefined);
    return { best, last: best };
  });
}

/** Searches the families of the default strategy first. The other families begin with the units that are found there. */
function* foundInFamilies(
  traffic: Traffic,
  goal: Goal,
  bound: Bound = "high",
): Generator<number, readonly SearchOutcome<JudgedLimit>[]> {
  const { timelines } = traffic;
  const periodMs = timelines.source.toMs - traffic.recordedFromMs;
  const mostUnits = (windowMs: number): number => greatest(peaks(timelines, 2 * windowMs));
  const families = familiesWithin(periodMs, mostUnits, goal.kind !== "origin-rate");
  const [{ strategy: firstStrategy } = { strategy: "" }] = families;
  const first = families.filter(({ strategy }) => strategy === firstStrategy);
  const foundFirst = yield* scaled(
    searchFamilies(traffic, goal, first, (family) => firstGuess(traffic, goal, family), bound),
    [0, 0.5],
  );
  const unitsOf = new Map(
    foundFirst.map(({ best }) => {
      const [limit] = best.candidate.limits;
      return [limit?.windowMs, limit?.limit ?? 1] as const;
    }),
  );
  const best = foundFirst[nearestIndex(goal, foundFirst)]?.best.candidate.limits[0]?.windowMs;
  const others = families.filter(
    ({ strategy, windowMs }) =>
      strategy !== firstStrategy &&
      // Under limits that protect the origin most keys are denied, so that each replay takes long.
      (goal.kind !== "origin-rate" || windowMs === best),
  );
  const foundOthers = yield* scaled(
    searchFamilies(
      traffic,
      goal,
      others,
      ({ windowMs, units }) =>
        Math.max(
          0,
          units.findIndex((each) => each >= (unitsOf.get(windowMs) ?? 1)),
        ),
      bound,
    ),
    [0.5, 0.99],
  );
  return [...foundFirst, ...foundOthers];
}

/** Searches in ascending order of units for a goal about denials, else in descending order. */
function* searchFamilies(
  traffic: Traffic,
  goal: Goal,
  families: readonly Family[],
  guess: (family: Family) => number,
  bound: Bound,
): Generator<number, readonly SearchOutcome<JudgedLimit>[]> {
  const isDescending = goal.kind === "origin-rate";
  const placeOf = ({ units }: Family, index: number): number => (isDescending ? units.length - 1 - index : index);
  const spaces = families.map((family) => ({
    length: family.units.length,
    guess: placeOf(family, guess(family)),
  }));
  function* tryAll(attempts: readonly LimitTry[]): Generator<number, readonly TriedLimit[]> {
    const limits = attempts.flatMap(({ space, index }) => {
      const family = families[space];
      return family === undefined ? [] : [family.written(family.units[placeOf(family, index)] ?? 1)];
    });
    return yield* tryLimits(traffic, goal, limits, bound);
  }
  return yield* firstThatMeets(spaces, tryAll, (tried, before) => {
    const judgement = judged(traffic, goal, tried, isDescending ? undefined : before);
    return { ...judgement, isLast: judgement.isLast || bound === "value" };
  });
}

/**
 * The index of the first limit to try. A sliding log denies at least what a key sends in its busiest window beyond the limit; the
 * guess is the greatest limit for which this is as much as the goal allows.
 */
function firstGuess({ timelines }: Traffic, goal: Goal, { units, windowMs }: Family): number {
  if (goal.kind === "origin-rate" || goal.kind === "key-rate") return units.length - 1;
  const busiest = peaks(timelines, windowMs);
  const isOfKeys = goal.kind === "denied-keys";
  const total = isOfKeys ? timelines.keys.length : timelines.atMs.length;
  const least = Math.max(1, goal.mostShare * total);
  for (let index = units.length - 1; index > 0; index--) {
    const limit = units[index] ?? 1;
    let denied = 0;
    for (const peak of busiest) {
      if (peak > limit) denied += isOfKeys ? 1 : peak - limit;
    }
    if (denied >= least) return index;
  }
  return 0;
}

/** The index of the recommended candidate, or of the closest if none meets the goal. */
function nearestIndex(goal: Goal, found: readonly SearchOutcome<JudgedLimit>[]): number {
  const meeting = found.filter(({ best }) => best.meetsGoal);
  const near = found.filter(({ best }) => best.isNear);
  const [of] = [meeting, near, found].filter((each) => each.length > 0);
  const preferred = (of ?? []).toSorted((a, b) => {
    const [x, y] = [rank(goal, a.best), rank(goal, b.best)];
    const differing = x.findIndex((each, index) => each !== y[index]);
    return (x[differing] ?? 0) - (y[differing] ?? 0);
  })[0];
  return preferred === undefined ? 0 : found.indexOf(preferred);
}

/** The measures by which a limit is preferred, the first that differs deciding; less is better. */
function rank(goal: Goal, { candidate, isNear }: JudgedLimit): readonly number[] {
  const [limit] = candidate.limits;
  const factor = limit === undefined ? 1 : unfamiliarity(limit);
  const flood = Math.min(...candidate.limits.map(admittedFlood));
  const denied = candidate.deniedShare.value;
  if (goal.kind === "key-rate") return [denied, -(limit?.limit ?? 0)];
  if (goal.kind !== "origin-rate") return [factor * flood];
  return isNear ? [factor * denied, factor * flood] : [candidate.worstBurst.value, denied];
}

function recommend(traffic: Traffic, goal: Goal, found: readonly SearchOutcome<JudgedLimit>[]): Recommendation {
  const index = nearestIndex(goal, found);
  const nearest = found[index]?.best;
  if (nearest === undefined) return { kind: "wait", forMs: null, reason: nothingRecordedReason };
  const { candidate } = nearest;
  if (nearest.meetsGoal) {
    const reason = `${recommendedReason(goal, candidate)}${headroom(traffic, goal, candidate)}`;
    return { kind: "recommended", candidate: index, reason };
  }
  const { keys, source } = traffic.timelines;
  const last = found.map((each) => each.last);
  const leastHigh = Math.min(...last.map(({ high }) => high));
  const cause = waitCause(traffic, goal, Math.min(...last.map((each) => each.highOfSuchKeys)));
  const neededKeys =
    cause === "few-sizes"
      ? leastKeysOfSizes / keys.length
      : cause === "few-keys" && "mostShare" in goal
        ? leastHigh / goal.mostShare
        : null;
  const forMs = neededKeys === null ? null : waitMs(traffic, neededKeys);
  const { oneKeyIn, lostArrivals, keptMs } = source;
  const largestShare =
    traffic.requestsOfKey.reduce((most, own) => Math.max(most, own), 0) / traffic.timelines.atMs.length;
  const periodMs = source.toMs - traffic.recordedFromMs;
  const sampled = { keys: keys.length, oneKeyIn, lostArrivals, keptMs, periodMs };
  const facts = { ...sampled, forMs, leastHigh, cause, largestShare };
  return {
    kind: "wait",
    forMs,
    reason: waitReason(goal, facts, nearest.isNear ? candidate : null),
  };
}

/** Why no limit meets a goal about shares. */
function waitCause({ tail }: Traffic, goal: Goal, leastHighOfSuch: number): WaitCause {
  if (goal.kind !== "denied-requests") return "few-keys";
  if (tail.isOfFew) return "few-sizes";
  if (tail.isHeavy) return "heavy-tail";
  return leastHighOfSuch <= goal.mostShare ? "outside-sample" : "few-keys";
}

/** A sentence about traffic that comes nowhere near a limit. */
function headroom({ timelines }: Traffic, goal: Goal, { limits: [limit] }: Candidate): string {
  if (!("mostShare" in goal) || limit === undefined || !isLeast(limit)) return "";
  const most = greatest(peaks(timelines, limit.windowMs));
  return 2 * most <= limit.limit ? sparseReason(most, limit) : "";
}

function greatest(values: Float64Array): number {
  let most = 0;
  for (const value of values) if (value > most) most = value;
  return most;
}

/** Runs the steps, whose progress is that between two shares of the whole. */
function* scaled<Result>(
  steps: Generator<number, Result>,
  [from, to]: readonly [from: number, to: number],
): Generator<number, Result> {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    yield from + (to - from) * step.value;
  }
}
