/** The chart of a lane: allowed units above a line, denied units below it with stripes, then what remains, then waits. */
import { Chart, type ChartOptions, uPlot } from "../../app/parts/chart.ts";
import type { LaneRun } from "../model/run.ts";
import type { Plot, Scale } from "./plots.ts";

/** The heights of a lane's bands, from top to bottom, in CSS pixels. */
const bands = { requests: 96, remaining: 40, waits: 32 } as const;
const bandNames = ["requests", "remaining", "waits"] as const;
type BandName = (typeof bandNames)[number];

/** The height of the label above each band, where it covers no data. */
export const labelPx = 14;

export const tops = {
  requests: labelPx,
  remaining: bands.requests + 2 * labelPx,
  waits: bands.requests + bands.remaining + 3 * labelPx,
} as const;

/** The band of waits is shown only for a lane with a queue. */
export const laneHeight = ({ summary }: LaneRun): number =>
  summary.delayed > 0 ? tops.waits + bands.waits : tops.remaining + bands.remaining;

export interface LanePicture {
  readonly plot: Plot;
  readonly scale: Scale;
  /** The instants at which vertical lines are drawn. */
  readonly ticks: readonly number[];
  /** The columns with the requests that cause the explained denial. */
  readonly causes: ReadonlySet<number>;
}

/** The position of the line between allowed and denied requests, with room for the shortest bar on both sides. */
export function requestsLayout({ allowed, denied }: Scale): {
  readonly base: number;
  readonly pxPerUnit: number;
} {
  const share = allowed / Math.max(1, allowed + denied);
  const roomPx = 12;
  const base = Math.round(Math.min(bands.requests - roomPx, Math.max(roomPx, bands.requests * share)));
  const abovePx = (base - 3) / Math.max(1, allowed);
  const belowPx = (bands.requests - base - 3) / Math.max(1, denied);
  return { base, pxPerUnit: Math.min(abovePx, belowPx) };
}

/** One request must be visible beside a burst of hundreds. */
const leastBarPx = 3;

export const laneChart = (frame: HTMLElement, data: LanePicture): Chart<LanePicture> =>
  new Chart({ frame, data, height: laneHeight(data.plot.run), options: optionsOf, aligned: alignedData });

function optionsOf(chart: Chart<LanePicture>): ChartOptions {
  const color = (name: string) => (): string => chart.colors.of(`--plot-${name}`);
  const axis = {
    size: 0,
    gap: 0,
    values: () => [],
    ticks: { show: false },
    grid: { stroke: color("line"), width: 1 },
  };
  const spanOf = ({ plot }: LanePicture): [number, number] => [plot.form.span.fromMs, plot.form.span.toMs];
  return {
    ms: 1,
    padding: [0, 0, 0, 0],
    cursor: { y: false, drag: { x: false }, points: { show: false }, sync: { key: "lanes" } },
    scales: {
      x: { time: false, range: () => spanOf(chart.data) },
      ...Object.fromEntries(bandNames.map((band) => [band, { range: () => rangeOf(chart.data, band) }])),
    },
    axes: [
      { ...axis, splits: () => [...chart.data.ticks] },
      // A line at the zero of each band.
      ...bandNames.map((scale) => ({ ...axis, scale, splits: () => [0] })),
    ],
    series: [
      {},
      { ...bars, scale: "requests", fill: color("allowed") },
      // The part that waited is hollow.
      { ...bars, scale: "requests", fill: color("wait") },
      // Stripes, so that denials differ from allowed requests without color, too.
      { ...bars, scale: "requests", fill: ({ ctx }) => stripes(ctx, color("denied")()) },
      { ...bars, scale: "requests", fill: color("cause") },
      { ...steps, scale: "remaining", fill: color("remaining-area"), stroke: color("remaining") },
      { ...bars, scale: "waits", fill: color("wait-area"), stroke: color("wait"), width: 1 },
    ],
  };
}

/** All bands share one chart, so the range of each has its zero at the line of the band. */
function rangeOf({ plot: { run }, scale }: LanePicture, band: BandName): [number, number] {
  const { base, pxPerUnit } = requestsLayout(scale);
  const capacity = Math.min(...run.limits.map((limit) => limit.capacity));
  const bottomPx = bands[band] - 1;
  const [zeroPx, unitsPerPx] = {
    requests: [base, 1 / pxPerUnit] as const,
    remaining: [bottomPx, Math.max(1, capacity) / (bottomPx - 2)] as const,
    waits: [bottomPx, Math.max(1, scale.waitMs) / (bottomPx - 2)] as const,
  }[band];
  const fromTopPx = tops[band] + zeroPx;
  return [(fromTopPx - laneHeight(run)) * unitsPerPx, fromTopPx * unitsPerPx];
}

function alignedData({ plot: { columns }, scale, causes }: LanePicture): uPlot.AlignedData {
  const { base, pxPerUnit } = requestsLayout(scale);
  const halfMs = ((columns.atMs[1] ?? 0) - (columns.atMs[0] ?? 0)) / 2;
  const heights = (units: Float64Array, sign: 1 | -1 = 1) =>
    points(units, (each) => (each === 0 ? null : sign * Math.max(each, leastBarPx / pxPerUnit)));
  return [
    Array.from(columns.atMs).flatMap((atMs) => [atMs, atMs + halfMs]),
    heights(columns.allowed),
    heights(columns.delayed),
    heights(columns.denied, -1),
    points(columns.atMs, (_, column) => (causes.has(column) ? base / pxPerUnit : null)),
    columns.remaining,
    points(columns.waitMs, (waitMs) => (waitMs === 0 ? null : waitMs)),
  ];
}

/**
 * The line of the remaining units has two points for each column. Bars have one, so an empty point follows each of
 * them.
 */
const points = (values: Float64Array, valueOf: (value: number, column: number) => number | null) =>
  Array.from(values).flatMap((value, column) => [valueOf(value, column), undefined]);

const none = () => null;
const noPoints = { points: { show: false } };
const bars = { ...noPoints, width: 0, paths: uPlot.paths.bars?.({ size: [1], align: 1, gap: 1 }) ?? none };
/** Units are whole, so the line has steps. */
const steps = { ...noPoints, width: 1.5, paths: uPlot.paths.stepped?.({ align: 1, extend: true }) ?? none };

function stripes(context: CanvasRenderingContext2D, color: string): CanvasPattern | string {
  const tile = new OffscreenCanvas(1, Math.round(3 * uPlot.pxRatio));
  const lines = tile.getContext("2d");
  if (lines === null) return color;
  lines.fillStyle = color;
  lines.fillRect(0, 0, 1, Math.round(2 * uPlot.pxRatio));
  return context.createPattern(tile, "repeat") ?? color;
}
