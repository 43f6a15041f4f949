/** The denials of each way to decide the traffic, over time. */
import type { PlotData, PlotSeries } from "../parts/plot-data.ts";
import { numberText } from "../parts/text.ts";
import type { Comparison } from "../replay/comparison.ts";

const colors = ["--denied", "--accent", "--blocked"] as const;
const minuteMs = 60_000;

interface DenialsPlot {
  readonly title: string;
  readonly summary: string;
  readonly data: PlotData;
}

/** The last way has a second line: denials if clients retry. */
export function denialsPlot({ results, source: { fromMs, toMs } }: Comparison, titles: readonly string[]): DenialsPlot {
  const { startMs, stepMs, counts } = results.at(-1)?.denials ?? {
    startMs: fromMs,
    stepMs: minuteMs,
    counts: new Float64Array(),
  };
  const again = results.at(-1)?.retrying?.denials;
  const series = results
    .map(({ denials }, index): PlotSeries => ({
      label: titles[index] ?? "",
      color: colors[results.length - 1 - index] ?? "--dim",
      values: [...denials.counts],
    }))
    .concat(
      again === undefined
        ? []
        : [
            {
              label: `${titles.at(-1) ?? ""}, if clients retry`,
              color: "--warning",
              values: [...again.counts],
            },
          ],
    );
  return {
    title: `Denied requests per ${numberText(stepMs / minuteMs)} min`,
    summary: series.map((each) => `${each.label}: at most ${numberText(mostIn(each))}`).join("; "),
    data: {
      fromMs,
      toMs,
      times: [...counts.keys()].map((step) => startMs + step * stepMs),
      stepMs,
      longSteps: [],
      series,
    },
  };
}

const mostIn = ({ values }: PlotSeries): number =>
  values.reduce<number>((highest, value) => Math.max(highest, value ?? 0), 0);
