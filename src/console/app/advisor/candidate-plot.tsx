/** The plot of the candidates with its legend. The table of candidates has the same numbers. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import "../parts/plot.css";
import { numberText, shortNumberText } from "../parts/text.ts";
import {
  type goalLine,
  type MarkName,
  nearestPoint,
  type PlotPoint,
  plotSummary,
  type Shape,
  shareText,
  strategyMarks,
} from "./candidates.ts";
import { axisEnd, Chart, type ChartOptions, uPlot, useChart } from "../parts/chart.ts";

export interface CandidatePlotProps {
  readonly data: ScatterData;
  readonly onChoose: (candidate: number) => void;
}

const title = "Denied requests against the worst burst at the origin";

export function CandidatePlot({ data, onChoose }: CandidatePlotProps) {
  const chooseRef = useRef(onChoose);
  useEffect(() => {
    chooseRef.current = onChoose;
  });
  const shown = useSignal<ShownPoint | null>(null);
  const frame = useChart(
    (element) =>
      scatterChart(element, {
        data,
        onPoint: (point) => {
          shown.value = point;
        },
        onChoose: (candidate) => chooseRef.current(candidate),
      }),
    data,
  );
  return (
    <figure class="plot">
      <figcaption>{title}</figcaption>
      <Legend points={data.points} hasGoal={data.goal !== null} />
      <div class="plot-frame" style={{ height: `${scatterHeight}px` }}>
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

const paths: Readonly<Record<Shape, string>> = {
  circle: "M2 8a6 6 0 1 0 12 0a6 6 0 1 0-12 0z",
  square: "M2 2h12v12h-12z",
  triangle: "M8 1l7 13h-14z",
  diamond: "M8 0l8 8l-8 8l-8-8z",
  cross: "M2 2l12 12M14 2l-12 12",
};

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

const scatterHeight = 320;
const edges = { top: 12, right: 24, bottom: 48, left: 64 } as const;
const pointRadius = 6;

export interface ScatterData {
  readonly points: readonly PlotPoint[];
  readonly goal: ReturnType<typeof goalLine>;
}

export interface ShownPoint {
  readonly point: PlotPoint;
  /** In CSS pixels from the corner of the frame. */
  readonly left: number;
  readonly top: number;
}

interface ScatterParts {
  readonly data: ScatterData;
  /** Receives the point at the pointer; null without one. */
  readonly onPoint: (shown: ShownPoint | null) => void;
  readonly onChoose: (candidate: number) => void;
}

function scatterChart(frame: HTMLElement, { data, onPoint, onChoose }: ScatterParts): Chart<ScatterData> {
  let shown: PlotPoint | null = null;
  frame.addEventListener("click", () => {
    const candidate = shown?.candidate ?? null;
    if (candidate !== null) onChoose(candidate);
  });
  const follow = (plot: uPlot, { points }: ScatterData): void => {
    const place = pointAt(plot, points);
    if ((place?.point ?? null) === shown) return;
    shown = place?.point ?? null;
    plot.over.style.cursor = (shown?.candidate ?? null) === null ? "" : "pointer";
    onPoint(place);
  };
  return new Chart({ frame, data, height: scatterHeight, aligned, options: (chart) => optionsOf(chart, follow) });
}

/** The point near the pointer; null for none. */
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

function optionsOf(chart: Chart<ScatterData>, follow: (plot: uPlot, data: ScatterData) => void): ChartOptions {
  const axis = { ...chart.axis, labelSize: 20 };
  return {
    padding: [edges.top, edges.right, 0, 0],
    cursor: { x: false, y: false, drag: { x: false }, points: { show: false } },
    hooks: { draw: [(plot) => draw(plot, chart)], setCursor: [(plot) => follow(plot, chart.data)] },
    scales: {
      x: { time: false, range: (_, __, most) => [0, axisEnd(most, 0.01, 0.15)] },
      y: { range: (_, __, most) => [0, axisEnd(most, 1, 0.15)] },
    },
    axes: [
      {
        ...axis,
        size: edges.bottom - 20,
        space: 72,
        label: "Share of requests that are denied",
        values: (_, splits) => splits.map(shareText),
      },
      {
        ...axis,
        size: edges.left - 20,
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
    const radius = pointRadius * uPlot.pxRatio;
    ctx.strokeStyle = colors.of(color);
    ctx.fillStyle = colors.of(color);
    ctx.lineWidth = 2 * uPlot.pxRatio;
    const path = shapeAt(shape, left, top, radius);
    if (shape === "cross") ctx.stroke(path);
    else ctx.fill(path);
    ctx.strokeStyle = colors.of("--text");
    if (point.isSelected || point.isRecommended) {
      ctx.setLineDash(point.isSelected ? [] : [3 * uPlot.pxRatio, 3 * uPlot.pxRatio]);
      ctx.stroke(shapeAt("circle", left, top, 1.8 * radius));
      ctx.setLineDash([]);
    }
  }
  ctx.restore();
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

function shapeAt(shape: Shape, left: number, top: number, radius: number): Path2D {
  const path = new Path2D();
  const polygon = (corners: readonly (readonly [number, number])[]): void => {
    for (const [right, down] of corners) path.lineTo(left + right * radius, top + down * radius);
    path.closePath();
  };
  if (shape === "circle") path.arc(left, top, radius, 0, 2 * Math.PI);
  else if (shape === "square") path.rect(left - radius, top - radius, 2 * radius, 2 * radius);
  else if (shape === "triangle")
    polygon([
      [0, -1.2],
      [1.1, 0.9],
      [-1.1, 0.9],
    ]);
  else if (shape === "diamond")
    polygon([
      [0, -1.3],
      [1.3, 0],
      [0, 1.3],
      [-1.3, 0],
    ]);
  else {
    path.moveTo(left - radius, top - radius);
    path.lineTo(left + radius, top + radius);
    path.moveTo(left + radius, top - radius);
    path.lineTo(left - radius, top + radius);
  }
  return path;
}
