/** The plot of the candidates with its legend. The table of candidates has the same numbers. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { numberText, shortNumberText } from "../parts/text.ts";
import {
  type goalLine,
  type MarkName,
  nearestPoint,
  type PlotPoint,
  plotSummary,
  shareText,
  strategyMarks,
} from "./candidates.ts";
import { axisEnd, Chart, type ChartOptions, uPlot, useChart } from "../parts/chart.ts";

interface ScatterData {
  readonly points: readonly PlotPoint[];
  readonly goal: ReturnType<typeof goalLine>;
}

interface ShownPoint {
  readonly point: PlotPoint;
  /** In CSS pixels from the corner of the frame. */
  readonly left: number;
  readonly top: number;
}

export interface CandidatePlotProps {
  readonly data: ScatterData;
  readonly onChoose: (candidate: number) => void;
}

const title = "Denied requests against the worst burst at the origin";
const height = 320;

export function CandidatePlot({ data, onChoose }: CandidatePlotProps) {
  const shown = useSignal<ShownPoint | null>(null);
  const chooseRef = useRef<() => void>(() => {});
  useEffect(() => {
    chooseRef.current = () => {
      const candidate = shown.peek()?.point.candidate ?? null;
      if (candidate !== null) onChoose(candidate);
    };
  });
  const frame = useChart((element) => {
    element.addEventListener("click", () => chooseRef.current());
    const follow = (point: ShownPoint | null): void => {
      if (point?.point !== shown.peek()?.point) shown.value = point;
    };
    return new Chart({ frame: element, data, height, aligned, options: (chart) => optionsOf(chart, follow) });
  }, data);
  const isCandidate = (shown.value?.point.candidate ?? null) !== null;
  return (
    <figure class="plot">
      <figcaption>{title}</figcaption>
      <Legend points={data.points} hasGoal={data.goal !== null} />
      <div class="plot-frame" style={{ height: `${height}px`, cursor: isCandidate ? "pointer" : "" }}>
        <div ref={frame} role="img" aria-label={`${title}. ${plotSummary(data.points)}`} />
        {shown.value !== null && <Tooltip shown={shown.value} />}
      </div>
    </figure>
  );
}

function Legend({ points, hasGoal }: { readonly points: readonly PlotPoint[]; readonly hasGoal: boolean }) {
  const names = new Set(points.map(({ mark }) => mark));
  return (
    <p class="plot-legend">
      {[...names].map((name) => (
        <span key={name}>
          <Mark name={name} /> {name === "other" ? "in effect now" : name}
        </span>
      ))}
      <span class="dim">solid ring: selected</span>
      {points.some(({ isRecommended }) => isRecommended) && <span class="dim">dashed ring: recommended</span>}
      {hasGoal && <span class="dim">dashed line: goal</span>}
    </p>
  );
}

/** In a square of 16 units. */
const paths = {
  circle: "M2 8a6 6 0 1 0 12 0a6 6 0 1 0-12 0z",
  square: "M2 2h12v12h-12z",
  triangle: "M8 1l7 13h-14z",
  diamond: "M8 0l8 8l-8 8l-8-8z",
  cross: "M2 2l12 12M14 2l-12 12",
} as const;

function Mark({ name }: { readonly name: MarkName }) {
  const { color, shape } = strategyMarks[name];
  return (
    <svg class="mark" viewBox="0 0 16 16" aria-hidden="true" style={{ color: `var(${color})` }}>
      <path d={paths[shape]} {...(shape === "cross" && { class: "stroke" })} />
    </svg>
  );
}

/** Left of the point where it would not fit on the right. */
function Tooltip({ shown: { point, left, top } }: { readonly shown: ShownPoint }) {
  return (
    <div class="mark-text tip" style={{ left: `${left}px`, top: `${top + 12}px` }} aria-hidden="true">
      <p>
        <b>{point.label}</b>
      </p>
      <p>
        {shareText(point.share)} denied; at most {numberText(Math.round(point.burst))} requests in a second
      </p>
      {point.isRecommended && <p>recommended</p>}
    </div>
  );
}

function pointAt(plot: uPlot, points: readonly PlotPoint[]): ShownPoint | null {
  const { left = -1, top = -1 } = plot.cursor;
  const places = points.map(({ share, burst }) => ({
    left: plot.valToPos(share, "x"),
    top: plot.valToPos(burst, "y"),
  }));
  const index = left < 0 ? null : nearestPoint(places, { left, top });
  const [point, place] = index === null ? [] : [points[index], places[index]];
  if (point === undefined || place === undefined) return null;
  return { point, left: plot.over.offsetLeft + place.left, top: plot.over.offsetTop + place.top };
}

function optionsOf(chart: Chart<ScatterData>, follow: (point: ShownPoint | null) => void): ChartOptions {
  const axis = { ...chart.axis, labelSize: 20 };
  return {
    padding: [12, 24, 0, 0],
    cursor: { x: false, y: false, drag: { x: false }, points: { show: false } },
    hooks: { draw: [(plot) => draw(plot, chart)], setCursor: [(plot) => follow(pointAt(plot, chart.data.points))] },
    scales: {
      x: { time: false, range: (_, __, most) => [0, axisEnd(most, 0.01, 0.15)] },
      y: { range: (_, __, most) => [0, axisEnd(most, 1, 0.15)] },
    },
    axes: [
      {
        ...axis,
        size: 28,
        space: 72,
        label: "Share of requests that are denied",
        values: (_, splits) => splits.map(shareText),
      },
      {
        ...axis,
        size: 44,
        label: "Worst second at the origin",
        values: (_, splits) => splits.map(shortNumberText),
      },
    ],
    // The points are drawn by a hook: uPlot has no shapes.
    series: [{}, { paths: () => null, points: { show: false } }],
  };
}

function draw(plot: uPlot, { colors, data: { points, goal } }: Chart<ScatterData>): void {
  const { ctx } = plot;
  ctx.save();
  ctx.strokeStyle = colors.of("--dim");
  if (goal !== null) drawGoal(plot, goal);
  for (const point of points) {
    const { shape, color } = strategyMarks[point.mark];
    const left = plot.valToPos(point.share, "x", true);
    const top = plot.valToPos(point.burst, "y", true);
    ctx.strokeStyle = colors.of(color);
    ctx.fillStyle = colors.of(color);
    ctx.lineWidth = 2 * uPlot.pxRatio;
    const path = shapeAt(shape, left, top);
    if (shape === "cross") ctx.stroke(path);
    else ctx.fill(path);
  }
  // Rings are above all points, which often lie close together.
  for (const point of points) drawRings(plot, point, colors.of("--text"));
  ctx.restore();
}

/** A point that is both selected and recommended has both rings. */
function drawRings(plot: uPlot, { share, burst, isSelected, isRecommended }: PlotPoint, color: string): void {
  const { ctx } = plot;
  const [left, top] = [plot.valToPos(share, "x", true), plot.valToPos(burst, "y", true)];
  ctx.strokeStyle = color;
  ctx.lineWidth = 2 * uPlot.pxRatio;
  if (isSelected) ctx.stroke(shapeAt("circle", left, top, 1.6));
  if (!isRecommended) return;
  ctx.setLineDash([5 * uPlot.pxRatio, 3 * uPlot.pxRatio]);
  ctx.stroke(shapeAt("circle", left, top, 2.4));
  ctx.setLineDash([]);
}

function drawGoal(plot: uPlot, { axis, at: value }: NonNullable<ScatterData["goal"]>): void {
  const isShare = axis === "share";
  const { ctx, bbox } = plot;
  const at = plot.valToPos(value, isShare ? "x" : "y", true);
  const [right, bottom] = [bbox.left + bbox.width, bbox.top + bbox.height];
  if (isShare ? at > right : at < bbox.top || at > bottom) return;
  ctx.lineWidth = uPlot.pxRatio;
  ctx.setLineDash([6 * uPlot.pxRatio, 4 * uPlot.pxRatio]);
  ctx.beginPath();
  ctx.moveTo(isShare ? at : bbox.left, isShare ? bbox.top : at);
  ctx.lineTo(isShare ? at : right, isShare ? bottom : at);
  ctx.stroke();
  ctx.setLineDash([]);
}

/** uPlot needs ascending times. */
function aligned({ points }: ScatterData): uPlot.AlignedData {
  const ordered = points.toSorted((one, other) => one.share - other.share);
  return [ordered.map(({ share }) => share), ordered.map(({ burst }) => burst)];
}

function shapeAt(shape: keyof typeof paths, left: number, top: number, factor = 1): Path2D {
  const scale = factor * uPlot.pxRatio;
  const path = new Path2D();
  path.addPath(new Path2D(paths[shape]), new DOMMatrix([scale, 0, 0, scale, left - 8 * scale, top - 8 * scale]));
  return path;
}
