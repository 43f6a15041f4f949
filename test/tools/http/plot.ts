/** Draws a run: throughput and latency of all contestants, and throughput beside other rate limiters. */
import { axisX, barX, dotX, gridX, link, ruleY, textX, text as textMark } from "@observablehq/plot";
import type { PlotOptions } from "@observablehq/plot";
import { drawFigure, type Figure, figureWidth, type Theme } from "../figure.ts";
import { whole } from "../table.ts";
import { peersOf } from "./peers.ts";
import type { Figures, RecordedRun } from "./record.ts";

/** A heading, or a bar with its label. */
interface PlotRow {
  readonly id: string;
  readonly label: string;
  readonly group: string;
  readonly figures?: Figures;
}

const rowHeight = 18;
const marginLeft = 290;

export const figuresOfRun = (run: RecordedRun): Readonly<Record<string, Figure>> => ({
  peers: peers(run),
  throughput: throughput(run),
  latency: latency(run),
});

const settingOf = ({ measuredOn, machine }: RecordedRun): string =>
  `${measuredOn}, ${machine.processor} with ${machine.cores} cores`;

const loadOf = (run: RecordedRun): string =>
  `${settingOf(run)}, ${run.settings.connections} connections`;

/** A heading for each group above the rows of the group. */
function grouped(rows: readonly PlotRow[]): PlotRow[] {
  const groups = [...new Set(rows.map(({ group }) => group))];
  return groups.flatMap((group) => [
    { id: group, label: group, group },
    ...rows.filter((row) => row.group === group),
  ]);
}

const rowsOf = ({ figures }: RecordedRun): PlotRow[] =>
  grouped(figures.map((of) => ({ id: of.id, label: of.title, group: of.group, figures: of })));

interface Measured extends PlotRow {
  readonly figures: Figures;
}

const measuredOf = (rows: readonly PlotRow[]): Measured[] =>
  rows.filter((row): row is Measured => row.figures !== undefined);

function colourOf({ colours }: Theme, group: string): string {
  if (group.startsWith("Headgate, proxy")) return colours.green;
  if (group.startsWith("Headgate")) return colours.blue;
  if (group.startsWith("other")) return colours.orange;
  return group.startsWith("Node") ? colours.pink : colours.grey;
}

/** The size of a plot, and the labels of its rows. */
function frame(rows: readonly PlotRow[], theme: Theme): PlotOptions {
  const labels = { y: "id", frameAnchor: "left", fill: theme.text } as const;
  return {
    width: figureWidth,
    height: 80 + rowHeight * rows.length,
    marginLeft,
    marginRight: 70,
    marginTop: 46,
    marginBottom: 30,
    y: { axis: null, domain: rows.map(({ id }) => id) },
    marks: [
      textMark(
        rows.filter(({ figures }) => figures !== undefined),
        { ...labels, text: "label", textAnchor: "end", dx: -8 },
      ),
      textMark(
        rows.filter(({ figures }) => figures === undefined),
        { ...labels, text: "label", textAnchor: "start", fontWeight: 600, dx: 16 - marginLeft },
      ),
    ],
  };
}

/** A bar for the median, and a line from the lowest to the highest value. */
function throughputPanel(
  rows: readonly PlotRow[],
  theme: Theme,
  colour: (row: Measured) => string,
): PlotOptions {
  const { marks = [], ...options } = frame(rows, theme);
  const bars = measuredOf(rows);
  const range = {
    x1: ({ figures }: Measured) => figures.perSecond.least,
    x2: ({ figures }: Measured) => figures.perSecond.most,
    y: "id",
  };
  return {
    ...options,
    x: { label: "requests per second", labelAnchor: "center", labelArrow: "none", axis: "top" },
    marks: [
      gridX(),
      axisX({ anchor: "bottom", label: null }),
      ...marks,
      barX(bars, { x: ({ figures }: Measured) => figures.perSecond.median, y: "id", fill: colour }),
      // A line of the background's colour sets the thinner line off from the bar.
      ruleY(bars, { ...range, stroke: theme.background, strokeWidth: 4 }),
      ruleY(bars, { ...range, stroke: theme.text, strokeWidth: 1.5 }),
      textX(bars, {
        x: ({ figures }: Measured) => figures.perSecond.most,
        y: "id",
        text: ({ figures }: Measured) => whole(figures.perSecond.median),
        textAnchor: "start",
        dx: 5,
      }),
    ],
  };
}

function throughput(run: RecordedRun): Figure {
  const rows = rowsOf(run);
  return drawFigure({
    title: "Requests per second of all contestants",
    subtitle: `Median and range of ${run.settings.rounds} rounds. ${loadOf(run)}.`,
    description: `Bar chart. ${run.figures
      .map(({ group, title, perSecond }) => `${group}, ${title}: ${whole(perSecond.median)}.`)
      .join(" ")}`,
    panels: (theme) => [throughputPanel(rows, theme, ({ group }) => colourOf(theme, group))],
  });
}

function peers(run: RecordedRun): Figure {
  const rows = peersOf(run);
  const drawn = grouped(
    rows.flatMap(({ title, allowed, denied }) => [
      ...(allowed === undefined
        ? []
        : [
            {
              id: `${title}/allowed`,
              label: title,
              group: "allowed",
              figures: allowed,
            },
          ]),
      ...(denied === undefined
        ? []
        : [{ id: `${title}/denied`, label: title, group: "denied", figures: denied }]),
    ]),
  ).map((row) => (row.figures ? row : { ...row, label: `requests that are ${row.group}` }));
  const colour =
    ({ colours }: Theme) =>
    ({ label }: Measured): string =>
      label.startsWith("Headgate") ? colours.blue : colours.grey;
  return drawFigure({
    title: "Requests per second compared with other rate limiters",
    subtitle: `Median and range of ${run.settings.rounds} rounds; longer is better. ${loadOf(run)}.`,
    description: `Bar chart. ${measuredOf(drawn)
      .map(({ label, group, figures }) => `${label}, ${group}: ${whole(figures.perSecond.median)}.`)
      .join(" ")}`,
    panels: (theme) => [throughputPanel(drawn, theme, colour(theme))],
  });
}

/** The ticks of a logarithmic axis that contains all values: 1 and 3 times the powers of 10. */
function logTicks(values: readonly number[]): number[] {
  const all = [-3, -2, -1, 0, 1, 2, 3, 4, 5].flatMap((power) => [10 ** power, 3 * 10 ** power]);
  const first = all.findLastIndex((tick) => tick <= Math.min(...values));
  const last = all.findIndex((tick) => tick >= Math.max(...values));
  return all.slice(Math.max(0, first), last + 1);
}

const tickText = (tick: number): string => String(Number(tick.toPrecision(1)));

/** A filled dot for p50 and a hollow one for p99. */
function latency(run: RecordedRun): Figure {
  const rows = rowsOf(run);
  const dots = measuredOf(rows);
  const p50 = ({ figures }: Measured): number => figures.alone.p50Ms.median;
  const p99 = ({ figures }: Measured): number => figures.alone.p99Ms.median;
  const ticks = logTicks([...dots.map(p50), ...dots.map(p99)]);
  const ms = (value: number): string => `${value.toFixed(2)} ms`;
  return drawFigure({
    title: "Latency of a single connection",
    subtitle: `p50 (filled) and p99 (hollow), medians of ${run.settings.rounds} rounds. ${settingOf(run)}.`,
    description: `Dot plot. ${dots
      .map((dot) => `${dot.group}, ${dot.label}: p50 ${ms(p50(dot))}, p99 ${ms(p99(dot))}.`)
      .join(" ")}`,
    panels: (theme) => {
      const { marks = [], ...options } = frame(rows, theme);
      const colour = ({ group }: Measured): string => colourOf(theme, group);
      return [
        {
          ...options,
          x: { axis: null, type: "log", domain: [ticks[0] ?? 0.001, ticks.at(-1) ?? 1_000] },
          marks: [
            gridX({ ticks }),
            axisX(ticks, {
              anchor: "top",
              label: "milliseconds, logarithmic",
              labelAnchor: "center",
              labelArrow: "none",
              // A tick format would leave out the ticks between the powers of 10.
              text: tickText,
            }),
            axisX(ticks, { anchor: "bottom", label: null, text: tickText }),
            ...marks,
            link(dots, { x1: p50, x2: p99, y1: "id", y2: "id", stroke: colour }),
            dotX(dots, { x: p50, y: "id", fill: colour, r: 4 }),
            dotX(dots, { x: p99, y: "id", stroke: colour, fill: theme.background, r: 4 }),
          ],
        },
      ];
    },
  });
}
