/** One lane: what its strategy does, what it allowed and denied, its worst burst, its plot, and the same as a table. */
import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { waitText } from "../../../strategies/index.ts";
import { numberText, windowText } from "../../app/parts/text.ts";
import { nextDenial } from "../model/columns.ts";
import { writtenLane } from "../model/lanes.ts";
import type { LaneRun } from "../model/run.ts";
import { formatScenario } from "../model/scenario-query.ts";
import { worstTraffic } from "../model/worst-traffic.ts";
import {
  chosenDenial,
  invalidFields,
  limitsLabel,
  markedLanes,
  openPreset,
  scenario,
  scenarioText,
} from "../page-state.ts";
import { LanePlot } from "./lane-plot.tsx";
import { boundText, burstText, hidesBound, laneText, limitLabels } from "./lane-text.ts";
import { LaneTable } from "./lane-table.tsx";
import { visibleRuns } from "./plots.ts";
import { Readout } from "./readout.tsx";
import { axisTimeText, percent, showSpan } from "./time-axis.tsx";

export function LaneCard({ run }: { readonly run: LaneRun }) {
  const [isTable, setIsTable] = useState(false);
  const { title, text } = laneText(run);
  const id = `lane-${run.lane}`;
  const isMarked = markedLanes.value.includes(run.lane);
  const mark = (): void => {
    const others = markedLanes.value.filter((each) => each !== run.lane);
    markedLanes.value = isMarked ? others : [...others, run.lane];
  };
  return (
    <article class="card pg-lane" aria-labelledby={id}>
      <div class="pg-lane-grid">
        <div class="pg-lane-about">
          <h2 id={id}>
            {title} {run.lane === writtenLane && title !== "As written" && <Written />}
          </h2>
          <Counts run={run} />
          {run.limits.map(({ name }, index) => (
            <Gauge key={name} run={run} index={index} />
          ))}
          <BoundHint run={run} />
          <p class="dim pg-about">{text}</p>
        </div>
        <div class="pg-lane-plot">
          <LanePlot run={run} />
          <Readout run={run} />
          <div class="row pg-actions">
            <button type="button" aria-pressed={isMarked} onClick={mark}>
              Find the worst burst
            </button>
            <DenialButtons run={run} />
            <button type="button" aria-expanded={isTable} onClick={() => setIsTable(!isTable)}>
              Show as table
            </button>
          </div>
          {isMarked && (
            <ul class="pg-worst-text">
              {run.limits.map(({ name }, index) => (
                <li key={name}>
                  <WorstBurstText run={run} index={index} />
                </li>
              ))}
            </ul>
          )}
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

interface LimitProps {
  readonly run: LaneRun;
  readonly index: number;
}

function Gauge({ run, index }: LimitProps) {
  const limit = run.limits[index];
  if (limit === undefined) return null;
  const unitsOf = ({ summary }: LaneRun): number => summary.worstBursts[index]?.units ?? 0;
  const ends = visibleRuns.value.flatMap((each) => [each.limits[index]?.mostPerWindow ?? 0, unitsOf(each)]);
  const most = Math.max(1, ...ends);
  const units = unitsOf(run);
  const isOver = units > limit.limit;
  return (
    <div class="pg-gauge">
      <p>
        Worst burst: <b class={isOver ? "denied" : ""}>{burstText(limit, units)}</b>
        <span class="dim"> – bound {numberText(limit.mostPerWindow)}</span>
      </p>
      <div class="pg-gauge-bar" aria-hidden="true">
        <span class={isOver ? "pg-fill pg-over" : "pg-fill"} style={{ width: percent(units / most) }} />
        <span class="pg-bound" style={{ left: percent(limit.mostPerWindow / most) }} />
        <span class="pg-limit" style={{ left: percent(limit.limit / most) }} />
      </div>
    </div>
  );
}

function WorstBurstText({ run, index }: LimitProps) {
  const limit = run.limits[index];
  const burst = run.summary.worstBursts[index] ?? null;
  if (limit === undefined) return null;
  if (burst === null) return <>Nothing was allowed, so there is no burst.</>;
  const { fromMs, lengthMs, units, key } = burst;
  const marginMs = Math.max(10, lengthMs * 0.25);
  return (
    <>
      {run.limits.length > 1 && `${limitLabels(run.limits)[index] ?? ""}: `}
      <b>
        {numberText(units)} {lengthMs === 0 ? "at one instant" : `in ${waitText(lengthMs)}`}
      </b>
      {run.keys.length > 1 && ` for ${run.keys[key] ?? ""}`}, from {axisTimeText(fromMs)} on.{" "}
      {limit.holdsSlots ? "At one instant" : `In any ${windowText(limit.windowMs)}, such as the tinted one`}, the
      documented {boundText(limit)}.{" "}
      <span class="row pg-actions">
        <button type="button" onClick={() => showSpan(fromMs - marginMs, fromMs + lengthMs + marginMs)}>
          Zoom to it
        </button>
        <ReachButton run={run} index={index} />
      </span>
    </>
  );
}

/**
 * Names the bound of a fixed window if this traffic happens to stay within the limit, because the limit would look like
 * a promise.
 */
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

/** The query of the scenario with the worst traffic that was found last. */
const worstText = signal<string | null>(null);

/** Replaces the traffic by the worst for this limit: the limit then allows as much as the engine ever does. */
function ReachButton({ run, index }: LimitProps) {
  const [message, setMessage] = useState("");
  const search = (): void => {
    const worst = worstTraffic(scenario.value, run, index);
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
