/** The plot of the candidates with its legend. The table of candidates has the same numbers. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import "../parts/plot.css";
import { numberText } from "../parts/text.ts";
import { type MarkName, type PlotPoint, plotSummary, type Shape, strategyMarks } from "./plot-points.ts";
import { ScatterChart, type ScatterData, scatterHeight, type ShownPoint } from "./scatter-chart.ts";
import { shareText } from "./texts.ts";

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

interface LegendProps {
  readonly points: readonly PlotPoint[];
  readonly hasGoal: boolean;
}

function Legend({ points, hasGoal }: LegendProps) {
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
