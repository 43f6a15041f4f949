/** The picture of one lane, and what the pointer does on it: it moves the cursor, and explains denials. */
import "./lane-plot.css";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { chosenDenial, markedLanes, moveCursor } from "../page-state.ts";
import type { LaneRun } from "../model/scenario.ts";
import { useScheme } from "./scheme.ts";
import { nearestDenial } from "./bins.ts";
import { columnPx, drawLane, labelPx, laneHeight, requestsLayout, tops } from "./draw.ts";
import { drawLater } from "./draw-queue.ts";
import { Highlight } from "./highlight.tsx";
import { columnOf, plots, plotWidth, scale, shownCursorMs, span, ticks } from "./plots.ts";
import { burstMs } from "./lane-text.ts";
import { shareOf, SpanMark } from "./time-axis.tsx";

const aboveBand = (band: keyof typeof tops): string => `${tops[band] - labelPx}px`;

/** How far from a denial the pointer may be. */
const reachPx = 4;

export function LanePlot({ run, summary }: { readonly run: LaneRun; readonly summary: string }) {
  const plot = plots.value.get(run.lane);
  const hasWaits = run.summary.delayed > 0;
  return (
    <PointerArea run={run} height={laneHeight(hasWaits)}>
      <Picture run={run} summary={summary} />
      <div class="pg-labels" aria-hidden="true">
        <span style={{ top: aboveBand("requests") }}>
          <span class="allowed">▲ Allowed</span> <span class="denied">▼ Denied</span>
        </span>
        <span style={{ top: aboveBand("remaining") }}>Remaining{run.keys.length > 1 ? ` for one client` : ""}</span>
        {hasWaits && <span style={{ top: aboveBand("waits") }}>Wait in the queue</span>}
      </div>
      {plot !== undefined && markedLanes.value.includes(run.lane) && <WorstMarks run={run} />}
      <Highlight run={run} />
      <CursorLine />
    </PointerArea>
  );
}

function PointerArea({
  run,
  height,
  children,
}: {
  readonly run: LaneRun;
  readonly height: number;
  readonly children: ComponentChildren;
}) {
  const explain = (event: PointerEvent): void => {
    const { fromMs, toMs } = span.value;
    const reachMs = ((toMs - fromMs) / Math.max(1, plotWidth.value)) * reachPx;
    const row = nearestDenial(run, timeAt(event), reachMs);
    if (row !== -1) chosenDenial.value = { lane: run.lane, row };
  };
  return (
    <div
      class="pg-plot"
      style={{ height: `${height}px` }}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        moveCursor(timeAt(event));
        explain(event);
      }}
      onPointerMove={(event) => {
        if (event.buttons === 1) moveCursor(timeAt(event));
        else explain(event);
      }}
    >
      {children}
    </div>
  );
}

/** The instant at the pointer. */
function timeAt({ currentTarget, clientX }: PointerEvent): number {
  const { fromMs, toMs } = span.value;
  if (!(currentTarget instanceof Element)) return fromMs;
  const { left, width } = currentTarget.getBoundingClientRect();
  const share = Math.min(1, Math.max(0, (clientX - left) / width));
  return Math.round(fromMs + share * (toMs - fromMs));
}

function Picture({ run, summary }: { readonly run: LaneRun; readonly summary: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const plot = plots.value.get(run.lane);
  const common = scale.value;
  const marks = ticks.value;
  const width = plotWidth.value;
  const scheme = useScheme();
  useEffect(() => {
    const element = canvas.current;
    if (element === null || plot === undefined || width === 0) return undefined;
    const capacity = Math.min(...plot.run.limits.map((limit) => limit.capacity));
    return drawLater(() => drawLane(element, width, { ...plot, capacity, scale: common, ticks: marks }));
  }, [plot, common, width, scheme, marks]);
  return <canvas ref={canvas} class="pg-canvas" role="img" aria-label={summary} />;
}

/** The worst burst of each limit: a box around the bars of its requests, and the window that counts them. */
function WorstMarks({ run }: { readonly run: LaneRun }) {
  const height = `${requestsLayout(scale.value).base}px`;
  return run.summary.worstBursts.map((burst, index) => {
    if (burst === null) return null;
    const first = columnOf(burst.fromMs);
    const last = columnOf(burst.fromMs + burstMs(run, burst));
    const left = `${first * columnPx}px`;
    const width = `${(last - first + 1) * columnPx - 1}px`;
    return (
      <div key={run.limits[index]?.name ?? index} class="pg-worst" style={{ height }}>
        <SpanMark marked={burst} class="pg-worst-window" />
        <span class="pg-worst-bars" style={{ left, width }} />
      </div>
    );
  });
}

function CursorLine() {
  const at = shownCursorMs.value;
  if (at === null) return null;
  const share = shareOf(at, span.value);
  if (share < 0 || share > 1) return null;
  return <span class="pg-cursor-line" style={{ left: `${(share * 100).toFixed(3)}%` }} />;
}
