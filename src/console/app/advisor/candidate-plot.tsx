/** The plot of the candidates with its legend. The table of candidates has the same numbers. */
// oxlint-disable-next-line import/no-unassigned-import -- runs before uPlot is loaded
import "../parts/valid-language.ts";
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
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
import { CssColors } from "../parts/chart.ts";

export interface CandidatePlotProps {
  readonly data: ScatterData;
  readonly onChoose: (candidate: number) => void;
}

const title = "Denied requests against the worst burst at the origin";

export function CandidatePlot({ data, onChoose }: CandidatePlotProps) {
  const frame = useRef<HTMLDivElement>(null);
  const chart = useRef<ScatterChart | null>(null);
  const choose = useRef(onChoose);
  choose.current = onChoose;
  const shown = useSignal<ShownPoint | null>(null);
  useEffect(() => {
    if (frame.current === null) return undefined;
    const created = new ScatterChart({
      frame: frame.current,
      data,
      onPoint: (point) => {
        shown.value = point;
      },
      onChoose: (candidate) => choose.current(candidate),
    });
    chart.current = created;
    return () => created.destroy();
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- new data does not need another chart
  }, []);
  useEffect(() => chart.current?.update(data), [data]);
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

export const scatterHeight = 320;
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
  readonly frame: HTMLElement;
  readonly data: ScatterData;
  /** Receives the point at the pointer; null without one. */
  readonly onPoint: (shown: ShownPoint | null) => void;
  readonly onChoose: (candidate: number) => void;
}

export class ScatterChart {
  readonly #plot: uPlot;
  readonly #resized: ResizeObserver;
  readonly #colors: CssColors;
  readonly #onPoint: ScatterParts["onPoint"];
  #data: ScatterData;
  #shown: PlotPoint | null = null;

  constructor({ frame, data, onPoint, onChoose }: ScatterParts) {
    this.#data = data;
    this.#onPoint = onPoint;
    this.#colors = new CssColors(frame, () => this.#plot.redraw());
    this.#plot = new uPlot(this.#options(frame.clientWidth), aligned(data), frame);
    this.#resized = new ResizeObserver(() => this.#plot.setSize({ width: frame.clientWidth, height: scatterHeight }));
    this.#resized.observe(frame);
    frame.addEventListener("click", () => {
      const candidate = this.#shown?.candidate ?? null;
      if (candidate !== null) onChoose(candidate);
    });
  }

  update(data: ScatterData): void {
    if (data === this.#data) return;
    this.#data = data;
    this.#plot.setData(aligned(data));
  }

  destroy(): void {
    this.#colors.stop();
    this.#resized.disconnect();
    this.#plot.destroy();
  }

  #options(width: number): uPlot.Options {
    const stroke = (): string => this.#colors.of("--dim");
    const lines = { stroke: () => this.#colors.of("--line"), width: 1 };
    const axis = { stroke, grid: lines, ticks: { ...lines, size: 4 }, labelSize: 20 };
    return {
      width,
      height: scatterHeight,
      padding: [edges.top, edges.right, 0, 0],
      legend: { show: false },
      cursor: { x: false, y: false, drag: { x: false }, points: { show: false } },
      hooks: { draw: [this.#draw], setCursor: [this.#follow] },
      scales: {
        x: { time: false, range: (_, __, most) => [0, upTo(most, 0.01)] },
        y: { range: (_, __, most) => [0, upTo(most, 1)] },
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

  readonly #places = () =>
    this.#data.points.map(({ share, burst }) => ({
      left: this.#plot.valToPos(share, "x"),
      top: this.#plot.valToPos(burst, "y"),
    }));

  readonly #follow = ({ cursor: { left = -1, top = -1 }, over }: uPlot): void => {
    const places = this.#places();
    const index = left < 0 ? null : nearestPoint(places, { left, top });
    const point = index === null ? null : (this.#data.points[index] ?? null);
    if (point === this.#shown) return;
    this.#shown = point;
    over.style.cursor = (point?.candidate ?? null) === null ? "" : "pointer";
    const place = index === null ? undefined : places[index];
    const { offsetLeft, offsetTop } = over;
    this.#onPoint(
      point === null || place === undefined
        ? null
        : { point, left: offsetLeft + place.left, top: offsetTop + place.top },
    );
  };

  readonly #draw = (plot: uPlot): void => {
    const { ctx } = plot;
    const { points } = this.#data;
    ctx.save();
    this.#drawGoal(plot);
    for (const point of points) {
      const { shape, color } = strategyMarks[point.mark];
      const left = plot.valToPos(point.share, "x", true);
      const top = plot.valToPos(point.burst, "y", true);
      const radius = pointRadius * uPlot.pxRatio;
      ctx.strokeStyle = this.#colors.of(color);
      ctx.fillStyle = this.#colors.of(color);
      ctx.lineWidth = 2 * uPlot.pxRatio;
      const path = shapeAt(shape, left, top, radius);
      if (shape === "cross") ctx.stroke(path);
      else ctx.fill(path);
      ctx.strokeStyle = this.#colors.of("--text");
      if (point.isSelected || point.isRecommended) {
        ctx.setLineDash(point.isSelected ? [] : [3 * uPlot.pxRatio, 3 * uPlot.pxRatio]);
        ctx.stroke(shapeAt("circle", left, top, 1.8 * radius));
        ctx.setLineDash([]);
      }
    }
    ctx.restore();
  };

  #drawGoal(plot: uPlot): void {
    const { goal } = this.#data;
    if (goal === null) return;
    const { ctx, bbox } = plot;
    const at = plot.valToPos(goal.at, goal.axis === "share" ? "x" : "y", true);
    const isInside =
      goal.axis === "share" ? at <= bbox.left + bbox.width : at >= bbox.top && at <= bbox.top + bbox.height;
    if (!isInside) return;
    ctx.strokeStyle = this.#colors.of("--dim");
    ctx.lineWidth = uPlot.pxRatio;
    ctx.setLineDash([6 * uPlot.pxRatio, 4 * uPlot.pxRatio]);
    ctx.beginPath();
    if (goal.axis === "share") {
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, bbox.top + bbox.height);
    } else {
      ctx.moveTo(bbox.left, at);
      ctx.lineTo(bbox.left + bbox.width, at);
    }
    ctx.stroke();
    ctx.setLineDash([]);
  }
}

/** uPlot needs ascending times. */
function aligned({ points }: ScatterData): uPlot.AlignedData {
  const ordered = points.toSorted((one, other) => one.share - other.share);
  return [ordered.map(({ share }) => share), ordered.map(({ burst }) => burst)];
}

/** @param whole the end of an axis whose values are all 0 */
const upTo = (most: number | null, whole: number): number =>
  most === null || !(most > 0) ? whole : (uPlot.rangeNum(0, most, 0.15, true)[1] ?? most);

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
