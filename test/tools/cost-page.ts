/**
 * The generated parts of `docs/operate/costs.md`, which are the cost table with its plot and the prices, and the prices
 * of other limiters.
 */
import { barX, gridX, ruleX, textX } from "@observablehq/plot";
import { type BeatsCosts, beatsTable } from "./control-plane/beats-cost.ts";
import type { ShapeCost } from "./cost-replay.ts";
import { centsText, costParts, costTable, dollarsByPart, priceTable, totalDollars } from "./cost-table.ts";
import { drawFigure } from "./figure.ts";
import { type Figure, type Generated, picture } from "./generated.ts";
import { type PeerCost, peerCostTable } from "./peers/costs.ts";
import { comparisonPage } from "./peers/page.ts";

export const costPage = "docs/operate/costs.md";

const title = "Price of a million requests";

export const costDocs = (costs: readonly ShapeCost[], beats: BeatsCosts, peers: readonly PeerCost[]): Generated => ({
  command: "npm run bench -- cost",
  pages: {
    [costPage]: [
      `${picture("costs", title)}\n\n${costTable(costs)}`,
      beatsTable(beats, busyKeyDollars(costs)),
      priceTable(),
    ],
    [comparisonPage]: [peerCostTable(costs, peers)],
  },
  figures: { "docs/operate/costs": figureOf(costs) },
});

/** The price of a million decisions on a busy key, with the cheapest setting that still calls an object. */
export function busyKeyDollars(costs: readonly ShapeCost[]): number {
  const [busy] = costs;
  if (busy?.shape.name !== "a busy key") throw new Error("the first shape is a busy key");
  return totalDollars(busy);
}

function figureOf(costs: readonly ShapeCost[]): Figure {
  const nameOf = ({ shape }: ShapeCost): string => shape.name;
  const parts = costs.flatMap((cost) => {
    const dollars = dollarsByPart(cost);
    return costParts.map((part) => ({ name: nameOf(cost), part, dollars: dollars[part] }));
  });
  const texts = costs.map((cost) => `${nameOf(cost)} ${centsText(totalDollars(cost))}`);
  return drawFigure({
    title,
    subtitle: "Dollars on Cloudflare's paid plan, beyond the included quantities",
    description: `Stacked bar chart of Worker, calls, rows and object seconds. Totals: ${texts.join("; ")}.`,
    panels: ({ colours, muted }) => {
      const range = [colours.grey, colours.blue, colours.orange, colours.green];
      const names = ["the Worker", "calls of objects", "rows written", "seconds of objects"];
      const places = [200, 310, 450, 570];
      return [
        {
          height: 24,
          axis: null,
          marginLeft: 0,
          marginRight: 0,
          x: { domain: [0, 860], range: [0, 860] },
          marks: [
            barX(names, {
              x1: (_: string, index: number) => places[index],
              x2: (_: string, index: number) => (places[index] ?? 0) + 14,
              fill: (_: string, index: number) => range[index],
              insetTop: 6,
              insetBottom: 4,
            }),
            textX(names, {
              x: (_: string, index: number) => (places[index] ?? 0) + 20,
              text: (name: string) => name,
              textAnchor: "start",
            }),
          ],
        },
        {
          height: 50 + 26 * costs.length,
          marginLeft: 200,
          marginRight: 60,
          marginTop: 36,
          x: { label: "dollars", axis: "top", tickFormat: ".2f" },
          y: { label: null, domain: costs.map(nameOf), tickSize: 0 },
          color: { domain: costParts, range },
          marks: [
            gridX({ stroke: muted }),
            barX(parts, { x: "dollars", y: "name", fill: "part" }),
            ruleX([0], { stroke: muted }),
            textX(costs, {
              x: totalDollars,
              y: nameOf,
              text: (cost: ShapeCost) => centsText(totalDollars(cost)),
              textAnchor: "start",
              dx: 5,
            }),
          ],
        },
      ];
    },
  });
}
