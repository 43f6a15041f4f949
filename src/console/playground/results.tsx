/** The result of a run: its progress, the sentence that sums it up, the lanes, and who would be denied. */
import "./lanes/lanes.css";
import { signal } from "@preact/signals";
import { useEffect, useId } from "preact/hooks";
import { Select } from "../app/parts/fields.tsx";
import { Empty } from "../app/parts/notice.tsx";
import { type Column, numberColumn, Table } from "../app/parts/table.tsx";
import { numberText, percentText } from "../app/parts/text.ts";
import { LaneCard } from "./lanes/lane-card.tsx";
import { followPlots, followedKey, settledRuns, visibleRuns } from "./lanes/plots.ts";
import { headlineOf, laneText, laneTitle, limitLabels } from "./lanes/lane-text.ts";
import { TimeAxis } from "./lanes/time-axis.tsx";
import { writtenLane } from "./model/lanes.ts";
import type { LaneRun } from "./model/run.ts";
import type { KeySummary } from "./model/summary.ts";
import { followed, invalidFields, logText, scenario, shownLanes } from "./page-state.ts";
import { cancel, laneRuns, runState, runStatus, startRun } from "./runner.ts";

export function Results() {
  useEffect(followPlots, []);
  return (
    <section class="pg-results" aria-label="Result">
      <Progress />
      <div class={invalidFields.value.length > 0 ? "pg-old" : ""}>
        <p class="pg-headline" role="status">
          {headlineOf(settledRuns.value) ?? "\u00A0"}
        </p>
        <Lanes />
        <MissingLanes />
        <DeniedClients />
      </div>
    </section>
  );
}

/** Shows the progress. Its height never changes, so that the lanes do not move while a slider is dragged. */
function Progress() {
  const { status, share, requests, problems, lanes } = runState.value;
  if (status === "failed") {
    return (
      <div class="notice problem" role="alert">
        {problems.map((problem) => (
          <p key={problem}>{problem}</p>
        ))}
        <button type="button" onClick={startRun}>
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
        <button type="button" onClick={startRun}>
          Run again
        </button>
      )}
    </div>
  );
}

function Lanes() {
  const runs = visibleRuns.value;
  const isLogMissing = scenario.value.traffic === "log" && logText.value === null;
  if (runStatus.value === "failed") return null;
  if (isLogMissing) return <Empty>Paste an access log, or choose a file, to run it.</Empty>;
  if (runs.length === 0 && runStatus.value === "done")
    return <Empty>None of the chosen strategies can decide these limits.</Empty>;
  return (
    <div class="pg-lanes">
      <TimeAxis />
      <FollowedClient />
      {runs.map((each) => (
        <LaneCard key={each.lane} run={each} />
      ))}
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
      <Select
        label="Show what remains for"
        value={current}
        options={names}
        onChange={(name) => {
          followed.value = name;
        }}
      />
    </div>
  );
}

function MissingLanes() {
  const { status, lanes, missing: all } = runState.value;
  // Hidden until all lanes have arrived, because each of them would move the list.
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

/** The lane that the table of denied clients shows; null for the first lane. */
const chosenLane = signal<string | null>(null);

function DeniedClients() {
  const id = useId();
  const runs = settledRuns.value;
  const run = runs.find(({ lane }) => lane === chosenLane.value) ?? runs[0];
  if (run === undefined || run.keys.length < 2) return null;
  const { denied, deniedByLimit, topDenied, deniedKeys } = run.summary;
  const isShared = deniedByLimit.reduce((sum, count) => sum + count, 0) > denied;
  return (
    <section class="card" aria-labelledby={id}>
      <h2 id={id}>Who would be denied</h2>
      <div class="row">
        <Select
          label="Strategy"
          value={run.lane}
          options={runs.map((each) => [each.lane, optionText(each)])}
          onChange={(lane) => {
            chosenLane.value = lane;
          }}
        />
        <span class="dim" role="status">
          {numberText(deniedKeys)} of {numberText(run.keys.length)} clients were denied
          {deniedKeys > topDenied.length ? `; the first ${topDenied.length} are listed` : ""}.
          {isShared && " A request that several limits deny counts for each of them."}
        </span>
      </div>
      {topDenied.length === 0 ? (
        <Empty>No client was denied.</Empty>
      ) : (
        <Table
          caption="Denied clients"
          columns={columnsOf(run)}
          rows={topDenied}
          keyOf={({ key }) => key}
          sorted={{ title: "Denied", isDescending: true }}
        />
      )}
    </section>
  );
}

function optionText(run: LaneRun): string {
  const { title } = laneText(run);
  return run.lane === writtenLane && title !== "As written" ? `${title} (as written)` : title;
}

function columnsOf(run: LaneRun): readonly Column<KeySummary>[] {
  const nameOf = ({ key }: KeySummary): string => run.keys[key] ?? "";
  return [
    {
      title: "Client",
      cell: (row) => (
        <button type="button" class="quiet" onClick={() => (followed.value = nameOf(row))}>
          {nameOf(row)}
        </button>
      ),
      sortBy: nameOf,
    },
    numberColumn("Denied", ({ denied }) => denied),
    numberColumn("Allowed", ({ allowed }) => allowed),
    numberColumn(
      "Share",
      ({ denied, allowed }) => denied / (denied + allowed),
      ({ denied, allowed }) => percentText(denied, denied + allowed),
    ),
    // With a single limit, this column would repeat the denials.
    ...(run.limits.length === 1 ? [] : limitLabels(run.limits)).map((label, index) =>
      numberColumn<KeySummary>(`Denied by ${label}`, ({ deniedByLimit }) => deniedByLimit[index] ?? 0),
    ),
  ];
}
