/** The tables and the plot of `docs/explanation/accuracy.md`, and the table of the comparison with other limiters. */
import { barX, gridX, ruleX, textX } from "@observablehq/plot";
import { accuracyHeader, accuracyRow, kindsHeader, kindsRow } from "./accuracy-table.ts";
import { drawFigure } from "./figure.ts";
import { type Generated, type Figure } from "./generated.ts";
import { exactnessTable, type PeerExactness } from "./peers/exactness.ts";
import { comparisonPage } from "./peers/page.ts";
import { type Accuracy, shape } from "./accuracy-replay.ts";
import { markdownTable } from "./table.ts";

export const accuracyPage = "docs/explanation/accuracy.md";

export const accuracyDocs = (measured: readonly Accuracy[], peers: readonly PeerExactness[]): Generated => ({
  command: "npm run bench -- accuracy",
  pages: {
    [accuracyPage]: [
      markdownTable(accuracyHeader, measured.map(accuracyRow)),
      markdownTable(kindsHeader, measured.map(kindsRow)),
    ],
    [comparisonPage]: [exactnessTable(peers)],
  },
  figures: { "docs/explanation/accuracy": accuracyFigure(measured) },
});

interface Bar {
  readonly title: string;
  /** In percent of all requests. */
  readonly over: number;
  readonly under: number;
  /** The largest number of admitted requests in a window, relative to the limit. */
  readonly most: number;
}

function barOf({ form, tallies }: Accuracy): Bar {
  const all = [...tallies.values()];
  const sumOf = (count: (tally: (typeof all)[number]) => number): number =>
    all.reduce((sum, tally) => sum + count(tally), 0);
  const share = (count: number): number => (100 * count) / sumOf(({ requests }) => requests);
  return {
    title: form.title,
    over: share(sumOf(({ over }) => over)),
    under: share(sumOf(({ under }) => under)),
    most: Math.max(...all.map(({ most }) => most)) / shape.limit,
  };
}

const percentText = (value: number): string => `${value.toFixed(1)} %`;
const ratioText = (value: number): string => `${value.toFixed(2)} ×`;

function accuracyFigure(measured: readonly Accuracy[]): Figure {
  const bars = measured.map(barOf);
  const sizes = {
    height: 60 + 22 * bars.length,
    marginLeft: 240,
    marginRight: 60,
    marginTop: 46,
    marginBottom: 10,
    y: { label: null, domain: bars.map(({ title }) => title), tickSize: 0 },
  };
  return drawFigure({
    title: "Accuracy by strategy",
    subtitle: "Compared with an exact sliding log, for 200,000 requests against a limit of 100 per minute.",
    description: `Two bar charts with a row for each strategy. ${bars
      .map(
        ({ title, over, under, most }) =>
          `${title}: ${percentText(over)} over-admitted, ${percentText(under)} under-admitted, at most ${ratioText(most)} the limit in a window.`,
      )
      .join(" ")}`,
    panels: ({ colours, muted, text }) => [
      {
        ...sizes,
        x: {
          label: "under-admitted ← percent of requests → over-admitted",
          labelAnchor: "center",
          labelArrow: "none",
          axis: "top",
          domain: [-10, 20],
          tickFormat: (value: number) => String(Math.abs(value)),
        },
        marks: [
          gridX(),
          barX(bars, { x: ({ under }: Bar) => -under, y: "title", fill: colours.blue }),
          barX(bars, { x: "over", y: "title", fill: colours.orange }),
          ruleX([0], { stroke: muted }),
          textX(bars, {
            x: ({ under }: Bar) => -under,
            y: "title",
            text: ({ under }: Bar) => percentText(under),
            textAnchor: "end",
            dx: -4,
          }),
          textX(bars, {
            x: "over",
            y: "title",
            text: ({ over }: Bar) => percentText(over),
            textAnchor: "start",
            dx: 4,
          }),
        ],
      },
      {
        ...sizes,
        x: {
          label: "most allowed in any span as long as the window, as a multiple of the limit",
          labelAnchor: "center",
          labelArrow: "none",
          axis: "top",
          domain: [0, 2],
          tickFormat: ".1f",
        },
        marks: [
          gridX(),
          barX(bars, { x: "most", y: "title", fill: colours.grey }),
          ruleX([1], { stroke: text, strokeDasharray: "4 3" }),
          textX(bars, {
            x: "most",
            y: "title",
            text: ({ most }: Bar) => ratioText(most),
            textAnchor: "start",
            dx: 4,
          }),
        ],
      },
    ],
  });
}
