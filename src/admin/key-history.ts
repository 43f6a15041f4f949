/**
 * `/api/keys/{policy}/{id}/history` and `…/recording`: the requests of one key over time. They are known from the sample of
 * traffic if it has the key, and while an operator records the key.
 */
import * as v from "valibot";
import { isSampledKey } from "../control/isolate/traffic-sample.ts";
import { type OutcomeName, outcomeNames } from "../control/protocol.ts";
import type { RecordedCounts, RecordedPeriod } from "../control/recording-calls.ts";
import type { SampledArrival } from "../control/sample-codec.ts";
import {
  type AdminContext,
  type AuthorizedCall,
  CallRefused,
  answer,
  emptyAnswer,
  fieldsRefused,
  instant,
  instantText,
  keyIdOf,
  policyOf,
  queryIn,
} from "./context.ts";
import { coverageOf, PolicySamples } from "./sample-routes.ts";
import { stepText } from "./statistics-routes.ts";
import type { KeyHistory, RecordingView } from "./wire.ts";

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

function namedBy(context: AdminContext, c: AuthorizedCall): { readonly policy: string; readonly key: string } {
  const { name } = policyOf(context, c.req.param("policy") ?? "");
  return { policy: name, key: keyIdOf(c.req.param("id") ?? "") };
}

const viewOf = ({ fromMs, untilMs }: RecordedPeriod): RecordingView => ({
  from: instantText(fromMs),
  until: instantText(untilMs),
});

/** Records the key for an hour from now on. */
export async function recordKey(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  queryIn(c, {});
  const name = namedBy(context, c);
  const { actor } = c.var.operator;
  const reply = await context.controlPlane.call((stub) => stub.record({ ...name, actor }));
  if (reply.kind === "recordings-full") {
    throw new CallRefused({ ...reply, nextEnd: instantText(reply.nextEndMs) });
  }
  context.control.watch();
  return answer<RecordingView>(viewOf(reply.value));
}

export async function stopRecording(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  queryIn(c, {});
  const name = namedBy(context, c);
  const { actor } = c.var.operator;
  await context.controlPlane.call((stub) => stub.stopRecording({ ...name, actor }));
  return emptyAnswer();
}

const historyQuery = {
  from: v.optional(instant),
  to: v.optional(instant),
  step: v.optional(stepText, "5m"),
};

type KeyQuery = ReturnType<typeof namedBy> & RangeOfTime;
interface RangeOfTime {
  readonly fromMs: number;
  readonly toMs: number;
}

/** The default period is the last 24 hours, in steps of 5 minutes. */
export async function readKeyHistory(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const { from, to, step: stepMs } = queryIn(c, historyQuery);
  const nowMs = context.clock.now();
  const toMs = to ?? nowMs;
  const fromMs = from ?? toMs - dayMs;
  if (fromMs >= toMs || toMs - fromMs > dayMs) {
    throw fieldsRefused([{ field: "from", accepted: "an instant before to, by at most 24 hours" }]);
  }
  const query = { ...namedBy(context, c), fromMs, toMs };
  const [recorded, sampled] = await Promise.all([
    context.controlPlane.call((stub) => stub.recordedCounts(query)),
    sampledHistory(context, query),
  ]);
  context.control.watch();
  const current = recorded.periods.find(({ untilMs }) => untilMs > nowMs);
  return answer<KeyHistory>({
    policy: query.policy,
    id: query.key,
    from: instantText(fromMs),
    to: instantText(toMs),
    stepMs,
    sample: sampled === null ? null : { from: instantText(sampled.sinceMs), coverage: sampled.coverage },
    recordings: recorded.periods.map(viewOf),
    recording: current === undefined ? null : viewOf(current),
    points: pointsOf(recorded, sampled?.arrivals ?? [], query, stepMs),
  });
}

interface SampledHistory {
  readonly sinceMs: number;
  readonly arrivals: readonly SampledArrival[];
  readonly coverage: number;
}

/** Null when the sample does not have the key, or has nothing of the policy in this period. */
async function sampledHistory(
  context: AdminContext,
  { policy, key, ...range }: KeyQuery,
): Promise<SampledHistory | null> {
  const { sampleOneKeyIn } = context;
  if (sampleOneKeyIn === null || !isSampledKey(key, sampleOneKeyIn)) return null;
  const { dropped, ...stored } = await context.controlPlane.call((stub) => stub.samples({ policy, ...range }));
  const hasKey = ({ oneKeyIn }: { readonly oneKeyIn: number }): boolean => isSampledKey(key, oneKeyIn);
  const index = { chunks: stored.chunks.filter(hasKey), open: stored.open.filter(hasKey), dropped };
  const parts = [...index.chunks, ...index.open];
  if (parts.length === 0) return null;
  const oneKeyIn = Math.max(...parts.map((part) => part.oneKeyIn));
  const samples = new PolicySamples(context, policy, index, { ...range, oneKeyIn });
  const [arrivals, counts] = await Promise.all([samples.arrivalsOf(key), samples.counts()]);
  const sinceMs = Math.max(range.fromMs, Math.min(...parts.map((part) => part.fromMs)));
  return { sinceMs, arrivals, coverage: coverageOf(counts) };
}

type Outcomes = Partial<Record<OutcomeName, number>>;

/**
 * Minutes that are recorded as a whole have the counts of the recording. Others have those of the sample, or those of a
 * recording that began or ended in the minute.
 */
function pointsOf(
  { periods, points }: RecordedCounts,
  arrivals: readonly SampledArrival[],
  { fromMs, toMs }: RangeOfTime,
  stepMs: number,
): KeyHistory["points"] {
  const isRecorded = (atMs: number): boolean =>
    periods.some((period) => period.fromMs <= atMs && atMs + minuteMs <= period.untilMs);
  const sampled = new Set<number>();
  const steps = new Map<number, Outcomes>();
  const add = (atMs: number, outcome: OutcomeName, count: number): void => {
    if (count === 0) return;
    const stepAtMs = floorTo(stepMs, atMs);
    const outcomes = steps.get(stepAtMs) ?? {};
    steps.set(stepAtMs, outcomes);
    outcomes[outcome] = (outcomes[outcome] ?? 0) + count;
  };
  for (const { atMs, outcome } of arrivals) {
    const minuteAtMs = floorTo(minuteMs, atMs);
    if (isRecorded(minuteAtMs)) continue;
    sampled.add(minuteAtMs);
    add(atMs, outcome, 1);
  }
  for (const { atMs, outcomes } of points) {
    if (sampled.has(atMs) || atMs >= toMs || atMs + minuteMs <= fromMs) continue;
    for (const outcome of outcomeNames) add(atMs, outcome, outcomes[outcome] ?? 0);
  }
  return [...steps]
    .toSorted(([one], [other]) => one - other)
    .map(([atMs, outcomes]) => ({ at: instantText(atMs), outcomes }));
}

const floorTo = (unitMs: number, atMs: number): number => Math.floor(atMs / unitMs) * unitMs;
