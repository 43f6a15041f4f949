/** The policies with their numbers: those that deny most come first. */
import type { Mode, Policy } from "../api/answers.ts";
import { type Column, Table } from "../parts/table.tsx";
import { numberText, percentText } from "../parts/text.ts";
import { ModeBadge } from "../policies/mode-switch.tsx";
import { hrefOf } from "../shell/route.ts";
import { latenciesOf, newTally, type Numbers, numbersOf, percentile } from "./tally.ts";
import { latencyText } from "./tiles.tsx";
import type { CountedTraffic } from "./traffic.ts";

interface PolicyRow extends Numbers {
  readonly name: string;
  /** Null for a policy that is not configured any more. */
  readonly mode: Mode | null;
  readonly p99Ms: number | null;
}

interface PolicyTableProps {
  readonly traffic: CountedTraffic;
  readonly policies: readonly Policy[];
}

export function PolicyTable({ traffic, policies }: PolicyTableProps) {
  const rows = rowsOf(traffic, policies);
  const hasDryRun = rows.some(({ mode, dryRunDenied }) => mode === "dry-run" || dryRunDenied > 0);
  return (
    <section class="card">
      <h2>Policies</h2>
      <Table
        caption="Policies"
        columns={columnsOf(traffic.boundsMs).filter(({ title }) => hasDryRun || title !== "Would be denied")}
        rows={rows}
        keyOf={({ name }) => name}
        sorted={{ title: "Denied", isDescending: true }}
      />
    </section>
  );
}

function rowsOf({ policies: counted, boundsMs }: CountedTraffic, policies: readonly Policy[]): PolicyRow[] {
  const modes = new Map(policies.map(({ name, mode }) => [name, mode.value]));
  return [...new Set([...modes.keys(), ...counted.keys()])].map((name) => {
    const total = counted.get(name)?.total ?? newTally(boundsMs.length);
    return {
      ...numbersOf(total),
      name,
      mode: modes.get(name) ?? null,
      p99Ms: percentile(latenciesOf(total), boundsMs, 0.99),
    };
  });
}

const columnsOf = (boundsMs: readonly number[]): readonly Column<PolicyRow>[] => [
  {
    title: "Policy",
    cell: ({ name, mode }) => (mode === null ? name : <a href={hrefOf("policies", { name })}>{name}</a>),
    sortBy: ({ name }) => name,
  },
  {
    title: "Mode",
    cell: ({ mode }) => (mode === null ? <span class="badge dim">not configured</span> : <ModeBadge mode={mode} />),
    sortBy: ({ mode }) => mode ?? "",
  },
  number("Allowed", ({ allowed }) => allowed),
  number("Denied", ({ denied }) => denied),
  {
    title: "Denied share",
    cell: ({ denied, decisions }) => percentText(denied, decisions),
    sortBy: ({ denied, decisions }) => denied / Math.max(1, decisions),
    isNumber: true,
  },
  number("Would be denied", ({ dryRunDenied }) => dryRunDenied),
  number("Near limit", ({ nearLimit }) => nearLimit),
  {
    title: "Latency p99",
    cell: ({ p99Ms }) => latencyText(p99Ms, boundsMs),
    sortBy: ({ p99Ms }) => p99Ms ?? 0,
    isNumber: true,
  },
  number("Object unavailable", ({ fallback }) => fallback),
  {
    title: "Keys",
    cell: ({ name, mode }) =>
      mode !== null && (
        <a href={hrefOf("keys", { policy: name })} aria-label={`Keys of ${name}`}>
          Keys
        </a>
      ),
  },
];

const number = (title: string, value: (row: PolicyRow) => number): Column<PolicyRow> => ({
  title,
  cell: (row) => numberText(value(row)),
  sortBy: value,
  isNumber: true,
});
