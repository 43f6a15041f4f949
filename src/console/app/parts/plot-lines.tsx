/** The lines of a plot on a canvas. They are loaded on demand, because their library is larger than the rest of a view. */
import type { Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { axisEnd, Chart, type ChartOptions, uPlot, useChart } from "./chart.ts";
import { chartEdges, chartHeight, indexAt, type PlotData, rangeAt, type TimeRange } from "./plot-data.ts";
import { shortNumberText } from "./text.ts";

export interface PlotLinesProps {
  /** The content of the plot in words, for those who do not see it. */
  readonly label: string;
  readonly data: PlotData;
  /** Gets the index of the time at the cursor; null without one. */
  readonly shown: Signal<number | null>;
  readonly onWidth: (width: number) => void;
  /** Receives the range that is clicked or dragged over; null where nothing can be picked. */
  readonly onPick: ((range: TimeRange) => void) | null;
}

export function PlotLines({ label, data, shown, onWidth, onPick }: PlotLinesProps) {
  const { stepMs, series } = data;
  const pickRef = useRef(onPick);
  useEffect(() => {
    pickRef.current = onPick;
  });
  // A chart is created anew only when its lines change.
  const form = JSON.stringify([stepMs === null, series.map((each) => [each.label, each.color])]);
  const frame = useChart(
    (element) => {
      const onCursor = (index: number | null): void => {
        shown.value = index;
      };
      const pick = onPick === null ? null : (range: TimeRange): void => pickRef.current?.(range);
      const options = (chart: Chart<PlotData>): ChartOptions => optionsOf(chart, onCursor, pick);
      return new Chart({ frame: element, data, height: chartHeight, aligned, onWidth, options });
    },
    data,
    form,
  );
  return <div ref={frame} role="img" aria-label={label} />;
}

function optionsOf(
  chart: Chart<PlotData>,
  onCursor: (index: number | null) => void,
  onPick: ((range: TimeRange) => void) | null,
): ChartOptions {
  const { top, right, bottom, left } = chartEdges;
  const { axis, colors } = chart;
  const { stepMs, series } = chart.data;
  const paths = uPlot.paths.stepped?.(stepMs === null ? { align: -1, extend: true } : { align: 1 });
  return {
    ms: 1,
    padding: [top, right, 0, 0],
    cursor: {
      y: false,
      points: { show: false },
      drag: {
        x: onPick !== null,
        setScale: false,
        dist: 5,
        // A click whose pointer moved by a few pixels is still a click.
        click: ({ select }, event) => {
          if (select.width > 0) event.stopImmediatePropagation();
        },
      },
    },
    hooks: {
      ...(onPick !== null && pickHooks(chart, onPick)),
      draw: [(plot) => paleLongSteps(plot, chart)],
      setCursor: [
        (plot) => {
          const { left: at = -1 } = plot.cursor;
          onCursor(at < 0 ? null : indexAt(chart.data, plot.posToVal(at, "x")));
        },
      ],
    },
    scales: {
      x: { range: () => [chart.data.fromMs, chart.data.toMs] },
      y: { range: (_, __, most) => [0, axisEnd(most, 1, 0.1)] },
    },
    axes: [
      { ...axis, size: bottom, space: 70, values: timeTexts },
      { ...axis, size: left, values: (_, splits) => splits.map(shortNumberText) },
    ],
    series: [
      {},
      ...series.map(({ label, color, isFilled = false }): uPlot.Series => ({
        label,
        stroke: () => colors.of(color),
        ...(isFilled && { fill: () => withAlpha(colors.of(color)) }),
        width: 2,
        points: { show: false },
        ...(paths !== undefined && { paths }),
      })),
    ],
  };
}

function pickHooks(chart: Chart<PlotData>, onPick: (range: TimeRange) => void): uPlot.Hooks.Arrays {
  return {
    ready: [
      (plot) =>
        plot.over.addEventListener("click", () => {
          const { left = -1 } = plot.cursor;
          const index = left < 0 ? null : indexAt(chart.data, plot.posToVal(left, "x"));
          if (index !== null) onPick(rangeAt(chart.data, index));
        }),
    ],
    setSelect: [
      (plot) => {
        const { left, width } = plot.select;
        const instantAt = (at: number): number => Math.round(plot.posToVal(at, "x"));
        if (width > 0) onPick({ fromMs: instantAt(left), toMs: instantAt(left + width) });
      },
    ],
  };
}

function paleLongSteps(plot: uPlot, { colors, data }: Chart<PlotData>): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.globalAlpha = 0.6;
  ctx.fillStyle = colors.of("--surface");
  for (const { fromMs, toMs } of data.longSteps) {
    const left = Math.max(bbox.left, plot.valToPos(fromMs, "x", true));
    ctx.fillRect(left, bbox.top, plot.valToPos(toMs, "x", true) - left, bbox.height);
  }
  ctx.restore();
}

/** Adds a point at the end of the last step, so that the line reaches it. */
function aligned({ times, series, stepMs, toMs }: PlotData): uPlot.AlignedData {
  const last = times.at(-1);
  if (last === undefined || stepMs === null) {
    return [[...times], ...series.map(({ values }) => [...values])];
  }
  return [[...times, Math.min(toMs, last + stepMs)], ...series.map(({ values }) => [...values, values.at(-1) ?? null])];
}

const withAlpha = (color: string): string => color.replace(/^rgb\((.*)\)$/, "rgba($1, 0.2)");

const dayMs = 86_400_000;
const timeFormats = {
  seconds: new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" }),
  minutes: new Intl.DateTimeFormat("en-GB", { timeStyle: "short" }),
  days: new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" }),
};

const timeTexts: uPlot.Axis.DynamicValues = (_, splits, __, ___, incrementMs) =>
  splits.map((atMs) => {
    const isMidnight = timeFormats.seconds.format(atMs) === "00:00:00";
    if (incrementMs >= dayMs || isMidnight) return timeFormats.days.format(atMs);
    return timeFormats[incrementMs < 60_000 ? "seconds" : "minutes"].format(atMs);
  });
