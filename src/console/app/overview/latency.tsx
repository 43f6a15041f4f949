/** How long decisions waited for an object. */
import { type Column, Table } from "../parts/table.tsx";
import { numberText, percentText } from "../parts/text.ts";
import { latenciesOf, type Tally } from "./tally.ts";
import { latencyText } from "./tiles.tsx";

interface Bucket {
  readonly boundMs: number;
  readonly decisions: number;
  readonly total: number;
}

interface LatencyProps {
  readonly boundsMs: readonly number[];
  readonly tally: Tally;
}

export function Latency({ boundsMs, tally }: LatencyProps) {
  const buckets = latenciesOf(tally);
  const total = buckets.reduce((sum, decisions) => sum + decisions, 0);
  const first = buckets.findIndex((decisions) => decisions > 0);
  const last = buckets.findLastIndex((decisions) => decisions > 0);
  const rows = Array.from(buckets.subarray(Math.max(0, first), last + 1), (decisions, index) => ({
    boundMs: boundsMs[first + index] ?? Number.POSITIVE_INFINITY,
    decisions,
    total,
  }));
  const columns: readonly Column<Bucket>[] = [
    { title: "Latency", cell: ({ boundMs }) => latencyText(boundMs, boundsMs) },
    { title: "Decisions", cell: ({ decisions }) => numberText(decisions), isNumber: true },
    { title: "Share", cell: shareCell },
  ];
  return (
    <section class="card latencies">
      <h2>Latency of decisions</h2>
      <p class="hint">Only decisions that called a Durable Object have a latency.</p>
      {total === 0 ? (
        <p class="notice">No decision has called an object in this span.</p>
      ) : (
        <Table caption="Decisions by latency" columns={columns} rows={rows} keyOf={({ boundMs }) => boundMs} />
      )}
    </section>
  );
}

const shareCell = ({ decisions, total }: Bucket) => (
  <span class="bar" style={{ "--share": `${(100 * decisions) / total}%` }}>
    {percentText(decisions, total)}
  </span>
);
