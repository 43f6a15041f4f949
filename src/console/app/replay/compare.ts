/** Decides sampled traffic in several ways, and finds the keys for which the ways differ most. */
import { deniedKeyShare, deniedShare } from "../../../advisor/search/interval.ts";
import type { Samples } from "../../../advisor/replay/read-samples.ts";
import { replay } from "../../../advisor/replay/replay.ts";
import { addToStep, arrivalSteps, type ReplayResult, type StepCounts } from "../../../advisor/replay/result.ts";
import { arrivalOutcomes, isDeniedOutcome, type Timelines } from "../../../advisor/replay/timelines.ts";
import type { AffectedKey, Comparison, ComparisonRequest, DecidedTraffic, Decider } from "./messages.ts";

const minuteMs = 60_000;
/** A plot in a dialog has room for about this many steps. */
const mostSteps = 144;

/** Yields the share that is done, from 0 to 1. A caller that stops taking it cancels the comparison. */
export function* compare(
  samples: Pick<Samples, "timelines" | "withOtherLimits">,
  { deciders, key }: ComparisonRequest,
): Generator<number, Comparison> {
  const timelines = key === undefined ? samples.timelines : onlyKey(samples.withOtherLimits, key);
  const { fromMs, toMs } = timelines.source;
  const stepMs = minuteMs * Math.ceil(Math.max(1, toMs - fromMs) / mostSteps / minuteMs);
  const limitSets = deciders.flatMap((decider) => (decider.kind === "limits" ? [decider.limits] : []));
  const once = yield* shareOf(replay(timelines, limitSets, { stepMs }), 0);
  const retried = yield* shareOf(replay(timelines, limitSets, { stepMs, retry: "obey" }), 0.5);
  const steps = once[0]?.denials ?? arrivalSteps(timelines, stepMs);
  let replays = 0;
  const counted = deciders.map((decider) => {
    if (decider.kind !== "limits") return countedBy(decider, timelines, steps);
    const [first, again] = [once[replays], retried[replays]];
    replays++;
    if (first === undefined || again === undefined) throw new Error("expected a result for each");
    return replayed(timelines, first, again);
  });
  return {
    source: timelines.source,
    requests: timelines.atMs.length,
    keys: timelines.keys.length,
    results: counted.map(({ traffic }) => traffic),
    ...affectedBy(
      timelines,
      counted.map(({ deniedOfKey }) => deniedOfKey),
    ),
  };
}

/** Half of the progress. */
function* shareOf<Result>(steps: Generator<number, Result>, begun: number): Generator<number, Result> {
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) yield begun + step.value / 2;
  return step.value;
}

/** The decisions of one decider, and the denials of each key. */
interface KeyedTraffic {
  readonly traffic: DecidedTraffic;
  readonly deniedOfKey: Uint32Array;
}

/** The decisions of a replay without and with retries. */
const replayed = (timelines: Timelines, once: ReplayResult, again: ReplayResult): KeyedTraffic => ({
  traffic: {
    ...countsOf(timelines, once.deniedOfKey),
    denials: once.denials,
    longestDeniedMs: once.longestDeniedMs,
    retrying: {
      denied: again.denied,
      denials: again.denials,
      abandoned: again.retries?.abandoned ?? 0,
      longestWaitMs: again.retries?.longestWaitMs ?? 0,
    },
  },
  deniedOfKey: once.deniedOfKey,
});

/** Decisions that need no replay. */
function countedBy(
  { kind }: Exclude<Decider, { readonly kind: "limits" }>,
  timelines: Timelines,
  { startMs, stepMs, counts }: StepCounts,
): KeyedTraffic {
  const isDenied = arrivalOutcomes.map(
    (outcome) => kind === "all-denied" || (kind === "recorded" && isDeniedOutcome(outcome)),
  );
  const deniedOfKey = new Uint32Array(timelines.keys.length);
  const denials = { startMs, stepMs, counts: new Float64Array(counts.length) };
  for (const key of timelines.keys.keys()) {
    const end = timelines.firstRow[key + 1] ?? 0;
    for (let row = timelines.firstRow[key] ?? 0; row < end; row++) {
      if (isDenied[timelines.outcome[row] ?? 0] !== true) continue;
      deniedOfKey[key] = (deniedOfKey[key] ?? 0) + 1;
      addToStep(denials, timelines.atMs[row] ?? 0, 1);
    }
  }
  const traffic = { ...countsOf(timelines, deniedOfKey), denials, longestDeniedMs: null, retrying: null };
  return { traffic, deniedOfKey };
}

type Counts = Pick<DecidedTraffic, "denied" | "deniedShare" | "deniedKeys" | "deniedKeyShare">;

function countsOf({ keys, firstRow, source }: Timelines, deniedOfKey: Uint32Array): Counts {
  const requests = Float64Array.from(keys, (_, key) => (firstRow[key + 1] ?? 0) - (firstRow[key] ?? 0));
  const { oneKeyIn, requests: allRequests, lostArrivals } = source;
  const deniedKeys = deniedOfKey.reduce((sum, denied) => sum + Number(denied > 0), 0);
  const { value, low, high } = deniedShare({ requests, denied: deniedOfKey }, { oneKeyIn, allRequests, lostArrivals });
  return {
    denied: deniedOfKey.reduce((sum, denied) => sum + denied, 0),
    deniedShare: { value, low, high },
    deniedKeys,
    deniedKeyShare: deniedKeyShare(keys.length, deniedKeys, { oneKeyIn }),
  };
}

const mostListed = 10;

/** @param deniedOfKey the denials of each key, by decider; the last two are compared */
function affectedBy(
  { keys, firstRow, atMs }: Timelines,
  deniedOfKey: readonly Uint32Array[],
): Pick<Comparison, "affected" | "affectedKeys"> {
  const [then, now] = deniedOfKey.toReversed();
  const difference = (key: number): number => (then?.[key] ?? 0) - (now?.[key] ?? 0);
  const differing = [...keys.keys()].filter((key) => difference(key) !== 0);
  const affected = differing
    .toSorted((one, other) => Math.abs(difference(other)) - Math.abs(difference(one)))
    .slice(0, mostListed)
    .map((index): AffectedKey => {
      const requests = (firstRow[index + 1] ?? 0) - (firstRow[index] ?? 0);
      return {
        key: keys[index] ?? "",
        requests,
        shareOfRequests: requests / atMs.length,
        denied: deniedOfKey.map((denied) => denied[index] ?? 0),
      };
    });
  return { affected, affectedKeys: differing.length };
}

/** Without rows if the key is not in the timelines. */
function onlyKey(timelines: Timelines, key: string): Timelines {
  const { keys, firstRow, atMs, cost, outcome, reservations, source } = timelines;
  const index = keys.indexOf(key);
  const [from, to] = index === -1 ? [0, 0] : [firstRow[index] ?? 0, firstRow[index + 1] ?? 0];
  const own = [...reservations].filter(([row]) => row >= from && row < to);
  return {
    keys: index === -1 ? [] : [key],
    firstRow: Uint32Array.from(index === -1 ? [0] : [0, to - from]),
    atMs: atMs.slice(from, to),
    cost: cost.slice(from, to),
    outcome: outcome.slice(from, to),
    reservations: new Map(own.map(([row, each]) => [row - from, each])),
    // The traffic of one key is known completely.
    source: { ...source, oneKeyIn: 1, requests: to - from },
  };
}
