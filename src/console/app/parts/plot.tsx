/** Lines over time, with marks on the time axis, and the same numbers as a table. */
import { type ReadonlySignal, useSignal } from "@preact/signals";
import { useRef, useState } from "preact/hooks";
import { axisEnd, Chart, type ChartOptions, uPlot, useChart } from "./chart.ts";
import {
  groupMarks,
  indexAt,
  type MarkGroup,
  markSize,
  type PlotData,
  type PlotMark,
  rangeAt,
  type TimeRange,
} from "./plot-data.ts";
import "./plot.css";
import { type Column, Table } from "./table.tsx";
import { instantText, numberText, shortNumberText, timeText } from "./text.ts";
import { follow } from "../shell/route.ts";

interface PlotProps {
  /** The values and their unit, such as "Decisions per minute". */
  readonly title: string;
  /** The content of the plot in one sentence, for those who do not see it. */
  readonly summary: string;
  readonly data: PlotData;
  readonly marks?: readonly PlotMark[];
  /** The address that a click on a time, or a drag over a range, opens. The table has the same links. */
  readonly linkOf?: (range: TimeRange) => string;
}

export function TimePlot({ title, summary, data, marks = [], linkOf }: PlotProps) {
  const shown = useSignal<number | null>(null);
  const [width, setWidth] = useState(0);
  const { stepMs, series } = data;
  const { left, right } = chartEdges;
  const groups = groupMarks(marks, data, Math.max(0, width - left - right), labelMeasure());
  // A chart is created anew only when its lines change.
  const form = JSON.stringify([stepMs === null, series.map(({ label, color }) => [label, color])]);
  const link = useRef(linkOf);
  link.current = linkOf;
  const frame = useChart(
    (element) => {
      const onCursor = (index: number | null): void => {
        shown.value = index;
      };
      const onPick = (range: TimeRange): void => {
        if (link.current !== undefined) follow(link.current(range));
      };
      const options = (chart: Chart<PlotData>): ChartOptions =>
        optionsOf(chart, onCursor, linkOf === undefined ? null : onPick);
      return new Chart({ frame: element, data, height: chartHeight, aligned, onWidth: setWidth, options });
    },
    data,
    form,
  );
  return (
    <figure class="plot">
      <figcaption>{title}</figcaption>
      <Legend data={data} shown={shown} />
      <div class={`plot-frame ${linkOf === undefined ? "" : "linked"}`} style={{ height: `${chartHeight}px` }}>
        <div ref={frame} role="img" aria-label={`${title}. ${summary}`} />
        <ul class="plot-marks" aria-label="Changes of rules" hidden={groups.length === 0}>
          {groups.map((group) => (
            <Mark key={group.marks[0].atMs} group={group} width={width} />
          ))}
        </ul>
      </div>
      <AsTable title={title} data={data} marks={marks} linkOf={linkOf} />
    </figure>
  );
}

/** The height of the plot in CSS pixels. The marks have their place above the lines. */
const chartHeight = 256;
/** The space around the lines. Half of the last time label extends beyond the right end of the axis. */
const chartEdges = { top: 46, right: 30, bottom: 28, left: 52 } as const;

/**
 * @param onCursor receives the index of the time at the cursor; null without one
 * @param onPick receives the range that is clicked or dragged over; null where nothing can be picked
 */
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

/** The font size of `.mark-label`. */
const labelRem = 0.8125;

/** Labels are measured, because one that is too wide for its place would run into another mark. */
function labelMeasure(): (text: string) => number {
  const context = document.createElement("canvas").getContext("2d");
  if (context === null) return () => Number.POSITIVE_INFINITY;
  const { fontSize } = getComputedStyle(document.documentElement);
  const { fontFamily } = getComputedStyle(document.body);
  context.font = `${labelRem * Number.parseFloat(fontSize)}px ${fontFamily}`;
  return (text) => Math.ceil(context.measureText(text).width);
}

/** The values at the cursor; the latest without one. */
function Legend({ data, shown }: { readonly data: PlotData; readonly shown: ReadonlySignal<number | null> }) {
  const { times, series, stepMs } = data;
  const index = Math.min(shown.value ?? times.length - 1, times.length - 1);
  const atMs = times[index];
  return (
    <p class="plot-legend">
      {series.map(({ label, color, values }) => (
        <span key={label}>
          <i style={{ background: `var(${color})` }} />
          {label} <b>{valueText(values[index] ?? null, stepMs)}</b>
        </span>
      ))}
      <span class="dim">{atMs === undefined ? "" : timeOf(atMs, index, data)}</span>
    </p>
  );
}

function timeOf(atMs: number, index: number, { times, stepMs, longSteps }: PlotData): string {
  if (stepMs !== null) return `${instantText(atMs)}${index === times.length - 1 ? " (so far)" : ""}`;
  const long = longSteps.find(({ toMs }) => toMs === atMs);
  return long === undefined ? timeText(atMs) : `${timeText(long.fromMs)} to ${timeText(long.toMs)}`;
}

/** Counts are whole numbers, rates are not. */
const valueText = (value: number | null, stepMs: number | null): string => {
  if (value === null) return "–";
  return stepMs === null ? value.toFixed(1) : numberText(value);
};

/** The width of a mark's text, in CSS pixels. */
const textWidth = 340;
const mostTexts = 5;

/** A link to the newest change of the group. Its text appears while it has the pointer or the focus. */
function Mark({ group, width }: { readonly group: MarkGroup; readonly width: number }) {
  const { marks, label } = group;
  const left = chartEdges.left + group.left;
  const newest = marks.at(-1) ?? marks[0];
  const texts = marks.slice(-mostTexts).map(({ text }) => text);
  if (marks.length > mostTexts) texts.unshift(`${marks.length - mostTexts} earlier changes`);
  const textLeft = Math.max(0, Math.min(left, width - textWidth));
  return (
    <li>
      <a
        href={newest.href}
        aria-label={texts.join("; ")}
        style={{ left: `${left - markSize / 2}px`, width: `${markSize}px`, height: `${markSize}px` }}
      />
      <div class="mark-text" style={{ left: `${textLeft}px`, maxWidth: `${textWidth}px` }} aria-hidden="true">
        {texts.map((text) => (
          <p key={text}>{text}</p>
        ))}
      </div>
      <div class="mark-line" style={{ left: `${left}px` }} />
      {label !== null && (
        <span
          class={`mark-label ${label.row === 0 ? "" : "below"}`}
          style={{ left: `${chartEdges.left + label.left}px` }}
          aria-hidden="true"
        >
          {label.text}
        </span>
      )}
    </li>
  );
}

type PlotTableProps = Required<Pick<PlotProps, "title" | "data" | "marks">> & {
  readonly linkOf: PlotProps["linkOf"] | undefined;
};

/** Renders the rows only while the table is open. */
function AsTable(props: PlotTableProps) {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <details onToggle={({ currentTarget: { open } }) => setIsOpen(open)}>
      <summary>Show as table</summary>
      {isOpen && <Rows {...props} />}
    </details>
  );
}

function Rows({ title, data, marks, linkOf }: PlotTableProps) {
  const { times, series, stepMs } = data;
  const changes = changesIn(data, marks);
  const atOf = (index: number): number => times[index] ?? 0;
  const columns: Column<number>[] = [
    {
      title: "Time",
      cell: (index) => {
        const text = timeOf(atOf(index), index, data);
        return linkOf === undefined ? text : <a href={linkOf(rangeAt(data, index))}>{text}</a>;
      },
    },
    ...series.map(({ label, values }) => ({
      title: label,
      cell: (index: number) => valueText(values[index] ?? null, stepMs),
      isNumber: true,
    })),
  ];
  if (changes.size > 0) columns.push({ title: "Changes of rules", cell: (index) => changes.get(index)?.join("; ") });
  const rows = [...times.keys()].toReversed();
  return (
    <div class="plot-table">
      <Table caption={`${title}, the latest first`} columns={columns} rows={rows} keyOf={atOf} />
    </div>
  );
}

/** The labels of the marks by the index of their row. */
function changesIn(data: PlotData, marks: readonly PlotMark[]): Map<number, string[]> {
  const labels = new Map<number, string[]>();
  for (const { atMs, label } of marks) {
    const index = atMs < data.fromMs || atMs > data.toMs ? null : indexAt(data, atMs);
    if (index !== null) labels.set(index, [...(labels.get(index) ?? []), label]);
  }
  return labels;
}
