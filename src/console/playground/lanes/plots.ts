/** Computes the plots of the lanes in short tasks, so that the page answers to input meanwhile. */
import { batch, computed, effect, signal } from "@preact/signals";
import { now } from "../../clock.ts";
import { lanesOf } from "../model/lanes.ts";
import { followed, scenario, shownLanes, type Span, zoom } from "../page-state.ts";
import { laneRuns, runState } from "../runner.ts";
import type { LaneRun } from "../model/scenario.ts";
import { type Bins, binsOf } from "./bins.ts";
import { type Curve, curveOf } from "./curve.ts";
import { columnPx, type Scale } from "./draw.ts";
import { ticksOf } from "./time-text.ts";

/** In CSS pixels; 0 before the first layout. All plots and the time axis have this width. */
export const plotWidth = signal(0);

export const visibleRuns = computed<readonly LaneRun[]>(() =>
  runState.value.lanes.flatMap((lane) => {
    const run = laneRuns.value.get(lane);
    return run === undefined || !shownLanes.value.includes(lane) ? [] : [run];
  }),
);

/** From the start to the last request of any lane, with a little room after it. */
export const wholeSpan = computed<Span>(() => {
  const { traffic, lengthMs } = scenario.value;
  const isGiven = traffic.kind === "log" || traffic.kind === "times";
  const lastMs = visibleRuns.value.reduce((most, { atMs }) => Math.max(most, atMs.at(-1) ?? 0), 0);
  return { fromMs: 0, toMs: Math.max(isGiven ? 1_000 : lengthMs, Math.ceil(lastMs * 1.02) + 1) };
});

export const span = computed<Span>((): Span => {
  const next = zoom.value ?? wholeSpan.value;
  const { fromMs, toMs } = latestSpan;
  // Equal spans are one object, so that nothing is computed again.
  if (fromMs !== next.fromMs || toMs !== next.toMs) latestSpan = next;
  return latestSpan;
});

let latestSpan: Span = { fromMs: 0, toMs: 1 };

/** The pixels that a mark of the time axis needs with its text. */
const tickPx = 84;

/** The marks of the time axis, which are lines in all plots. */
export const ticks = computed(() => ticksOf(span.value, plotWidth.value / tickPx));

/** The client that is denied most, or else the first one. */
const mostDeniedKey = ({ summary, key }: LaneRun): number =>
  summary.topDenied[0]?.key ?? key[0] ?? 0;

/** The index of the client whose remaining units are shown. It is the same in all lanes. */
export const followedKey = computed<number>(() => {
  const [run] = visibleRuns.value;
  if (run === undefined) return 0;
  const named = followed.value === null ? -1 : run.keys.indexOf(followed.value);
  if (named !== -1) return named;
  const denying = visibleRuns.value.find(({ summary }) => summary.denied > 0);
  return mostDeniedKey(denying ?? run);
});

interface Plot {
  readonly run: LaneRun;
  readonly span: Span;
  readonly columns: number;
  readonly key: number;
  readonly bins: Bins;
  readonly curve: Curve | null;
}

/** By lane. A lane keeps its earlier plot until the next one is complete. */
export const plots = signal<ReadonlyMap<string, Plot>>(new Map());

export const scale = computed<Scale>(() => {
  const shown = visibleRuns.value.flatMap(({ lane }) => plots.value.get(lane)?.bins ?? []);
  const most = (number: (bins: Bins) => number): number => Math.max(1, ...shown.map(number));
  return {
    allowed: most(({ mostAllowed }) => mostAllowed),
    denied: most(({ mostDenied }) => mostDenied),
    waitMs: most(({ mostWaitMs }) => mostWaitMs),
  };
});

/** A task of this length delays no input noticeably. */
const taskMs = 12;

function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve);
  });
}

/** Computes the plots of all lanes at each change, until the returned function is called. */
export function followPlots(): () => void {
  let latest: object | null = null;
  const stop = effect(() => {
    const job = {};
    latest = job;
    const input = {
      runs: visibleRuns.value,
      span: span.value,
      columns: Math.floor(plotWidth.value / columnPx),
      key: followedKey.value,
      lanes: lanesOf(scenario.value).lanes,
    };
    if (input.columns > 0) void compute(input, () => latest === job);
  });
  return () => {
    latest = null;
    stop();
  };
}

interface PlotInput {
  readonly runs: readonly LaneRun[];
  readonly span: Span;
  readonly columns: number;
  readonly key: number;
  readonly lanes: ReturnType<typeof lanesOf>["lanes"];
}

const isSame = (plot: Plot, run: LaneRun, { span: wanted, columns, key }: PlotInput): boolean =>
  plot.run === run && plot.span === wanted && plot.columns === columns && plot.key === key;

async function compute(input: PlotInput, isLatest: () => boolean): Promise<void> {
  const { runs, columns, key, lanes } = input;
  const next = new Map<string, Plot>();
  let startedAt = now();
  const pause = async (): Promise<void> => {
    if (now() - startedAt < taskMs) return;
    await nextTask();
    startedAt = now();
  };
  for (const run of runs) {
    const earlier = plots.peek().get(run.lane);
    if (earlier !== undefined && isSame(earlier, run, input)) {
      next.set(run.lane, earlier);
      continue;
    }
    // oxlint-disable no-await-in-loop -- each step is a task of its own
    const bins = binsOf(run, input.span, columns);
    await pause();
    const { limits = [] } = lanes.find(({ lane }) => lane === run.lane) ?? {};
    const steps = curveOf({ run, limits, key, span: input.span, points: columns });
    let step = steps.next();
    for (; !step.done; step = steps.next()) {
      await pause();
      if (!isLatest()) return;
    }
    next.set(run.lane, { run, span: input.span, columns, key, bins, curve: step.value });
    // oxlint-disable-end
  }
  if (isLatest()) batch(() => (plots.value = next));
}
