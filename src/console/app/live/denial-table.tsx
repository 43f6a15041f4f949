/** The table of denials, the newest first. */
import type { Outcome } from "../api/answers.ts";
import { type Column, Table } from "../parts/table.tsx";
import { durationText, numberText, shortId, timeText } from "../parts/text.ts";
import { hrefOf } from "../shell/route.ts";
import type { TailRow } from "./tail-log.ts";

const outcomeClasses: Readonly<Partial<Record<Outcome, string>>> = {
  denied: "denied",
  banned: "denied",
  blocked: "blocked",
  "dry-run-denied": "warning",
};

const columns: readonly Column<TailRow>[] = [
  { title: "Time", cell: ({ atMs }) => timeText(atMs) },
  {
    title: "Policy",
    cell: ({ policy }) => <a href={hrefOf("policies", { name: policy })}>{policy}</a>,
  },
  {
    title: "Outcome",
    cell: ({ outcome }) => <span class={`badge ${outcomeClasses[outcome] ?? "dim"}`}>{outcome}</span>,
  },
  {
    title: "Key",
    cell: ({ policy, key }) => (
      <a class="id" href={hrefOf("keys", { policy, id: key })}>
        {shortId(key)}
      </a>
    ),
  },
  { title: "Limits", cell: ({ violated }) => violated.join(", ") },
  {
    title: "Retry after",
    cell: ({ retryAfterMs }) => (retryAfterMs === null ? "–" : durationText(retryAfterMs)),
    isNumber: true,
  },
  { title: "Cost", cell: ({ cost }) => numberText(cost), isNumber: true },
  { title: "Data center", cell: ({ colo }) => (colo === "" ? "–" : colo) },
];

export const DenialTable = ({ rows }: { readonly rows: readonly TailRow[] }) => (
  <Table caption="Denials, the newest first" columns={columns} rows={rows} keyOf={({ number }) => number} />
);
