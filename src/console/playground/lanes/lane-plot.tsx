/** The picture of one lane, and what the pointer does on it: it moves the cursor, and explains denials. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { chosenDenial, cursorMs, markedLanes, moveCursor } from "../page-state.ts";
import type { LaneRun } from "../model/scenario.ts";
import { useScheme } from "./scheme.ts";
import { nearestDenial } from "./bins.ts";
import { bands, drawLane, laneHeight, requestsLayout } from "./draw.ts";
import { Highlight } from "./highlight.tsx";
import { plots, plotWidth, scale, span, ticks } from "./plots.ts";
import { shareOf, SpanMark } from "./time-axis.tsx";

/** How far from a denial the pointer may be. */
const reachPx = 4;

export function LanePlot({ run, summary }: { readonly run: LaneRun; readonly summary: string }) {
  const plot = plots.value.get(run.lane);
  const hasWaits = run.summary.delayed > 0;
  const { base } = requestsLayout(scale.value);
  return (
    <PointerArea run={run} height={laneHeight(hasWaits)}>
      <Picture run={run} summary={summary} />
      <div class="pg-labels" aria-hidden="true">
        <span style={{ top: "0" }}>Allowed ▲</span>
        <span style={{ top: `${Math.min(base + 2, bands.requests - 14)}px` }}>Denied ▼</span>
        <span style={{ top: `${bands.requests + bands.gap}px` }}>
          Remaining{run.keys.length > 1 ? ` for one client` : ""}
        </span>
        {hasWaits && (
          <span style={{ top: `${laneHeight(false) + bands.gap}px` }}>Wait in the queue</span>
        )}
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
    if (canvas.current === null || plot === undefined || width === 0) return;
    const capacity = Math.min(...plot.run.limits.map((limit) => limit.capacity));
    drawLane(canvas.current, width, { ...plot, capacity, scale: common, ticks: marks });
  }, [plot, common, width, scheme, marks]);
  return <canvas ref={canvas} class="pg-canvas" role="img" aria-label={summary} />;
}

/** The worst burst of each limit. */
function WorstMarks({ run }: { readonly run: LaneRun }) {
  return (
    <>
      {run.summary.worstBursts.map(
        (burst, index) =>
          burst !== null && (
            <SpanMark key={run.limits[index]?.name ?? index} marked={burst} class="pg-worst" />
          ),
      )}
    </>
  );
}

function CursorLine() {
  const at = cursorMs.value;
  if (at === null) return null;
  const share = shareOf(at, span.value);
  if (share < 0 || share > 1) return null;
  return <span class="pg-cursor-line" style={{ left: `${(share * 100).toFixed(3)}%` }} />;
}
