/** The rows of a lane as a table with pages. */
import { useState } from "preact/hooks";
import { type Column, Table } from "../../app/parts/table.tsx";
import { numberText } from "../../app/parts/text.ts";
import { waitText } from "../../../strategies/index.ts";
import { firstRowAt, neverMs, outcome } from "../model/columns.ts";
import type { LaneRun } from "../model/run.ts";
import { limitLabels } from "./lane-text.ts";
import { span } from "./plots.ts";
import { axisTimeText } from "./time-axis.tsx";

const rowsPerPage = 100;

export function LaneTable({ run, title }: { readonly run: LaneRun; readonly title: string }) {
  const [page, setPage] = useState(0);
  const first = firstRowAt(run, span.value.fromMs);
  const count = firstRowAt(run, span.value.toMs) - first;
  const pages = Math.max(1, Math.ceil(count / rowsPerPage));
  const shown = Math.min(page, pages - 1);
  const from = shown * rowsPerPage;
  const rows = Array.from({ length: Math.min(rowsPerPage, count - from) }, (_, index) => first + from + index);
  const caption = `Requests of ${title}`;
  return (
    <div class="pg-table">
      <Table caption={caption} columns={columnsOf(run)} rows={rows} keyOf={(row) => row} />
      <div class="row" role="group" aria-label={`Pages of ${caption}`}>
        <button type="button" disabled={shown === 0} onClick={() => setPage(shown - 1)}>
          Previous page
        </button>
        <span role="status">
          {count === 0
            ? "No requests in this span"
            : `${numberText(from + 1)}–${numberText(from + rows.length)} of ${numberText(count)}`}
        </span>
        <button type="button" disabled={shown >= pages - 1} onClick={() => setPage(shown + 1)}>
          Next page
        </button>
      </div>
    </div>
  );
}

const column = (title: string, cell: (row: number) => string, isNumber = false): Column<number> => ({
  title,
  cell,
  isNumber,
});

function columnsOf(run: LaneRun): readonly Column<number>[] {
  const labels = limitLabels(run.limits);
  const hasCosts = run.cost.some((cost) => cost !== 1);
  const hasRetries = run.retry.some((retry) => retry > 0);
  const decision = (row: number): string => (run.outcome[row] === outcome.denied ? "denied" : "allowed");
  const limitNames = (row: number): string =>
    labels.filter((_, index) => ((run.deniedBy[row] ?? 0) & (1 << index)) !== 0).join(", ");
  const wait = (row: number): string => {
    const waitMs = run.waitMs[row] ?? 0;
    if (waitMs === neverMs) return "never fits";
    if (waitMs === 0) return "–";
    return run.outcome[row] === outcome.denied ? `fits in ${waitText(waitMs)}` : `waits ${waitText(waitMs)}`;
  };
  return [
    column("At", (row) => axisTimeText(run.atMs[row] ?? 0), true),
    ...(run.keys.length > 1 ? [column("Client", (row) => run.keys[run.key[row] ?? 0] ?? "")] : []),
    { title: "Decision", cell: (row) => <span class={decision(row)}>{decision(row)}</span> },
    column("Remaining", (row) => numberText(run.remaining[row] ?? 0), true),
    column("Wait", wait),
    ...(hasCosts ? [column("Cost", (row) => numberText(run.cost[row] ?? 0), true)] : []),
    ...(run.limits.length > 1 ? [column("Denied by", limitNames)] : []),
    ...(hasRetries ? [column("Retry", (row) => String(run.retry[row] ?? 0), true)] : []),
  ];
}
