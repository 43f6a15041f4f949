/** The result of a run: its progress, the sentence that sums it up, and the lanes. */
import { useEffect, useRef } from "preact/hooks";
import "./lanes/lanes.css";
import { Empty } from "../app/parts/notice.tsx";
import { numberText } from "../app/parts/text.ts";
import { DeniedClients } from "./denied-clients.tsx";
import { Headline } from "./lanes/headline.tsx";
import { LaneCard } from "./lanes/lane-card.tsx";
import { followPlots, followedKey, plotWidth, visibleRuns } from "./lanes/plots.ts";
import { laneTitle } from "./lanes/strategy-texts.ts";
import { TimeAxis } from "./lanes/time-axis.tsx";
import { followed, invalidFields, logText, scenario, shownLanes } from "./page-state.ts";
import { cancel, laneRuns, run, runState, runStatus } from "./runner.ts";

export function Results() {
  useEffect(followPlots, []);
  return (
    <section class="pg-results" aria-label="Result">
      <Progress />
      <div class={invalidFields.value.length > 0 ? "pg-old" : ""}>
        <Headline />
        <Lanes />
        <MissingLanes />
        <DeniedClients />
      </div>
    </section>
  );
}

/** Keeps its height, so that the lanes do not move while a slider is dragged. */
function Progress() {
  const { status, share, requests, problems, lanes } = runState.value;
  if (status === "failed") {
    return (
      <div class="notice problem" role="alert">
        {problems.map((problem) => (
          <p key={problem}>{problem}</p>
        ))}
        <button type="button" onClick={run}>
          Try again
        </button>
      </div>
    );
  }
  const isRunning = status === "running";
  const invalid = invalidFields.value;
  return (
    <div class="row pg-progress">
      <progress aria-label="Progress of the run" value={share} max={1} class={isRunning ? "" : "pg-idle"} />
      <span role="status">
        {status === "done" && invalid.length > 0 && (
          <span class="warning">Not valid: {invalid.join("; ")}. The results are those of the last valid text.</span>
        )}
        {status === "done" &&
          invalid.length === 0 &&
          `${numberText(requests)} requests, decided by the engine for ${lanes.length} lanes`}
        {status === "cancelled" && "Cancelled. Lanes without a result are missing."}
        {isRunning && `Running ${requests === 0 ? "" : `${numberText(requests)} requests `}…`}
      </span>
      {isRunning && (
        <button type="button" onClick={cancel}>
          Cancel
        </button>
      )}
      {status === "cancelled" && (
        <button type="button" onClick={run}>
          Run again
        </button>
      )}
    </div>
  );
}

function Lanes() {
  const runs = visibleRuns.value;
  const isLogMissing = scenario.value.traffic.kind === "log" && logText.value === null;
  if (runStatus.value === "failed") return null;
  if (isLogMissing) return <Empty>Paste an access log, or choose a file, to run it.</Empty>;
  if (runs.length === 0 && runStatus.value === "done")
    return <Empty>None of the chosen strategies can decide these limits.</Empty>;
  return (
    <div class="pg-lanes">
      <TimeAxis />
      <PlotMeasure />
      <FollowedClient />
      {runs.map((each) => (
        <LaneCard key={each.lane} run={each} />
      ))}
    </div>
  );
}

/** Measures the width of all plots, which are as wide as this. */
function PlotMeasure() {
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (frame.current === null) return undefined;
    const observer = new ResizeObserver(([entry]) => {
      plotWidth.value = Math.floor(entry?.contentRect.width ?? 0);
    });
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  return (
    <div class="pg-lane-grid pg-measure" aria-hidden="true">
      <div ref={frame} class="pg-lane-plot" />
    </div>
  );
}

const mostListedClients = 200;

function FollowedClient() {
  const [first] = visibleRuns.value;
  if (first === undefined || first.keys.length < 2) return null;
  const current = first.keys[followedKey.value] ?? "";
  const names = [...new Set([current, ...first.keys.slice(0, mostListedClients)])];
  return (
    <div class="row pg-followed">
      <label for="followed">Show what remains for</label>
      <select id="followed" value={current} onChange={(event) => (followed.value = event.currentTarget.value)}>
        {names.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </div>
  );
}

function MissingLanes() {
  const { status, lanes, missing: all } = runState.value;
  // Each lane that arrives would move them.
  if (status === "running" && laneRuns.value.size < lanes.length) return null;
  const missing = all.filter(({ lane }) => shownLanes.value.includes(lane));
  if (missing.length === 0) return null;
  return (
    <section class="card pg-missing" aria-label="Strategies without a lane">
      {missing.map(({ lane, reason }) => (
        <p key={lane} class="dim">
          <b>{laneTitle(lane)}</b> has no lane: {reason}.
        </p>
      ))}
    </section>
  );
}
