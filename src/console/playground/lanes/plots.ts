/** Computes the plots of the lanes in short tasks, so that the page answers to input meanwhile. */
import { computed, effect, signal } from "@preact/signals";
import { now } from "../../app/clock.ts";
import { lanesOf } from "../model/lanes.ts";
import { cursorMs, followed, scenario, shownLanes, type Span, zoom } from "../page-state.ts";
import { laneRuns, runLanes, runStatus } from "../runner.ts";
import type { LaneRun } from "../model/scenario.ts";
import { type Bins, binsOf } from "./bins.ts";
import { type Curve, curveOf } from "./curve.ts";
import { columnPx, type Scale } from "./draw.ts";
import { ticksOf } from "./time-text.ts";

/** In CSS pixels; 0 before the first layout. All plots and the time axis have this width. */
export const plotWidth = signal(0);

export const visibleRuns = computed<readonly LaneRun[]>(() =>
  runLanes.value.flatMap((lane) => {
    const run = laneRuns.value.get(lane);
    return run === undefined || !shownLanes.value.includes(lane) ? [] : [run];
  }),
);

let latestSettled: readonly LaneRun[] = [];

/** The lanes of the latest run that is over, for summaries, which would change with each lane that arrives. */
export const settledRuns = computed<readonly LaneRun[]>(() => {
  if (runStatus.value !== "running") latestSettled = visibleRuns.value;
  return latestSettled;
});

/** From the start to the last request of any lane, with a little room after it. */
export const wholeSpan = computed<Span>(() => {
  const { traffic, lengthMs } = scenario.value;
  const isGiven = traffic.kind === "log" || traffic.kind === "times";
  const lastMs = visibleRuns.value.reduce((most, { atMs }) => Math.max(most, atMs.at(-1) ?? 0), 0);
  return { fromMs: 0, toMs: Math.max(isGiven ? 1_000 : lengthMs, Math.ceil(lastMs * 1.02) + 1) };
});

/** The chosen instant; null if the run ends before it, as after a change of the traffic. */
export const shownCursorMs = computed<number | null>(() => {
  const at = cursorMs.value;
  return at === null || at > wholeSpan.value.toMs ? null : at;
});

export const span = computed<Span>((): Span => {
  const next = zoom.value ?? wholeSpan.value;
  const { fromMs, toMs } = latestSpan;
  // Equal spans are one object, so that nothing is computed again.
  if (fromMs !== next.fromMs || toMs !== next.toMs) latestSpan = next;
  return latestSpan;
});

let latestSpan: Span = { fromMs: 0, toMs: 1 };

/** The column of the plot that shows an instant; outside of the plot for an instant outside of the span. */
export function columnOf(atMs: number): number {
  const { fromMs, toMs } = span.value;
  const perMs = plotWidth.value / columnPx / (toMs - fromMs);
  return Math.floor((atMs - fromMs) * perMs);
}

/** The pixels that a mark of the time axis needs with its text. */
const tickPx = 84;

/** The marks of the time axis, which are lines in all plots. */
export const ticks = computed(() => ticksOf(span.value, plotWidth.value / tickPx));

/** The client that is denied most, or else the first one. */
const mostDeniedKey = ({ summary, key }: LaneRun): number => summary.topDenied[0]?.key ?? key[0] ?? 0;

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
  readonly curve: Curve;
}

/** By lane. A lane keeps its earlier plot until the next one is complete. */
export const plots = signal<ReadonlyMap<string, Plot>>(new Map());

let latestScale: Scale = { allowed: 1, denied: 1, waitMs: 1 };

export const scale = computed<Scale>(() => {
  const shown = visibleRuns.value.flatMap(({ lane }) => plots.value.get(lane)?.bins ?? []);
  const most = (number: (bins: Bins) => number): number => Math.max(1, ...shown.map(number));
  const next = {
    allowed: most(({ mostAllowed }) => mostAllowed),
    denied: most(({ mostDenied }) => mostDenied),
    waitMs: most(({ mostWaitMs }) => mostWaitMs),
  };
  const { allowed, denied, waitMs } = latestScale;
  // Equal scales are one object, so that no lane is drawn again.
  if (allowed !== next.allowed || denied !== next.denied || waitMs !== next.waitMs) latestScale = next;
  return latestScale;
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
      columns: plotWidth.value / columnPx,
      key: followedKey.value,
      lanes: lanesOf(scenario.value).lanes,
    };
    if (input.columns > 0) void compute(input, () => latest === job);
  });
  return () => {
    latest = null;
    finished.clear();
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

/** The latest plot of each lane, also of a computation that a newer one replaced. */
const finished = new Map<string, Plot>();

async function compute(input: PlotInput, isLatest: () => boolean): Promise<void> {
  const { runs, columns, key, lanes, span: shown } = input;
  const next = new Map<string, Plot>();
  const take = budget(isLatest);
  for (const run of runs) {
    let plot = finished.get(run.lane);
    if (plot === undefined || !isSame(plot, run, input)) {
      const { limits = [] } = lanes.find(({ lane }) => lane === run.lane) ?? {};
      // oxlint-disable no-await-in-loop -- each step is a task of its own
      const bins = await take(binsOf(run, shown, columns));
      const curve = await take(curveOf({ run, limits, key, span: shown, points: columns }));
      // oxlint-enable no-await-in-loop
      if (bins === null || curve === null) return;
      plot = { run, span: shown, columns, key, bins, curve };
      finished.set(run.lane, plot);
    }
    next.set(run.lane, plot);
  }
  if (isLatest()) plots.value = next;
}

/** Returns a function that takes all steps of a computation in short tasks; null if it is no longer wanted. */
function budget(isWanted: () => boolean) {
  let startedAt = now();
  return async <Result>(steps: Generator<void, Result>): Promise<Result | null> => {
    for (let step = steps.next(); ; step = steps.next()) {
      if (step.done === true) return step.value;
      if (now() - startedAt >= taskMs) {
        // oxlint-disable-next-line no-await-in-loop -- each step is a task of its own
        await nextTask();
        startedAt = now();
      }
      if (!isWanted()) return null;
    }
  };
}
