/** Computes the plots of the lanes in short tasks, so that the page answers to input meanwhile. */
import { computed, effect, signal } from "@preact/signals";
import { now } from "../../app/clock.ts";
import { type Lane, lanesOf } from "../model/lanes.ts";
import { cursorMs, followed, scenario, shownLanes, type Span, zoom } from "../page-state.ts";
import { laneRuns, runLanes, runStatus } from "../runner.ts";
import type { LaneRun } from "../model/scenario.ts";
import { type LaneColumns, laneColumns } from "./lane-columns.ts";
import { columnPx, type Scale } from "./lane-chart.ts";
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

/** The choices that decide the columns of a lane. */
interface PlotForm {
  readonly span: Span;
  /** How many there are. */
  readonly columns: number;
  readonly key: number;
}

interface Plot {
  readonly run: LaneRun;
  readonly form: PlotForm;
  readonly columns: LaneColumns;
}

/** By lane. A lane keeps its earlier plot until the next one is complete. */
export const plots = signal<ReadonlyMap<string, Plot>>(new Map());

let latestScale: Scale = { allowed: 1, denied: 1, waitMs: 1 };

export const scale = computed<Scale>(() => {
  const shown = visibleRuns.value.flatMap(({ lane }) => plots.value.get(lane)?.columns ?? []);
  const most = (name: keyof Scale): number =>
    shown.reduce((highest, columns) => columns[name].reduce((one, other) => Math.max(one, other), highest), 1);
  const next = { allowed: most("allowed"), denied: most("denied"), waitMs: most("waitMs") };
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
    const runs = visibleRuns.value;
    const form = { span: span.value, columns: plotWidth.value / columnPx, key: followedKey.value };
    const { lanes } = lanesOf(scenario.value);
    if (form.columns > 0) void compute({ runs, form, lanes }, () => latest === job);
  });
  return () => {
    latest = null;
    finished.clear();
    stop();
  };
}

interface PlotInput {
  readonly runs: readonly LaneRun[];
  readonly form: PlotForm;
  readonly lanes: readonly Lane[];
}

/** The latest plot of each lane, also of a computation that a newer one replaced. */
const finished = new Map<string, Plot>();

async function compute({ runs, form, lanes }: PlotInput, isLatest: () => boolean): Promise<void> {
  const next = new Map<string, Plot>();
  const take = budget(isLatest);
  for (const run of runs) {
    let plot = finished.get(run.lane);
    if (plot?.run !== run || !isSame(plot.form, form)) {
      const { limits = [] } = lanes.find(({ lane }) => lane === run.lane) ?? {};
      // oxlint-disable-next-line no-await-in-loop -- each step is a task of its own
      const columns = await take(laneColumns({ run, limits, ...form }));
      if (columns === null) return;
      plot = { run, form, columns };
      finished.set(run.lane, plot);
    }
    next.set(run.lane, plot);
  }
  if (isLatest()) plots.value = next;
}

const isSame = (one: PlotForm, other: PlotForm): boolean =>
  one.span === other.span && one.columns === other.columns && one.key === other.key;

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

const waiting = new Set<() => void>();

/**
 * Draws the lanes one after the other, each in a task of its own. Returns a function that leaves the drawing out if it has
 * not begun.
 */
export function drawLater(draw: () => void): () => void {
  waiting.add(draw);
  if (waiting.size === 1) setTimeout(drawNext);
  return () => waiting.delete(draw);
}

function drawNext(): void {
  const [draw] = waiting;
  if (draw === undefined) return;
  waiting.delete(draw);
  if (waiting.size > 0) setTimeout(drawNext);
  draw();
}
