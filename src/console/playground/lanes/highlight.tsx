/** Marks over a plot: the denial that is explained, the earlier requests that cause it, and when it clears. */
import { useEffect, useRef } from "preact/hooks";
import { chosenDenial } from "../page-state.ts";
import { type LaneRun, neverMs } from "../model/scenario.ts";
import { bands, cleared, columnPx, requestsLayout } from "./draw.ts";
import { columnOf, plotWidth, scale, span } from "./plots.ts";
import { explained } from "./readout.tsx";
import { useScheme } from "./scheme.ts";
import { shareOf } from "./time-axis.tsx";

export function Highlight({ run }: { readonly run: LaneRun }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const shown = explained.value;
  const isShown = shown?.run === run && chosenDenial.value?.lane === run.lane;
  const width = plotWidth.value;
  const visible = span.value;
  const common = scale.value;
  const scheme = useScheme();
  useEffect(() => {
    if (canvas.current === null || !isShown || shown === null) return;
    const context = cleared(canvas.current, width, bands.requests);
    if (context === null) return;
    const style = getComputedStyle(canvas.current);
    const color = (name: string): string => style.getPropertyValue(`--plot-${name}`);
    const { base } = requestsLayout(common);
    const x = (ms: number): number => shareOf(ms, visible) * width;
    context.fillStyle = color("cause");
    for (const column of columnsOf(shown.causes, (row) => columnOf(run.atMs[row] ?? 0))) {
      context.fillRect(column * columnPx, 0, columnPx, base - 1);
    }
    const atDenial = x(run.atMs[shown.row] ?? 0);
    context.fillStyle = color("denied");
    triangle(context, atDenial, base + 2, 7);
    for (const { clearsMs } of shown.causes) {
      if (clearsMs === neverMs) continue;
      context.strokeStyle = color("allowed");
      context.setLineDash([3, 3]);
      context.strokeRect(Math.round(x(clearsMs)) + 0.5, 0, 0, bands.requests);
    }
  }, [shown, isShown, width, visible, common, run, scheme]);
  return <canvas ref={canvas} class="pg-highlight" hidden={!isShown} aria-hidden="true" />;
}

/** The columns of the plot that have a request which causes the denial. */
function columnsOf(
  causes: NonNullable<typeof explained.value>["causes"],
  columnOfRow: (row: number) => number,
): ReadonlySet<number> {
  const columns = new Set<number>();
  for (const { counting } of causes) {
    for (const { rows } of counting) {
      for (const row of rows) columns.add(columnOfRow(row));
    }
  }
  return columns;
}

function triangle(context: CanvasRenderingContext2D, x: number, y: number, size: number): void {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - size * 0.7, y + size * 1.4);
  context.lineTo(x + size * 0.7, y + size * 1.4);
  context.fill();
}
