/** The plot of `npm run what-if`: requests, and the denials of each set of limits, over time. */
import { areaY, gridY, lineY, type PlotOptions, ruleY, text as textMark } from "@observablehq/plot";
import type { StepCounts } from "../replay/result.ts";
import { waitText } from "../../strategies/index.ts";
import { drawFigure, type Theme } from "./figure.ts";
import { ratesText } from "./limit-sets.ts";
import { countText, fittedText, partText } from "./report-text.ts";
import { periodText, type ReadTraffic } from "./traffic.ts";
import type { ReplayedSet } from "./what-if-report.ts";

/** More panels would not fit a screen. */
const mostSets = 6;

interface Point {
  readonly at: Date;
  readonly count: number;
}

/** An SVG with a background of its own, so that light and dark pages can show it. */
export function whatIfFigure(
  { timelines, name }: Pick<ReadTraffic, "timelines" | "name">,
  sets: readonly ReplayedSet[],
): string {
  const shown = sets.slice(0, mostSets);
  const [first] = shown;
  if (first === undefined) throw new Error("expected a set of limits");
  const { admitted, denials, requests } = first.withoutRetries;
  const all = pointsOf(admitted).map(({ at, count }, step) => ({
    at,
    count: count + (denials.counts[step] ?? 0),
  }));
  const headings = shown.map(
    ({ label, limits, withoutRetries: { denied } }) =>
      `${label}: ${ratesText(limits)} denies ${partText(denied, requests)}`,
  );
  const mostDenied = shown.reduce(
    (most, { withoutRetries }) => withoutRetries.denials.counts.reduce((a, b) => Math.max(a, b), most),
    1,
  );
  const { light } = drawFigure({
    title: `What if: ${fittedText(name, 60)}`,
    subtitle: `${periodText(timelines.source.fromMs, timelines.source.toMs)}, in steps of ${waitText(admitted.stepMs)}. Clients do not retry.`,
    description: `Requests over time, and below them the denials of each set of limits. Of ${countText(requests)} requests: ${headings.join("; ")}.`,
    panels: (theme) => [
      panel(`${countText(requests)} requests`, all, theme.colours.grey, null),
      ...shown.map(({ withoutRetries }, index) =>
        panel(
          fittedText(headings[index] ?? "", 110),
          pointsOf(withoutRetries.denials),
          colourOf(theme, index),
          mostDenied,
        ),
      ),
    ],
  });
  return light;
}

/** The colour of a set; "now" is the first of samples. */
function colourOf({ colours }: Theme, index: number): string {
  const series = [colours.blue, colours.orange, colours.green, colours.pink];
  return series[index % series.length] ?? colours.blue;
}

/** @param most the end of the axis, so that panels can be compared; null: the greatest count */
function panel(heading: string, points: readonly Point[], colour: string, most: number | null): PlotOptions {
  const greatest = points.reduce((sum, { count }) => Math.max(sum, count), 1);
  return {
    height: 156,
    marginLeft: 64,
    marginRight: 24,
    marginTop: 30,
    marginBottom: 36,
    x: { type: "utc", label: null },
    y: { label: null, domain: [0, most ?? greatest], ticks: 4, tickFormat: countText },
    marks: [
      gridY({ ticks: 4 }),
      areaY(points, { x: "at", y: "count", fill: colour, fillOpacity: 0.3, curve: "step-after" }),
      lineY(points, { x: "at", y: "count", stroke: colour, curve: "step-after" }),
      ruleY([0]),
      textMark([heading], { frameAnchor: "top-left", dy: -22, fontWeight: 600 }),
    ],
  };
}

const pointsOf = ({ startMs, stepMs, counts }: StepCounts): Point[] =>
  Array.from(counts, (count, step) => ({ at: new Date(startMs + step * stepMs), count }));
