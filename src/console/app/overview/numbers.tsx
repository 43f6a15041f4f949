/** The totals and the tables of the overview. */
import { countText, numberText, percentText, shortId, shortNumberText } from "../parts/text.ts";
import {
  type CountedTraffic,
  latenciesOf,
  newTally,
  type Numbers,
  numbersOf,
  percentile,
  type PolicyTraffic,
  type Tally,
} from "./traffic.ts";
import type { PolicyMode, PolicyView, TopKeyView, TopKeyList } from "../../../admin/wire.ts";
import { type Column, numberColumn, Table } from "../parts/table.tsx";
import { ModeBadge } from "../parts/policies.tsx";
import { hrefOf } from "../shell/route.ts";
import { queryText, read } from "../api/client.ts";
import { usePolled } from "../api/poll.ts";
import { denialKind, denialTexts, mostDenying, readDenials } from "../keys/denials.ts";
import { Empty, Reading } from "../parts/notice.tsx";

interface TilesProps {
  /** Null before the first answer. */
  readonly traffic: CountedTraffic | null;
  readonly chosen: PolicyTraffic | null;
  readonly policy: string | null;
}

export function Tiles({ traffic, chosen, policy }: TilesProps) {
  const numbers = chosen === null ? null : numbersOf(chosen.total);
  const share = numbers === null ? "–" : percentText(numbers.denied, numbers.decisions);
  const tiles: readonly (readonly [title: string, text: string, note: string])[] = [
    ["Allowed", tileText(numbers?.allowed), ""],
    ["Denied", tileText(numbers?.denied), ""],
    ["Denied share", share, ""],
    ["Would be denied", tileText(numbers?.dryRunDenied), "dry run, part of Allowed"],
    ["Near limit", tileText(numbers?.nearLimit), "less than 20 % left, also if denied"],
    ["Object unavailable", tileText(numbers?.fallback), "onError decided"],
    ["Origin failures", tileText(traffic?.originFailures), policy === null ? "" : "all policies"],
    ["Latency p50", latencyOf(traffic, chosen, 0.5), ""],
    ["Latency p99", latencyOf(traffic, chosen, 0.99), ""],
  ];
  return (
    <dl class="tiles">
      {tiles.map(([title, text, note]) => (
        <div key={title} class="card">
          <dt>{title}</dt>
          <dd class={title === "Allowed" || title === "Denied" ? title.toLowerCase() : ""}>{text}</dd>
          {note !== "" && <dd class="note">{note}</dd>}
        </div>
      ))}
    </dl>
  );
}

const exactBelow = 100_000;

function tileText(value: number | undefined): string {
  if (value === undefined) return "–";
  return value < exactBelow ? numberText(value) : shortNumberText(value);
}

const latencyOf = (traffic: CountedTraffic | null, chosen: PolicyTraffic | null, share: number): string =>
  traffic === null || chosen === null
    ? "–"
    : latencyText(percentile(latenciesOf(chosen.total), traffic.boundsMs, share), traffic.boundsMs);

/** The upper bound of a bucket, which is all that is known of its decisions. */
function latencyText(boundMs: number | null, boundsMs: readonly number[]): string {
  if (boundMs === null) return "–";
  const largest = boundsMs.at(-1) ?? 0;
  return boundMs > largest ? `>\u00a0${numberText(largest)}\u00a0ms` : `≤\u00a0${numberText(boundMs)}\u00a0ms`;
}

interface PolicyRow extends Numbers {
  readonly name: string;
  /** Null for a policy that is not configured any more. */
  readonly mode: PolicyMode | null;
  readonly p99Ms: number | null;
}

interface PolicyTableProps {
  readonly traffic: CountedTraffic;
  readonly policies: readonly PolicyView[];
}

export function PolicyTable({ traffic, policies }: PolicyTableProps) {
  const rows = rowsOf(traffic, policies);
  const hasDryRun = rows.some(({ mode, dryRunDenied }) => mode === "dry-run" || dryRunDenied > 0);
  return (
    <section class="card">
      <h2>Policies</h2>
      <Table
        caption="Policies"
        columns={policyColumns(traffic.boundsMs).filter(({ title }) => hasDryRun || title !== "Would be denied")}
        rows={rows}
        keyOf={({ name }) => name}
        sorted={{ title: "Denied", isDescending: true }}
      />
    </section>
  );
}

function rowsOf({ policies: counted, boundsMs }: CountedTraffic, policies: readonly PolicyView[]): PolicyRow[] {
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

const policyColumns = (boundsMs: readonly number[]): readonly Column<PolicyRow>[] => [
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
  numberColumn("Allowed", ({ allowed }) => allowed),
  numberColumn("Denied", ({ denied }) => denied),
  numberColumn(
    "Denied share",
    ({ denied, decisions }) => denied / Math.max(1, decisions),
    ({ denied, decisions }) => percentText(denied, decisions),
  ),
  numberColumn("Would be denied", ({ dryRunDenied }) => dryRunDenied),
  numberColumn("Near limit", ({ nearLimit }) => nearLimit),
  numberColumn(
    "Latency p99",
    ({ p99Ms }) => p99Ms ?? 0,
    ({ p99Ms }) => latencyText(p99Ms, boundsMs),
  ),
  numberColumn("Object unavailable", ({ fallback }) => fallback),
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

const pauseMs = 5_000;
const dayPauseMs = 10_000;

/** The target of the link that skips the numbers and the plot. */
export const topDeniedId = "top-denied";

interface TopDeniedProps {
  /** Null for the policy that denied most. */
  readonly policy: string | null;
  readonly policies: readonly PolicyView[];
}

export function TopDenied({ policy: chosen, policies }: TopDeniedProps) {
  const polled = usePolled(readDenials, dayPauseMs);
  const points = polled.value.value;
  const name = chosen ?? mostDenying(points ?? [], policies);
  const policy = policies.find((each) => each.name === name);
  const texts = denialTexts[policy === undefined ? "denied" : denialKind(points ?? [], policy)];
  const title = `${texts.title}${name === null ? "" : ` of ${name}`}`;
  return (
    <section class="card top-denied" id={topDeniedId} tabIndex={-1}>
      <h2>{title}</h2>
      <p class="hint">The last 24 hours, whatever span is chosen.</p>
      {name !== null && <Keys key={name} policy={name} title={title} column={texts.column} />}
      {name === null && (
        <Reading of={polled} what="the keys">
          {() => <Empty>No key was denied.</Empty>}
        </Reading>
      )}
    </section>
  );
}

interface KeysProps {
  readonly policy: string;
  readonly title: string;
  readonly column: string;
}

function Keys({ policy, title, column }: KeysProps) {
  const polled = usePolled(
    (abort) => read<TopKeyList>(`top${queryText({ policy, by: "denied", limit: 10 })}`, abort),
    pauseMs,
    [policy],
  );
  const keyLink = ({ id }: TopKeyView) => (
    <a class="id" href={hrefOf("keys", { policy, id })}>
      {shortId(id)}
    </a>
  );
  const columns = [
    { title: "Key", cell: keyLink },
    { title: column, cell: countText, isNumber: true },
  ];
  return (
    <Reading of={polled} what="the keys">
      {({ keys }) =>
        keys.length === 0 ? (
          <Empty>No key was denied.</Empty>
        ) : (
          <Table caption={title} columns={columns} rows={keys} keyOf={({ id }) => id} />
        )
      }
    </Reading>
  );
}

interface Bucket {
  readonly boundMs: number;
  readonly decisions: number;
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
  }));
  const shareCell = ({ decisions }: Bucket) => (
    <span class="bar" style={{ "--share": `${(100 * decisions) / total}%` }}>
      {percentText(decisions, total)}
    </span>
  );
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
