/**
 * Recommends limits for recorded traffic and a goal.
 *
 * A goal about denials bounds the harm, so the advisor seeks the strictest limit of each strategy and window that meets it. A goal
 * about what is let through bounds the traffic, so the advisor seeks the limit that denies the fewest requests.
 */
import { scaled } from "../replay/replay.ts";
import { deniedMost } from "../replay/result.ts";
import { greatest, peaks, type Timelines } from "../replay/timelines.ts";
import { formatDuration, type LimitInput, readLimits } from "../../strategies/index.ts";
import { isLeast } from "./families.ts";
import { foundInFamilies, nearestIndex, type SearchOutcome, strictness } from "./family-search.ts";
import type { Advice, Candidate, Goal, Recommendation } from "./goal.ts";
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
import { leastKeysOfSizes } from "./tail.ts";
import { judged, type JudgedLimit, type Traffic, trafficOf, tryLimits } from "./trial.ts";

const mostOutliers = 10;

/** The parts of an advice that stay empty without a replay. */
const unreplayed = { candidates: [], global: null, notes: [], outliers: [] } as const;

/**
 * Replays limits that may meet the goal. Yields the share that is done, from 0 to 1; a caller cancels by not continuing. Equal
 * timelines give equal advice.
 */
export function* advise(timelines: Timelines, goal: Goal): Generator<number, Advice> {
  const { source } = timelines;
  if (timelines.atMs.length === 0) {
    const recommendation = { kind: "wait", forMs: null, reason: nothingRecordedReason } as const;
    return { ...unreplayed, goal, recommendation, source };
  }
  const traffic = trafficOf(timelines);
  if (goal.kind === "origin-rate") return yield* adviseForOrigin(traffic, goal);
  const found = goal.kind === "key-rate" ? yield* guaranteed(traffic, goal) : yield* foundInFamilies(traffic, goal);
  yield 1;
  const ordered = byStrictness(found);
  const candidates = ordered.map(({ best }) => best.candidate);
  const recommendation = recommend(traffic, goal, ordered);
  const shown = candidates[nearestIndex(goal, ordered)] ?? null;
  const outliers = shown === null ? [] : deniedMost(timelines, shown.result, mostOutliers);
  const notes = notesOf(traffic, goal, shown);
  return { goal, candidates, recommendation, global: null, notes, outliers, source };
}

/**
 * Seeks a limit per key for which the whole interval of the worst burst meets the goal. If that is no better than one
 * limit for all keys, it seeks a limit per key whose recorded worst burst meets the goal.
 */
function* adviseForOrigin(traffic: Traffic, goal: OriginGoal): Generator<number, Advice> {
  const { source } = traffic.timelines;
  const { mostPerSecond } = goal;
  const unlimited = unlimitedBurst(traffic);
  if (unlimited.high <= mostPerSecond) {
    const reason = unneededReason(mostPerSecond, unlimited);
    const recommendation = { kind: "unneeded", reason } as const;
    return { ...unreplayed, goal, recommendation, source };
  }
  const global = yield* scaled(replayGlobal(traffic, mostPerSecond), [0, 0.1]);
  let found = yield* scaled(foundInFamilies(traffic, goal), [0.1, 0.6]);
  const isFound = found.some(({ best }) => isSure(best) && isBetter(best.candidate, global));
  if (!isFound && unlimited.value > mostPerSecond) {
    const estimated = yield* scaled(foundInFamilies(traffic, goal, "value"), [0.6, 1]);
    const added = estimated.filter(({ best }) => isOnlyNear(best));
    const families = new Set(added.map(familyOf));
    const kept = found.filter((each) => isSure(each.best) || !families.has(familyOf(each)));
    found = [...kept, ...added];
  }
  yield 1;
  const ordered = byStrictness(found);
  const candidates = ordered.map(({ best }) => best.candidate);
  const sure = ordered.filter(({ best }) => isSure(best));
  const near = ordered.filter(({ best }) => isOnlyNear(best));
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

const isSure = ({ candidate }: JudgedLimit): boolean => candidate.meetsGoal;
const isOnlyNear = ({ candidate, isNear }: JudgedLimit): boolean => isNear && !candidate.meetsGoal;

const byStrictness = (found: readonly SearchOutcome[]): SearchOutcome[] =>
  found.toSorted((a, b) => strictness(a.best.candidate) - strictness(b.best.candidate));

const familyOf = ({ best }: SearchOutcome): string =>
  best.candidate.limits.map(({ strategy, windowMs }) => `${strategy} ${windowMs}`).join();

/** A sliding log of more units takes too much storage: `sliding-buckets` ensures the same bound with less. */
const mostOfLog = 1_000;

/** Whether a strategy can count so many units in such a window. */
function isPossible(written: LimitInput): boolean {
  let problems = 0;
  readLimits(written, {}, () => problems++);
  return problems === 0;
}

/** Tries the limits whose bound is the goal's rate. */
function* guaranteed(
  traffic: Traffic,
  goal: Goal & { readonly kind: "key-rate" },
): Generator<number, readonly SearchOutcome[]> {
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
    const best = judged(traffic, goal, each);
    return { best, last: best };
  });
}

function recommend(traffic: Traffic, goal: Goal, found: readonly SearchOutcome[]): Recommendation {
  const index = nearestIndex(goal, found);
  const nearest = found[index]?.best;
  if (nearest === undefined) return { kind: "wait", forMs: null, reason: nothingRecordedReason };
  const { candidate } = nearest;
  if (candidate.meetsGoal) {
    const reason = `${recommendedReason(goal, candidate)}${headroom(traffic, goal, candidate)}`;
    return { kind: "recommended", candidate: index, reason };
  }
  const leastHigh = Math.min(...found.map(({ last }) => last.high));
  const cause = waitCause(traffic, goal, Math.min(...found.map(({ last }) => last.highOfSuchKeys)));
  const neededKeys =
    cause === "few-sizes"
      ? leastKeysOfSizes / traffic.timelines.keys.length
      : cause === "few-keys" && "mostShare" in goal
        ? leastHigh / goal.mostShare
        : null;
  const forMs = neededKeys === null ? null : waitMs(traffic, neededKeys);
  const facts = { forMs, leastHigh, cause, nearest: nearest.isNear ? candidate : null };
  return { kind: "wait", forMs, reason: waitReason(traffic, goal, facts) };
}

/** The reason why no limit meets a goal about shares. */
function waitCause({ tail }: Traffic, goal: Goal, leastHighOfSuch: number): WaitCause {
  if (goal.kind !== "denied-requests") return "few-keys";
  if (tail.isOfFew) return "few-sizes";
  if (tail.isHeavy) return "heavy-tail";
  return leastHighOfSuch <= goal.mostShare ? "outside-sample" : "few-keys";
}

/** A sentence for traffic whose keys all stay far below the limit; empty for other traffic. */
function headroom({ timelines }: Traffic, goal: Goal, { limits: [limit] }: Candidate): string {
  if (!("mostShare" in goal) || limit === undefined || !isLeast(limit)) return "";
  const most = greatest(peaks(timelines, limit.windowMs));
  return 2 * most <= limit.limit ? sparseReason(most, limit) : "";
}
