/** Lines over time, with marks on the time axis, and the same numbers as a table. */
import { type ReadonlySignal, useSignal } from "@preact/signals";
import { useState } from "preact/hooks";
import { now } from "../clock.ts";
import { lazy } from "./lazy.ts";
import {
  chartEdges,
  chartHeight,
  groupMarks,
  indexAt,
  type MarkGroup,
  markSize,
  type PlotData,
  type PlotMark,
  type PlotSeries,
  rangeAt,
  type TimeRange,
} from "./plot-data.ts";
import type { PlotLinesProps } from "./plot-lines.tsx";
import { type Column, Table } from "./table.tsx";
import { instantText, numberText, timeText } from "./text.ts";
import { follow } from "../shell/route.ts";

interface PlotProps {
  /** The values and their unit, such as "Decisions per minute". */
  readonly title: string;
  /** The content of the plot in one sentence, for those who do not see it. */
  readonly summary: string;
  readonly data: PlotData;
  readonly marks?: readonly PlotMark[];
  /** The period of the plot in words. With it, the legend has the totals while there is no cursor. */
  readonly totalsOf?: string;
  /** The address that a click on a time, or a drag over a range, opens. The table has the same links. */
  readonly linkOf?: (range: TimeRange) => string;
}

export function TimePlot({ title, summary, data, marks = [], totalsOf, linkOf }: PlotProps) {
  const shown = useSignal<number | null>(null);
  const [width, setWidth] = useState(0);
  const { left, right } = chartEdges;
  const groups = groupMarks(marks, data, Math.max(0, width - left - right), labelMeasure());
  return (
    <figure class="plot">
      {totalsOf === undefined && <figcaption>{title}</figcaption>}
      <Legend {...{ title, data, shown, totalsOf }} />
      <div class={`plot-frame ${linkOf === undefined ? "" : "linked"}`} style={{ height: `${chartHeight}px` }}>
        <LazyLines
          label={`${title}. ${summary}`}
          data={data}
          shown={shown}
          onWidth={setWidth}
          onPick={linkOf === undefined ? null : (range) => follow(linkOf(range))}
        />
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

const useLines = lazy(async () => (await import("./plot-lines.tsx")).PlotLines);

/** The library of the chart is large, so it is loaded apart from the numbers. The table has the same values. */
function LazyLines(props: PlotLinesProps) {
  const { code: Lines, hasFailed } = useLines();
  if (Lines !== null) return <Lines {...props} />;
  return <p class="dim">{hasFailed ? "The page cannot load the plot." : "…"}</p>;
}

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

interface LegendProps extends Pick<PlotProps, "title"> {
  readonly data: PlotData;
  readonly shown: ReadonlySignal<number | null>;
  readonly totalsOf: string | undefined;
}

/** The values at the cursor; without one, the totals or the latest values. */
function Legend({ title, data, shown, totalsOf }: LegendProps) {
  const { times, series, stepMs } = data;
  const hasTotals = shown.value === null && totalsOf !== undefined;
  const index = Math.min(shown.value ?? times.length - 1, times.length - 1);
  const atMs = times[index];
  const valueOf = (values: PlotSeries["values"]): number | null =>
    hasTotals ? values.reduce<number>((sum, value) => sum + (value ?? 0), 0) : (values[index] ?? null);
  const unitText = title.charAt(0).toLowerCase() + title.slice(1);
  const time = atMs === undefined ? "" : timeOf(atMs, data);
  const about = totalsOf === undefined ? time : `${time}: ${unitText}`;
  return (
    <p class="plot-legend">
      {series.map(({ label, color, values }) => (
        <span key={label}>
          <i style={{ background: `var(${color})` }} />
          {label} <b>{valueText(valueOf(values), stepMs)}</b>
        </span>
      ))}
      <span class="dim plot-time">{hasTotals ? `requests ${totalsOf}; the plot shows ${unitText}` : about}</span>
    </p>
  );
}

function timeOf(atMs: number, { stepMs, longSteps }: PlotData): string {
  if (stepMs !== null) return `${instantText(atMs)}${atMs + stepMs > now() ? " (so far)" : ""}`;
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

function Rows(props: PlotTableProps) {
  const { title, data } = props;
  const rows = [...data.times.keys()].toReversed();
  return (
    <div class="plot-table">
      <Table
        caption={`${title}, the latest first`}
        columns={columnsOf(props)}
        rows={rows}
        keyOf={(index) => data.times[index] ?? 0}
      />
    </div>
  );
}

/** The rows are the indexes of the times. */
function columnsOf({ data, marks, linkOf }: PlotTableProps): Column<number>[] {
  const { times, series, stepMs } = data;
  const changes = changesIn(data, marks);
  const timeCell = (index: number) => {
    const text = timeOf(times[index] ?? 0, data);
    return linkOf === undefined ? text : <a href={linkOf(rangeAt(data, index))}>{text}</a>;
  };
  const columns: Column<number>[] = [
    { title: "Time", cell: timeCell },
    ...series.map(({ label, values }) => ({
      title: label,
      cell: (index: number) => valueText(values[index] ?? null, stepMs),
      isNumber: true,
    })),
  ];
  if (changes.size > 0) columns.push({ title: "Changes of rules", cell: (index) => changes.get(index)?.join("; ") });
  return columns;
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
