/** One lane: what its strategy does, what it allowed and denied, its worst burst, its plot, and the same as a table. */
import { useState } from "preact/hooks";
import { numberText, windowText } from "../../app/parts/text.ts";
import {
  chosenDenial,
  invalidFields,
  limitsLabel,
  markedLanes,
  openPreset,
  scenario,
  scenarioText,
} from "../page-state.ts";
import type { LaneRun, LaneLimit, WorstBurst } from "../model/scenario.ts";
import { nextDenial } from "../model/columns.ts";
import { LanePlot } from "./lane-plot.tsx";
import { summaryText, laneText, burstText, hidesBound, boundText, burstMs, limitLabels } from "./lane-text.ts";
import { LaneTable } from "./lane-table.tsx";
import { Readout } from "./readout.tsx";
import { visibleRuns } from "./plots.ts";
import { signal } from "@preact/signals";
import { waitText } from "../../../strategies/index.ts";
import { lanesOf } from "../model/lanes.ts";
import { formatScenario } from "../model/scenario-query.ts";
import { worstTraffic } from "../model/worst-traffic.ts";
import { axisTimeText, showSpan } from "./time-axis.tsx";

export function LaneCard({ run }: { readonly run: LaneRun }) {
  const [isTable, setIsTable] = useState(false);
  const { title, text } = laneText(run);
  const id = `lane-${run.lane}`;
  return (
    <article class="card pg-lane" aria-labelledby={id}>
      <div class="pg-lane-grid">
        <div class="pg-lane-about">
          <h2 id={id}>
            {title} {run.lane === "written" && title !== "As written" && <Written />}
          </h2>
          <Counts run={run} />
          <WorstGauge run={run} />
          <BoundHint run={run} />
          <p class="dim pg-about">{text}</p>
        </div>
        <div class="pg-lane-plot">
          <LanePlot run={run} summary={summaryText(run)} />
          <Readout run={run} />
          <div class="row pg-actions">
            <MarkButton lane={run.lane} />
            <DenialButtons run={run} />
            <button type="button" aria-expanded={isTable} onClick={() => setIsTable(!isTable)}>
              Show as table
            </button>
          </div>
          {markedLanes.value.includes(run.lane) && <WorstBursts run={run} />}
        </div>
      </div>
      {isTable && <LaneTable run={run} title={title} />}
    </article>
  );
}

const Written = () => (
  <span class="badge">{invalidFields.value.includes(limitsLabel) ? "last valid limits" : "as written"}</span>
);

function Counts({ run: { summary, isCut } }: { readonly run: LaneRun }) {
  const { allowed, denied, delayed } = summary;
  return (
    <p class="pg-counts">
      <span class="allowed">
        <b>{numberText(allowed)}</b> allowed
      </span>{" "}
      <span class={denied === 0 ? "dim" : "denied"}>
        <b>{numberText(denied)}</b> denied
      </span>
      {delayed > 0 && (
        <>
          {" "}
          <span class="pg-delayed">
            <b>{numberText(delayed)}</b> of the allowed waited
          </span>
        </>
      )}
      {isCut && <span class="warning"> The run ended early: it has too many retries.</span>}
    </p>
  );
}

function MarkButton({ lane }: { readonly lane: string }) {
  const isMarked = markedLanes.value.includes(lane);
  const toggle = (): void => {
    const others = markedLanes.value.filter((each) => each !== lane);
    markedLanes.value = isMarked ? others : [...others, lane];
  };
  return (
    <button type="button" aria-pressed={isMarked} onClick={toggle}>
      Find the worst burst
    </button>
  );
}

/** Steps through the denials, for people without a pointer. */
function DenialButtons({ run }: { readonly run: LaneRun }) {
  if (run.summary.denied === 0) return null;
  const chosen = chosenDenial.value;
  const row = chosen?.lane === run.lane ? chosen.row : null;
  const previous = row === null ? -1 : nextDenial(run, row, -1);
  const next = nextDenial(run, row ?? -1, 1);
  const choose = (to: number): void => {
    chosenDenial.value = { lane: run.lane, row: to };
  };
  return (
    <span class="row" role="group" aria-label="Denials">
      <button type="button" disabled={previous === -1} onClick={() => choose(previous)}>
        ‹ Previous denial
      </button>
      <button type="button" disabled={next === -1} onClick={() => choose(next)}>
        {row === null ? "Explain a denial" : "Next denial"} ›
      </button>
    </span>
  );
}

const WorstGauge = ({ run }: { readonly run: LaneRun }) => (
  <>
    {run.limits.map((limit, index) => {
      const burst = run.summary.worstBursts[index] ?? null;
      return <Gauge key={limit.name} index={index} limit={limit} burst={burst} />;
    })}
  </>
);

interface GaugeProps {
  readonly index: number;
  readonly limit: LaneLimit;
  readonly burst: WorstBurst | null;
}

function Gauge({ index, limit, burst }: GaugeProps) {
  const units = burst?.units ?? 0;
  const most = Math.max(
    1,
    ...visibleRuns.value.map(({ limits, summary }) =>
      Math.max(limits[index]?.mostPerWindow ?? 0, summary.worstBursts[index]?.units ?? 0),
    ),
  );
  const percent = (value: number): string => `${((100 * value) / most).toFixed(2)}%`;
  const isOver = units > limit.limit;
  return (
    <div class="pg-gauge">
      <p>
        Worst burst: <b class={isOver ? "denied" : ""}>{burstText(limit, units)}</b>
        <span class="dim"> – bound {numberText(limit.mostPerWindow)}</span>
      </p>
      <div class="pg-gauge-bar" aria-hidden="true">
        <span class={isOver ? "pg-fill pg-over" : "pg-fill"} style={{ width: percent(units) }} />
        <span class="pg-bound" style={{ left: percent(limit.mostPerWindow) }} />
        <span class="pg-limit" style={{ left: percent(limit.limit) }} />
      </div>
    </div>
  );
}

const WorstBursts = ({ run }: { readonly run: LaneRun }) => (
  <ul class="pg-worst-text">
    {run.limits.map((limit, index) => (
      <li key={limit.name}>
        <WorstBurstText run={run} index={index} />
      </li>
    ))}
  </ul>
);

interface WorstProps {
  readonly run: LaneRun;
  /** Index of the limit. */
  readonly index: number;
}

function WorstBurstText({ run, index }: WorstProps) {
  const limit = run.limits[index];
  const burst = run.summary.worstBursts[index] ?? null;
  if (limit === undefined) return null;
  if (burst === null) return <>Nothing was allowed, so there is no burst.</>;
  const { fromMs, units, key } = burst;
  const lengthMs = burstMs(run, burst);
  const client = run.keys.length > 1 ? ` for ${run.keys[key] ?? ""}` : "";
  const marginMs = Math.max(10, lengthMs * 0.25);
  const lastMs = fromMs + lengthMs;
  const span = lengthMs === 0 ? "at one instant" : `in ${waitText(lengthMs)}`;
  return (
    <>
      {run.limits.length > 1 && `${limitLabels(run.limits)[index] ?? ""}: `}
      <b>
        {numberText(units)} {span}
      </b>
      {client}, from {axisTimeText(fromMs)} on.{" "}
      {limit.holdsSlots ? "At one instant" : `In any ${windowText(limit.windowMs)}, such as the tinted one`}, the
      documented {boundText(limit)}.{" "}
      <span class="row pg-actions">
        <button type="button" onClick={() => showSpan(fromMs - marginMs, lastMs + marginMs)}>
          Zoom to it
        </button>
        <ReachButton run={run} index={index} />
      </span>
    </>
  );
}

/** Where a fixed window stays within its limit by chance of the traffic, which would look like a promise. */
function BoundHint({ run }: { readonly run: LaneRun }) {
  const [limit] = run.limits;
  if (limit === undefined || !hidesBound(run)) return null;
  return (
    <p class="pg-about">
      Nothing above the limit in this traffic, but the {boundText(limit)}.{" "}
      <span class="pg-actions">
        <ReachButton run={run} index={0} />
      </span>
    </p>
  );
}

/** The scenario with the worst traffic that was found last. */
const worstText = signal<string | null>(null);

/** Replaces the traffic by one that makes the limit allow as much as the engine ever does. */
function ReachButton({ run, index }: WorstProps) {
  const [message, setMessage] = useState("");
  const search = (): void => {
    const lane = lanesOf(scenario.value).lanes.find((each) => each.lane === run.lane);
    const worst = lane === undefined ? null : worstTraffic(scenario.value, lane, index);
    if (worst === null) {
      setMessage("No traffic was found that the limit allows.");
      return;
    }
    worstText.value = formatScenario(worst.scenario);
    openPreset(`${worstText.value}&worst=${run.lane}`);
  };
  const isReached = run.summary.worstBursts[index]?.units === run.limits[index]?.mostPerWindow;
  if (isReached || worstText.value === scenarioText.value) return null;
  return (
    <>
      <button type="button" onClick={search}>
        Try the worst traffic
      </button>
      <span role="status">{message}</span>
    </>
  );
}
