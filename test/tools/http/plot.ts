/** Draws a run: requests per second under load, and the latency of a single connection. */
import { barX, dotX, gridX, link, plot, ruleY, textX } from "@observablehq/plot";
import { parseHTML } from "linkedom";
import { whole } from "../table.ts";
import type { Figures, RecordedRun } from "./record.ts";
import { setting } from "./tables.ts";

const namespace = "http://www.w3.org/2000/svg";
const width = 960;
const { document } = parseHTML("<!doctype html><html><body></body></html>");

type Panel = ReturnType<typeof plot>;

/** Two panels with a row for each contestant. */
export function plotOf(run: RecordedRun): string {
  const panels = [throughput(run.figures), latency(run.figures)];
  const outer = document.createElementNS(namespace, "svg");
  const title = document.createElementNS(namespace, "title");
  // The text is Markdown.
  title.textContent = setting(run).replaceAll("`", "");
  outer.append(title);
  let height = 0;
  for (const panel of panels) {
    panel.setAttribute("y", String(height));
    outer.append(panel);
    height += Number(panel.getAttribute("height"));
  }
  const attributes = { xmlns: namespace, width, height, viewBox: `0 0 ${width} ${height}` };
  for (const [name, value] of Object.entries(attributes)) outer.setAttribute(name, String(value));
  return `${outer.toString()}\n`;
}

const labelOf = ({ group, title }: Figures): string => `${group}: ${title}`;

// oxlint-disable-next-line typescript/explicit-function-return-type -- inferred: it is what the library takes
const common = (figures: readonly Figures[]) => ({
  document,
  width,
  height: 70 + 16 * figures.length,
  marginLeft: 320,
  marginRight: 60,
  marginTop: 40,
  style: { background: "white", color: "black" },
  y: { label: null, domain: figures.map(labelOf), tickSize: 0 },
  color: { scheme: "tableau10", domain: [...new Set(figures.map(({ group }) => group))] } as const,
});

/** A bar for the median and a line from the lowest to the highest value. */
function throughput(figures: readonly Figures[]): Panel {
  return plot({
    ...common(figures),
    className: "throughput",
    x: { label: "requests per second", axis: "top", nice: true },
    marks: [
      gridX(),
      barX(figures, { x: ({ perSecond }: Figures) => perSecond.median, y: labelOf, fill: "group" }),
      ruleY(figures, {
        x1: ({ perSecond }: Figures) => perSecond.least,
        x2: ({ perSecond }: Figures) => perSecond.most,
        y: labelOf,
      }),
      textX(figures, {
        x: ({ perSecond }: Figures) => perSecond.most,
        y: labelOf,
        text: ({ perSecond }: Figures) => whole(perSecond.median),
        textAnchor: "start",
        dx: 4,
      }),
    ],
  });
}

/** A filled dot for p50 and a hollow one for p99. */
function latency(figures: readonly Figures[]): Panel {
  const p50 = ({ alone }: Figures): number => alone.p50Ms.median;
  const p99 = ({ alone }: Figures): number => alone.p99Ms.median;
  return plot({
    ...common(figures),
    className: "latency",
    x: {
      label: "latency of one connection, ms: p50 (full) and p99 (empty)",
      axis: "top",
      type: "log",
      nice: true,
      // Numbers without SI prefixes.
      tickFormat: String,
    },
    marks: [
      gridX(),
      link(figures, { x1: p50, x2: p99, y1: labelOf, y2: labelOf, stroke: "group" }),
      dotX(figures, { x: p50, y: labelOf, fill: "group" }),
      dotX(figures, { x: p99, y: labelOf, stroke: "group", fill: "white" }),
    ],
  });
}
