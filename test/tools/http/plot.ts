/** Plots the requests per second of all contestants in a run. */
import { axisX, barX, gridX, ruleY, textX, text as textMark } from "@observablehq/plot";
import type { PlotOptions } from "@observablehq/plot";
import { drawFigure, figureWidth, type Theme } from "../figure.ts";
import { type Figure } from "../generated.ts";
import { whole } from "../table.ts";
import type { Figures, RecordedRun } from "./record.ts";

/** A heading, or a bar with its label. */
interface PlotRow {
  readonly id: string;
  readonly label: string;
  readonly group: string;
  readonly figures?: Figures;
}

interface Bar extends PlotRow {
  readonly figures: Figures;
}

const rowHeight = 18;
const marginLeft = 270;

export function figureOf(run: RecordedRun): Figure {
  const rows = rowsOf(run);
  const { measuredOn, machine, settings } = run;
  return drawFigure({
    title: "Requests per second of Headgate, of other rate limiters and of Workers without one",
    subtitle: `Median and quartiles of turns of ${settings.seconds} s. ${measuredOn}, ${machine.processor} with ${machine.cores} cores, ${settings.connections} connections.`,
    description: `Bar chart. ${run.figures
      .map(({ group, title, perSecond }) => `${group}, ${title}: ${whole(perSecond.median)}.`)
      .join(" ")}`,
    panels: (theme) => [panel(rows, theme)],
  });
}

/** Places a heading for each group above the rows of the group. */
function rowsOf({ figures }: RecordedRun): PlotRow[] {
  const groups = [...new Set(figures.map(({ group }) => group))];
  return groups.flatMap((group): PlotRow[] => [
    { id: group, label: group, group },
    ...figures.filter((of) => of.group === group).map((of) => ({ id: of.id, label: of.title, group, figures: of })),
  ]);
}

function panel(rows: readonly PlotRow[], theme: Theme): PlotOptions {
  const bars = rows.filter((row): row is Bar => row.figures !== undefined);
  const headings = rows.filter(({ figures }) => figures === undefined);
  const labels = { y: "id", frameAnchor: "left", fill: theme.text, text: "label" } as const;
  const quartiles = {
    x1: ({ figures }: Bar) => figures.perSecond.lower,
    x2: ({ figures }: Bar) => figures.perSecond.upper,
    y: "id",
  };
  return {
    width: figureWidth,
    height: 80 + rowHeight * rows.length,
    marginLeft,
    marginRight: 120,
    marginTop: 46,
    marginBottom: 30,
    x: { label: "requests per second", labelAnchor: "center", labelArrow: "none", axis: "top" },
    y: { axis: null, domain: rows.map(({ id }) => id) },
    marks: [
      gridX(),
      axisX({ anchor: "bottom", label: null }),
      textMark(bars, { ...labels, textAnchor: "end", dx: -8 }),
      textMark(headings, { ...labels, textAnchor: "start", fontWeight: 600, dx: 16 - marginLeft }),
      barX(bars, {
        x: ({ figures }: Bar) => figures.perSecond.median,
        y: "id",
        fill: ({ group }: Bar) => colourOf(theme, group),
      }),
      // A line of the background's colour separates the thinner line from the bar.
      ruleY(bars, { ...quartiles, stroke: theme.background, strokeWidth: 4 }),
      ruleY(bars, { ...quartiles, stroke: theme.text, strokeWidth: 1.5 }),
      textX(bars, {
        x: ({ figures }: Bar) => figures.perSecond.upper,
        y: "id",
        text: ({ figures }: Bar) => textOf(figures),
        textAnchor: "start",
        dx: 5,
      }),
    ],
  };
}

const textOf = ({ perSecond, cpuUs }: Figures): string =>
  `${whole(perSecond.median)}${cpuUs === null ? "" : `, ${whole(cpuUs)} µs CPU`}`;

function colourOf({ colours }: Theme, group: string): string {
  if (group.startsWith("Headgate, proxy")) return colours.green;
  if (group.startsWith("Headgate")) return colours.blue;
  if (group.startsWith("other")) return colours.orange;
  return group.startsWith("Node") ? colours.pink : colours.grey;
}
