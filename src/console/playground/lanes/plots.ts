/**
 * Computes the plots of the lanes: the rows of a lane summed by columns, because a run has more rows than a screen has
 * pixels. The work is done in short tasks, so that the page answers to input meanwhile.
 */
import { computed, effect, type ReadonlySignal, signal } from "@preact/signals";
import { inSteps } from "../../app/long-work.ts";
import { cursorMs, followed, scenario, shownLanes, type Span, zoom } from "../page-state.ts";
import { laneRuns, runLanes, runStatus } from "../runner.ts";
import { firstRowAt, outcome } from "../model/columns.ts";
import { ClientReplay, type LaneRun, leastRemaining } from "../model/run.ts";

/** The width of all plots and of the time axis in CSS pixels; 0 before the first layout. */
export const plotWidth = signal(0);

export const visibleRuns = computed<readonly LaneRun[]>(() =>
  runLanes.value.flatMap((lane) => {
    const run = laneRuns.value.get(lane);
    return run === undefined || !shownLanes.value.includes(lane) ? [] : [run];
  }),
);

let latestSettled: readonly LaneRun[] = [];

/**
 * The lanes of the latest finished run. Summaries use them, because they would otherwise change with each lane that
 * arrives.
 */
export const settledRuns = computed<readonly LaneRun[]>(() => {
  if (runStatus.value !== "running") latestSettled = visibleRuns.value;
  return latestSettled;
});

/** The span from the start to the last request of any lane, with a little room after it. */
export const wholeSpan = computed<Span>(() => {
  const { traffic, lengthMs } = scenario.value;
  const isGiven = traffic === "log" || traffic === "times";
  const lastMs = visibleRuns.value.reduce((most, { atMs }) => Math.max(most, atMs.at(-1) ?? 0), 0);
  return { fromMs: 0, toMs: Math.max(isGiven ? 1_000 : lengthMs, Math.ceil(lastMs * 1.02) + 1) };
});

/** The chosen instant. Null if the run ends before it, for example because the traffic has changed. */
export const shownCursorMs = computed<number | null>(() => {
  const at = cursorMs.value;
  return at === null || at > wholeSpan.value.toMs ? null : at;
});

/**
 * A computed record that stays the same object until one of its values changes, so that dependent values are not
 * computed again.
 */
function stable<Values extends object>(current: () => Values): ReadonlySignal<Values> {
  let latest: Values | null = null;
  return computed(() => {
    const next = current();
    const known = latest;
    const isSame = known !== null && Object.entries(next).every(([name, value]) => Reflect.get(known, name) === value);
    return isSame ? known : (latest = next);
  });
}

export const span = stable<Span>(() => zoom.value ?? wholeSpan.value);

/** The width of a bar with the gap that follows it. */
export const columnPx = 3;

/** The column that shows an instant. If the instant is outside of the span, the column is outside of the plot. */
export function columnOf(atMs: number): number {
  const { fromMs, toMs } = span.value;
  const perMs = plotWidth.value / columnPx / (toMs - fromMs);
  return Math.floor((atMs - fromMs) * perMs);
}

/** The width of a mark of the time axis with its text, in pixels. */
const tickPx = 84;

const tickSteps = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000,
  900_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000,
];
const longestStep = 86_400_000;

/** The round instants that the time axis marks. All plots draw lines at them. */
export const ticks = computed<readonly number[]>(() => {
  const { fromMs, toMs } = span.value;
  const leastMs = (toMs - fromMs) / Math.max(1, plotWidth.value / tickPx);
  const stepMs = tickSteps.find((each) => each >= leastMs) ?? Math.ceil(leastMs / longestStep) * longestStep;
  const instants: number[] = [];
  for (let at = Math.ceil(fromMs / stepMs) * stepMs; at <= toMs; at += stepMs) instants.push(at);
  return instants;
});

/**
 * The index of the client whose remaining units are shown: the chosen client, or the one denied most. It is the same in
 * all lanes.
 */
export const followedKey = computed<number>(() => {
  const runs = visibleRuns.value;
  const [first] = runs;
  if (first === undefined) return 0;
  const named = followed.value === null ? -1 : first.keys.indexOf(followed.value);
  if (named !== -1) return named;
  const { summary, key } = runs.find((run) => run.summary.denied > 0) ?? first;
  return summary.topDenied[0]?.key ?? key[0] ?? 0;
});

/** Everything that decides the columns of a lane, apart from its run. */
const plotForm = stable(() => ({
  span: span.value,
  /** The number of columns. The last column may be incomplete, so that the columns exactly fill the time axis. */
  columns: plotWidth.value / columnPx,
  key: followedKey.value,
}));

type PlotForm = typeof plotForm.value;

export interface Plot {
  readonly run: LaneRun;
  readonly form: PlotForm;
  readonly columns: LaneColumns;
}

/** The plots by lane. A lane keeps its earlier plot until the next one is complete. */
export const plots = signal<ReadonlyMap<string, Plot>>(new Map());

/** The greatest values in a column of any lane. All lanes share them, so that their heights can be compared. */
export const scale = stable(() => {
  const shown = visibleRuns.value.flatMap(({ lane }) => plots.value.get(lane)?.columns ?? []);
  const most = (name: "allowed" | "denied" | "waitMs"): number =>
    shown.reduce((highest, columns) => columns[name].reduce((one, other) => Math.max(one, other), highest), 1);
  return { allowed: most("allowed"), denied: most("denied"), waitMs: most("waitMs") };
});

export type Scale = typeof scale.value;

/** A task of this length delays no input noticeably. */
const taskMs = 12;

/** Computes the plots of all lanes at each change, until the returned function is called. */
export function followPlots(): () => void {
  let latest = 0;
  const stop = effect(() => {
    const own = ++latest;
    if (plotForm.value.columns > 0) void compute(visibleRuns.value, plotForm.value, () => own === latest);
  });
  return () => {
    latest++;
    stop();
  };
}

/** The latest plot of each run, even if a newer computation has replaced the one that made it. */
const finished = new WeakMap<LaneRun, Plot>();

async function compute(runs: readonly LaneRun[], form: PlotForm, isWanted: () => boolean): Promise<void> {
  const next = await inSteps(plotsOf(runs, form), taskMs, isWanted);
  if (next !== null) plots.value = next;
}

function* plotsOf(runs: readonly LaneRun[], form: PlotForm): Generator<void, ReadonlyMap<string, Plot>> {
  const next = new Map<string, Plot>();
  for (const run of runs) {
    let plot = finished.get(run);
    if (plot?.form !== form) {
      plot = { run, form, columns: yield* laneColumns(run, form) };
      finished.set(run, plot);
    }
    next.set(run.lane, plot);
  }
  return next;
}

/** One value for each column of the chart. */
interface LaneColumns {
  /** When each column begins. */
  readonly atMs: Float64Array;
  /** The allowed units, including those that waited. */
  readonly allowed: Float64Array;
  readonly denied: Float64Array;
  /** The allowed units that waited in a queue. */
  readonly delayed: Float64Array;
  /** The longest wait in a queue, in milliseconds. */
  readonly waitMs: Float64Array;
  /** The remaining units of one client, as two values for each column: at its beginning, and the least in it. */
  readonly remaining: Float64Array;
}

const rowsPerStep = 1_000;

/**
 * Computes the columns. Yields about once a millisecond. For the remaining units, the engine decides the requests of
 * the client once more.
 */
function* laneColumns(run: LaneRun, { span: shown, columns, key }: PlotForm): Generator<void, LaneColumns> {
  const { fromMs, toMs } = shown;
  const column = () => new Float64Array(Math.ceil(columns));
  const [allowed, denied, delayed, waitMs] = [column(), column(), column(), column()];
  const perMs = columns / (toMs - fromMs);
  const atMs = column().map((_, index) => fromMs + index / perMs);
  const client = new ClientReplay(run, key);
  const remaining = new Float64Array(2 * atMs.length);
  let looked = 0;
  const lookUntil = (untilMs: number): void => {
    for (; looked < atMs.length && (atMs[looked] ?? 0) <= untilMs; looked++) {
      remaining.fill(leastRemaining(client.look(0, Math.floor(atMs[looked] ?? 0))), 2 * looked, 2 * looked + 2);
    }
  };
  const end = firstRowAt(run, toMs);
  for (let row = 0; row < end; row++) {
    if (row % rowsPerStep === rowsPerStep - 1) yield;
    const rowMs = run.atMs[row] ?? 0;
    const bin = Math.floor((rowMs - fromMs) * perMs);
    if (client.changesBy(row)) {
      lookUntil(rowMs);
      client.decide(row);
      if (bin >= 0) remaining[2 * bin + 1] = Math.min(remaining[2 * bin + 1] ?? 0, run.remaining[row] ?? 0);
    }
    if (bin < 0) continue;
    const cost = run.cost[row] ?? 0;
    const kind = run.outcome[row];
    const units = kind === outcome.denied ? denied : allowed;
    units[bin] = (units[bin] ?? 0) + cost;
    if (kind !== outcome.delayed) continue;
    delayed[bin] = (delayed[bin] ?? 0) + cost;
    waitMs[bin] = Math.max(waitMs[bin] ?? 0, run.waitMs[row] ?? 0);
  }
  lookUntil(toMs);
  return { atMs, allowed, denied, delayed, waitMs, remaining };
}
