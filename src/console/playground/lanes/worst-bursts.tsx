/** The worst burst of a run in words, and the traffic that makes it as bad as it can be. */
import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { waitText } from "../../../strategies/index.ts";
import { numberText, windowText } from "../../app/parts/text.ts";
import { lanesOf } from "../model/lanes.ts";
import { openPreset, scenario, scenarioText } from "../page-state.ts";
import { formatScenario } from "../model/scenario-query.ts";
import type { LaneRun } from "../model/scenario.ts";
import { worstTraffic } from "../model/worst-traffic.ts";
import { hidesBound } from "./headline-text.ts";
import { boundText, burstMs, limitLabels } from "./lane-text.ts";
import { axisTimeText, showSpan } from "./time-axis.tsx";

export const WorstBursts = ({ run }: { readonly run: LaneRun }) => (
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
export function BoundHint({ run }: { readonly run: LaneRun }) {
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
