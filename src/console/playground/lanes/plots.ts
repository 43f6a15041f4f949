/**
 * Computes the plots of the lanes: the rows of a lane summed by columns, because a run has more rows than a screen has
 * pixels. The work is done in short tasks, so that the page answers to input meanwhile.
 */
import { computed, effect, signal } from "@preact/signals";
import { now } from "../../app/clock.ts";
import { type Lane, lanesOf } from "../model/lanes.ts";
import { cursorMs, followed, scenario, shownLanes, type Span, zoom } from "../page-state.ts";
import { laneRuns, runLanes, runStatus } from "../runner.ts";
import { type LaneRun, outcome } from "../model/scenario.ts";
import type { Limit } from "../../../strategies/index.ts";
import { firstRowAt } from "../model/columns.ts";
import { ClientReplay } from "../model/run.ts";

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
export const ticks = computed(() => roundInstants(span.value, plotWidth.value / tickPx));

/** The distances that the marks may have. */
const tickSteps = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000,
  900_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000,
];

/** Round instants of a span, at most `most` of them. */
function roundInstants({ fromMs, toMs }: Span, most: number): number[] {
  const leastMs = (toMs - fromMs) / Math.max(1, most);
  const largest = tickSteps.at(-1) ?? 1;
  const stepMs = tickSteps.find((each) => each >= leastMs) ?? Math.ceil(leastMs / largest) * largest;
  const instants: number[] = [];
  for (let at = Math.ceil(fromMs / stepMs) * stepMs; at <= toMs; at += stepMs) instants.push(at);
  return instants;
}

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

/** The width of a bar with the gap that follows it. */
export const columnPx = 3;

/** The same for all lanes, so that heights can be compared. */
export interface Scale {
  readonly allowed: number;
  readonly denied: number;
  readonly waitMs: number;
}

/** One value for each column of the chart. */
export interface LaneColumns {
  /** When each column begins. */
  readonly atMs: Float64Array;
  /** Units that were allowed, also those that waited. */
  readonly allowed: Float64Array;
  readonly denied: Float64Array;
  /** Units of the allowed ones that waited in a queue. */
  readonly delayed: Float64Array;
  /** The longest wait in a queue, in milliseconds. */
  readonly waitMs: Float64Array;
  /** The units that one client had left: two values for each column, at its beginning and the least in it. */
  readonly remaining: Float64Array;
}

interface ColumnsInput {
  readonly run: LaneRun;
  readonly limits: readonly Limit[];
  /** The index of the client whose remaining units are shown. */
  readonly key: number;
  readonly span: Span;
  /** The last one may be a part of a column, so that columns and the time axis agree exactly. */
  readonly columns: number;
}

const rowsPerStep = 1_000;

/** Yields after each step of about a millisecond. The engine decides the requests of the client once more. */
function* laneColumns({ run, limits, key, span: shown, columns }: ColumnsInput): Generator<void, LaneColumns> {
  const { fromMs, toMs } = shown;
  const column = () => new Float64Array(Math.ceil(columns));
  const [allowed, denied, delayed, waitMs] = [column(), column(), column(), column()];
  const perMs = columns / (toMs - fromMs);
  const atMs = column().map((_, index) => fromMs + index / perMs);
  const client = new ClientReplay(run, limits, key);
  const remaining = new Float64Array(2 * atMs.length);
  let looked = 0;
  const lookUntil = (untilMs: number): void => {
    for (; looked < atMs.length && (atMs[looked] ?? 0) <= untilMs; looked++) {
      const decision = client.look(0, Math.floor(atMs[looked] ?? 0));
      const least = Math.min(...decision.limits.map((limit) => limit.remaining));
      remaining.fill(least, 2 * looked, 2 * looked + 2);
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
