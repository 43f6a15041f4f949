/** The plot of one lane. The pointer on it moves the cursor and explains denials. */
import "./lane-plot.css";
import { useEffect, useRef } from "preact/hooks";
import type { Chart } from "../../app/parts/chart.ts";
import { nearestDenial, neverMs } from "../model/columns.ts";
import type { LaneRun } from "../model/run.ts";
import { chosenDenial, markedLanes, moveCursor } from "../page-state.ts";
import { laneChart, type LanePicture, labelPx, laneHeight, requestsLayout, tops } from "./lane-chart.ts";
import { summaryText } from "./lane-text.ts";
import { columnOf, columnPx, plots, plotWidth, scale, shownCursorMs, span, ticks } from "./plots.ts";
import { explained } from "./readout.tsx";
import { instantAt, percent, shareOf, SpanMark } from "./time-axis.tsx";

const aboveBand = (band: keyof typeof tops): string => `${tops[band] - labelPx}px`;

/** The greatest distance between the pointer and a denial that it selects. */
const reachPx = 4;

export function LanePlot({ run }: { readonly run: LaneRun }) {
  const hasWaits = run.summary.delayed > 0;
  const isDrawn = plots.value.has(run.lane);
  const explain = (event: PointerEvent): void => {
    const { fromMs, toMs } = span.value;
    const reachMs = ((toMs - fromMs) / Math.max(1, plotWidth.value)) * reachPx;
    const row = nearestDenial(run, timeAt(event), reachMs);
    if (row !== -1) chosenDenial.value = { lane: run.lane, row };
  };
  return (
    <div
      class="pg-plot"
      style={{ height: `${laneHeight(run)}px` }}
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
      <Picture key={String(hasWaits)} run={run} />
      <div class="pg-labels" aria-hidden="true">
        <span style={{ top: aboveBand("requests") }}>
          <span class="allowed">▲ Allowed</span> <span class="denied">▼ Denied</span>
        </span>
        <span style={{ top: aboveBand("remaining") }}>Remaining{run.keys.length > 1 ? ` for one client` : ""}</span>
        {hasWaits && <span style={{ top: aboveBand("waits") }}>Wait in the queue</span>}
      </div>
      {isDrawn && markedLanes.value.includes(run.lane) && <WorstMarks run={run} />}
      <DenialMarks run={run} />
      <CursorLine />
    </div>
  );
}

const timeAt = (event: PointerEvent): number => Math.round(instantAt(event));

/** The explanation of the denial that was chosen in this lane; null without one. */
const explainedIn = (run: LaneRun): typeof explained.value =>
  explained.value?.run === run && chosenDenial.value?.lane === run.lane ? explained.value : null;

/** The chart of a lane. It is created anew when the lane needs another height. */
function Picture({ run }: { readonly run: LaneRun }) {
  const frame = useRef<HTMLDivElement>(null);
  const chart = useRef<Chart<LanePicture> | null>(null);
  const plot = plots.value.get(run.lane);
  const common = scale.value;
  const marks = ticks.value;
  const denial = explainedIn(run);
  useEffect(() => () => chart.current?.destroy(), []);
  useEffect(() => {
    if (plot === undefined) return undefined;
    const rows = denial?.causes.flatMap((cause) => cause.rows) ?? [];
    const causes = new Set(rows.map((row) => columnOf(run.atMs[row] ?? 0)));
    const picture = { plot, scale: common, ticks: marks, causes };
    // Each lane is drawn in a task of its own, because drawing all lanes at once would block the page.
    const timer = setTimeout(() => {
      if (frame.current !== null) chart.current ??= laneChart(frame.current, picture);
      chart.current?.update(picture);
    });
    return () => clearTimeout(timer);
  }, [plot, common, marks, denial, run]);
  return <div ref={frame} class="pg-chart" role="img" aria-label={summaryText(run)} />;
}

const leftOf = (atMs: number): string => percent(shareOf(atMs, span.value));

/** The denial that is explained, and when each limit allows its request. */
function DenialMarks({ run }: { readonly run: LaneRun }) {
  const denial = explainedIn(run);
  if (denial === null) return null;
  const top = `${tops.requests + requestsLayout(scale.value).base}px`;
  return (
    <>
      <span class="pg-denial" style={{ left: leftOf(run.atMs[denial.row] ?? 0), top }} />
      {denial.causes.map(
        ({ limit, clearsMs }) =>
          clearsMs !== neverMs && <span key={limit} class="pg-clears" style={{ left: leftOf(clearsMs) }} />,
      )}
    </>
  );
}

/** The worst burst of each limit: a box around the bars of its requests, and the window that counts them. */
function WorstMarks({ run }: { readonly run: LaneRun }) {
  const height = `${requestsLayout(scale.value).base}px`;
  return run.summary.worstBursts.map((burst, index) => {
    if (burst === null) return null;
    const first = columnOf(burst.fromMs);
    const last = columnOf(burst.fromMs + burst.lengthMs);
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
  return <span class="pg-cursor-line" style={{ left: percent(share) }} />;
}
