/** The picture of one lane, and what the pointer does on it: it moves the cursor, and explains denials. */
import "../../app/parts/plot.css";
import "./lane-plot.css";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { chosenDenial, markedLanes, moveCursor } from "../page-state.ts";
import { type LaneRun, neverMs } from "../model/scenario.ts";
import { LaneChart, type LanePicture, labelPx, laneHeight, requestsLayout, tops } from "./lane-chart.ts";
import { nearestDenial } from "../model/columns.ts";
import { columnOf, columnPx, drawLater, plots, plotWidth, scale, shownCursorMs, span, ticks } from "./plots.ts";
import { burstMs } from "./lane-text.ts";
import { explained } from "./readout.tsx";
import { percent, shareOf, SpanMark } from "./time-axis.tsx";

const aboveBand = (band: keyof typeof tops): string => `${tops[band] - labelPx}px`;

/** The explanation of the denial that was chosen in this lane; null without one. */
const explainedIn = (run: LaneRun): typeof explained.value =>
  explained.value?.run === run && chosenDenial.value?.lane === run.lane ? explained.value : null;

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
      <DenialMarks run={run} />
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
  const frameRef = useRef<HTMLDivElement>(null);
  const chartRef = useRef<LaneChart | null>(null);
  const plot = plots.value.get(run.lane);
  const common = scale.value;
  const marks = ticks.value;
  const width = plotWidth.value;
  const denial = explainedIn(run);
  useEffect(() => {
    if (frameRef.current === null) return undefined;
    const created = new LaneChart(frameRef.current);
    chartRef.current = created;
    return () => created.destroy();
  }, []);
  useEffect(() => {
    if (plot === undefined || width === 0) return undefined;
    const rows = denial?.causes.flatMap(({ counting }) => counting.flatMap((part) => [...part.rows])) ?? [];
    const picture: LanePicture = {
      columns: plot.columns,
      capacity: Math.min(...plot.run.limits.map((limit) => limit.capacity)),
      scale: common,
      span: plot.form.span,
      ticks: marks,
      causes: new Set(rows.map((row) => columnOf(run.atMs[row] ?? 0))),
      hasWaits: plot.run.summary.delayed > 0,
      width,
    };
    return drawLater(() => chartRef.current?.show(picture));
  }, [plot, common, width, marks, denial, run]);
  return <div ref={frameRef} class="pg-chart" role="img" aria-label={summary} />;
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
  return <span class="pg-cursor-line" style={{ left: percent(share) }} />;
}
