/** Lists the clients that a lane denied, how often, and by which limit. */
import { useId } from "preact/hooks";
import { signal } from "@preact/signals";
import { type Column, Table } from "../app/parts/table.tsx";
import { numberText, percentText } from "../app/parts/text.ts";
import { limitLabels } from "./lanes/lane-text.ts";
import { Empty } from "../app/parts/notice.tsx";
import { settledRuns } from "./lanes/plots.ts";
import { laneText } from "./lanes/strategy-texts.ts";
import { writtenLane } from "./model/lanes.ts";
import { followed } from "./page-state.ts";
import type { KeySummary, LaneRun } from "./model/scenario.ts";

/** The lane of the table; null for the first one. */
const chosenLane = signal<string | null>(null);

export function DeniedClients() {
  const id = useId();
  const runs = settledRuns.value;
  const run = runs.find(({ lane }) => lane === chosenLane.value) ?? runs[0];
  if (run === undefined || run.keys.length < 2) return null;
  const { denied, deniedByLimit, topDenied, deniedKeys } = run.summary;
  const caption = "Denied clients";
  const isShared = deniedByLimit.reduce((sum, count) => sum + count, 0) > denied;
  return (
    <section class="card" aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>Who would be denied</h2>
      <div class="row">
        <label for={id}>Strategy</label>
        <select id={id} value={run.lane} onChange={(event) => (chosenLane.value = event.currentTarget.value)}>
          {runs.map((each) => (
            <option key={each.lane} value={each.lane}>
              {optionText(each)}
            </option>
          ))}
        </select>
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
          caption={caption}
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
    {
      title: "Denied",
      cell: ({ denied }) => numberText(denied),
      sortBy: ({ denied }) => denied,
      isNumber: true,
    },
    {
      title: "Allowed",
      cell: ({ allowed }) => numberText(allowed),
      sortBy: ({ allowed }) => allowed,
      isNumber: true,
    },
    {
      title: "Share",
      cell: ({ denied, allowed }) => percentText(denied, denied + allowed),
      sortBy: ({ denied, allowed }) => denied / (denied + allowed),
      isNumber: true,
    },
    // A single limit denied all of them.
    ...(run.limits.length === 1 ? [] : limitLabels(run.limits)).map((label, index) => ({
      title: `Denied by ${label}`,
      cell: (row: KeySummary) => numberText(row.deniedByLimit[index] ?? 0),
      sortBy: (row: KeySummary) => row.deniedByLimit[index] ?? 0,
      isNumber: true,
    })),
  ];
}
