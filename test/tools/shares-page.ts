/** The generated part of `docs/explanation/fair-shares.md`: whom a shared limit denies, by how long a key is active. */
import { lineY, ruleY, textX } from "@observablehq/plot";
import { activeLengthsMs, type Measured, shape } from "../simulation/tenants.ts";
import { drawFigure } from "./figure.ts";
import { type Figure, type Generated, picture } from "./generated.ts";
import { markdownTable, percent, whole } from "./table.ts";

export const sharesPage = "docs/explanation/fair-shares.md";

const title = "Denied requests by length of activity";

export const sharesDocs = (measured: readonly Measured[]): Generated => ({
  command: "npm run bench -- shares",
  pages: { [sharesPage]: [`${picture("fair-shares", title)}\n\n${sharesTable(measured)}`] },
  figures: { "docs/explanation/fair-shares": figureOf(measured) },
});

const lengthText = (activeMs: number): string => (activeMs === 0 ? "no shares" : `${activeMs / 1_000} s`);

const part = (value: number): string => `${percent(value, 1)} %`;

export const sharesTable = (measured: readonly Measured[]): string =>
  markdownTable(
    ["active for", "many: slow", "many: bursty", "many: greedy", "many: limit used", "few: batches", "few: limit used"],
    measured.map(({ activeMs, many, few }) => [
      lengthText(activeMs),
      part(many.denied.slow),
      part(many.denied.bursty),
      part(many.denied.greedy),
      part(many.usage),
      part(few.denied.bursty),
      part(few.usage),
    ]),
  );

interface Point {
  readonly length: string;
  readonly percent: number;
  readonly series: string;
}

function figureOf(measured: readonly Measured[]): Figure {
  const lengths = activeLengthsMs.map(lengthText);
  const series: Readonly<Record<string, (each: Measured) => number>> = {
    "slow keys of many": ({ many }) => many.denied.slow,
    "bursty keys of many": ({ many }) => many.denied.bursty,
    "batches of one of three": ({ few }) => few.denied.bursty,
    "limit not used": ({ many }) => 1 - many.usage,
  };
  const points = measured.flatMap((each): Point[] =>
    Object.entries(series).map(([name, valueOf]) => ({
      length: lengthText(each.activeMs),
      percent: 100 * valueOf(each),
      series: name,
    })),
  );
  return drawFigure({
    title,
    subtitle: `${whole(shape.tenants)} keys of one limit, and three keys of another; greedy keys send as much as they can`,
    description:
      "Line chart. Without shares and with up to 3 s, most requests of a key with batches are denied; with 10 s, none.",
    panels: ({ colours, muted }) => [
      {
        height: 340,
        marginLeft: 60,
        marginRight: 170,
        x: { type: "point", domain: lengths, label: "active for" },
        y: { label: "% denied", domain: [0, 100], grid: true },
        color: {
          domain: Object.keys(series),
          range: [colours.blue, colours.orange, colours.green, colours.grey],
          legend: false,
        },
        marks: [
          ruleY([0], { stroke: muted }),
          lineY(points, { x: "length", y: "percent", stroke: "series", marker: "circle" }),
          ...Object.keys(series).map((name, index) =>
            textX([name], {
              x: () => lengths.at(-1),
              frameAnchor: "top-right",
              text: () => name,
              fill: () => name,
              textAnchor: "start",
              dx: 12,
              dy: 18 * index,
            }),
          ),
        ],
      },
    ],
  });
}
