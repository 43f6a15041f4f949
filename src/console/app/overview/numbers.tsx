/** The totals and the tables of the overview. */
import { now } from "../clock.ts";
import { countText, numberText, percentText, shortNumberText } from "../parts/text.ts";
import {
  type CountedTraffic,
  latenciesOf,
  newTally,
  type Numbers,
  numbersOf,
  percentile,
  shownTraffic,
  type ShownTraffic,
  type Tally,
} from "./traffic.ts";
import type {
  LoggedKeysView,
  LoggedKeyView,
  PolicyMode,
  PolicyView,
  TopKeyView,
  TopKeyList,
} from "../../../admin/wire.ts";
import { staleSinceMs } from "../api/poll.ts";
import { type Column, numberColumn, Table } from "../parts/table.tsx";
import { ModeBadge } from "../parts/policies.tsx";
import { Sparkline } from "../parts/sparkline.tsx";
import { hrefOf } from "../shell/route.ts";
import { denialTexts, kindOfDenials } from "../keys/denials.ts";
import { keyName } from "../keys/known-keys.ts";
import { Empty, Loading } from "../parts/notice.tsx";
import { arrivedSteps, hasEveryDenial, countedPeriodText } from "./headline-facts.ts";
import type { SpanTraffic } from "./spans.ts";

interface TilesProps {
  /** Null before the first answer. */
  readonly traffic: CountedTraffic | null;
  readonly chosen: ShownTraffic | null;
  readonly policy: string | null;
  /** The period of the numbers in words; null before the first answer. */
  readonly period: string | null;
}

/** A tile for each number that is not 0. The others are one line. */
export function Tiles({ traffic, chosen, policy, period }: TilesProps) {
  const numbers = chosen?.numbers;
  const isUnknown = policy === null && numbers?.decisions === 0 && traffic?.unknownUntilMs !== null;
  const requests = (value: number | undefined): string => (value === undefined || isUnknown ? "–" : tileText(value));
  const others = [
    {
      title: "Would be denied",
      value: numbers?.dryRunDenied,
      note: policy === null ? "decisions of dry runs" : "dry run, part of Allowed",
      without: null,
    },
    {
      title: "Near or over limit",
      value: numbers?.nearLimit,
      note: "less than 20 % left",
      without: "no key near its limit",
    },
    {
      title: "Object unavailable",
      value: numbers?.fallback,
      note: "onError decided",
      without: "every object answered",
    },
    {
      title: "Origin failures",
      value: traffic?.originFailures,
      note: policy === null ? "" : "all policies",
      without: "no failures of the origin",
    },
  ];
  const healthy = others.flatMap(({ value, without }) => (value === 0 ? (without ?? []) : []));
  return (
    <div class="tiles-row">
      <dl class="tiles">
        <Tile title="Allowed" text={requests(numbers?.allowed)} />
        <Tile title="Denied" text={requests(numbers?.denied)} />
        {others.map(
          ({ title, value = 0, note }) =>
            value > 0 && <Tile key={title} title={title} text={tileText(value)} note={note} />,
        )}
      </dl>
      {period !== null && (
        <p class="hint">
          {sentence(period)} {staleSinceMs.value !== null && "Not updated since."}
          {staleSinceMs.value === null && healthy.length > 0 && `Healthy: ${healthy.join(", ")}.`}
        </p>
      )}
    </div>
  );
}

/** @param text begins with a letter */
const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

interface TileProps {
  readonly title: string;
  readonly text: string;
  readonly note?: string;
}

const Tile = ({ title, text, note = "" }: TileProps) => (
  <div class="card">
    <dt>{title}</dt>
    <dd class={title === "Allowed" || title === "Denied" ? title.toLowerCase() : ""}>{text}</dd>
    {note !== "" && <dd class="note">{note}</dd>}
  </div>
);

const exactBelow = 100_000;

const tileText = (value: number): string => (value < exactBelow ? numberText(value) : shortNumberText(value));

/** The upper bound of a bucket, which is all that is known of its decisions. */
function latencyText(boundMs: number | null, boundsMs: readonly number[]): string {
  if (boundMs === null) return "–";
  const largest = boundsMs.at(-1) ?? 0;
  return boundMs > largest ? `>\u00a0${numberText(largest)}\u00a0ms` : `≤\u00a0${numberText(boundMs)}\u00a0ms`;
}

interface PolicyRow extends Numbers {
  readonly name: string;
  /** Denied requests by step. */
  readonly deniedOverTime: readonly (number | null)[];
  /** Null for a policy that is not configured any more. */
  readonly mode: PolicyMode | null;
  readonly p99Ms: number | null;
}

interface PolicyTableProps {
  readonly traffic: CountedTraffic;
  readonly policies: readonly PolicyView[];
  readonly endMs: number;
}

export function PolicyTable({ traffic, policies, endMs }: PolicyTableProps) {
  const rows = rowsOf(traffic, policies, endMs);
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

function rowsOf(traffic: CountedTraffic, policies: readonly PolicyView[], endMs: number): PolicyRow[] {
  const { policies: counted, boundsMs, stepMs } = traffic;
  const modes = new Map(policies.map(({ name, mode }) => [name, mode.value]));
  return [...new Set([...modes.keys(), ...counted.keys()])].map((name) => {
    const { total, lines } = counted.get(name) ?? { total: newTally(boundsMs.length), lines: { denied: [] } };
    return {
      ...numbersOf(total),
      name,
      // Live rates end with the last sample.
      deniedOverTime: stepMs === null ? lines.denied : arrivedSteps(lines.denied, traffic, endMs),
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
  {
    title: "Denied over time",
    cell: ({ name, denied, deniedOverTime }) =>
      denied > 0 && <Sparkline values={deniedOverTime} label={`Denied by ${name} over time`} />,
  },
  numberColumn("Would be denied", ({ dryRunDenied }) => dryRunDenied),
  numberColumn("Near or over limit", ({ nearLimit }) => nearLimit),
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

/** The target of the link that skips the numbers and the plot. */
export const topDeniedId = "top-denied";

interface TopDeniedProps {
  /** The chosen policy. Null: the keys are those of the policy that denied most. */
  readonly policy: string | null;
  readonly policies: readonly PolicyView[];
  readonly spanTraffic: SpanTraffic;
}

export function TopDenied({ policy: chosen, policies, spanTraffic }: TopDeniedProps) {
  const { top, traffic } = spanTraffic;
  const policy = chosen ?? top?.policy ?? null;
  const { denied, dryRunDenied } = shownTraffic(traffic, policy).numbers;
  const mode = policies.find(({ name }) => name === policy)?.mode.value;
  const texts = denialTexts[kindOfDenials({ denied, wouldBeDenied: dryRunDenied }, mode)];
  const title = `${texts.title}${policy === null ? "" : ` of ${policy}`}`;
  return (
    <section class="card top-denied" id={topDeniedId} tabIndex={-1}>
      <h2>{title}</h2>
      {denied + dryRunDenied === 0 ? (
        <Empty>No key was denied.</Empty>
      ) : top?.policy === policy ? (
        <DeniedKeys {...{ top, spanTraffic, title, denied, dryRunDenied }} column={texts.column} />
      ) : (
        <Loading what="the keys" />
      )}
    </section>
  );
}

interface DeniedKeysProps {
  readonly top: TopKeyList;
  readonly spanTraffic: SpanTraffic;
  readonly title: string;
  readonly column: string;
  readonly denied: number;
  readonly dryRunDenied: number;
}

/** The log has exactly the period. It has no dry runs, and the lists by the hour begin earlier. */
function DeniedKeys({ top, spanTraffic, title, column, denied, dryRunDenied }: DeniedKeysProps) {
  const { policy, from, keys, period } = top;
  const logged = dryRunDenied === 0 && period !== undefined && period.denials > 0 ? period : null;
  const note =
    logged === null
      ? ": keys are counted by the hour"
      : hasEveryDenial(logged, denied)
        ? ""
        : `: the log has ${numberText(logged.denials)} of ${numberText(denied)} denials`;
  return (
    <>
      <p class="hint">
        {sentence(`${countedPeriodText(Date.parse(logged?.from ?? from), spanTraffic, now())}${note}`)}
      </p>
      <Table
        caption={title}
        columns={keyColumns(policy, column, period === undefined ? [] : arrivedKeys(period, spanTraffic.endMs))}
        rows={logged?.keys ?? keys}
        keyOf={({ id }) => id}
      />
    </>
  );
}

const arrivedKeys = ({ from, to, keys }: LoggedKeysView, endMs: number): readonly KeyTimes[] =>
  keys.map(({ id, steps }) => ({
    id,
    steps: arrivedSteps(steps, { fromMs: Date.parse(from), toMs: Date.parse(to) }, endMs),
  }));

interface KeyTimes extends Pick<LoggedKeyView, "id"> {
  /** Null where the counts may not have arrived. */
  readonly steps: readonly (number | null)[];
}

type KeyRow = Pick<TopKeyView, "id" | "count"> & Partial<Pick<TopKeyView, "error">>;

/** @param logged the denials of the keys over time */
const keyColumns = (policy: string, column: string, logged: readonly KeyTimes[]): readonly Column<KeyRow>[] => [
  {
    title: "Key",
    cell: ({ id }) => (
      <a class="id" href={hrefOf("keys", { policy, id })}>
        {keyName(policy, id)}
      </a>
    ),
  },
  { title: column, cell: ({ count, error = 0 }) => countText({ count, error }), isNumber: true },
  ...(logged.length === 0 ? [] : [keyTimes(policy, logged)]),
];

const keyTimes = (policy: string, logged: readonly KeyTimes[]): Column<KeyRow> => ({
  title: "Denied over time",
  cell: ({ id }) => {
    const own = logged.find((each) => each.id === id);
    return own && <Sparkline values={own.steps} label={`Denied over time, ${keyName(policy, id)}`} />;
  },
});

interface Bucket {
  readonly boundMs: number;
  readonly decisions: number;
}

interface LatencyProps {
  readonly boundsMs: readonly number[];
  readonly tally: Tally;
}

/** A bar for each bucket of the histogram, and the same numbers as a table. */
export function Latency({ boundsMs, tally }: LatencyProps) {
  const buckets = latenciesOf(tally);
  const total = buckets.reduce((sum, decisions) => sum + decisions, 0);
  const first = buckets.findIndex((decisions) => decisions > 0);
  const last = buckets.findLastIndex((decisions) => decisions > 0);
  const rows: readonly Bucket[] = Array.from(buckets.subarray(Math.max(0, first), last + 1), (decisions, index) => ({
    boundMs: boundsMs[first + index] ?? Number.POSITIVE_INFINITY,
    decisions,
  }));
  const textOf = (share: number): string => latencyText(percentile(buckets, boundsMs, share), boundsMs);
  return (
    <section class="card latencies">
      <h2>Latency of decisions</h2>
      <p class="hint">Only decisions that called a Durable Object have a latency.</p>
      {total === 0 ? (
        <p class="notice">No decision has called an object in this span.</p>
      ) : (
        <>
          <p>
            Half took {textOf(0.5)}, 99 % took {textOf(0.99)}.
          </p>
          <LatencyBars rows={rows} boundsMs={boundsMs} />
          <LatencyTable rows={rows} boundsMs={boundsMs} total={total} />
        </>
      )}
    </section>
  );
}

interface BucketsProps {
  readonly rows: readonly Bucket[];
  readonly boundsMs: readonly number[];
}

function LatencyBars({ rows, boundsMs }: BucketsProps) {
  const most = Math.max(...rows.map(({ decisions }) => decisions));
  return (
    <ol class="latency-bars" aria-hidden="true">
      {rows.map(({ boundMs, decisions }) => (
        <li key={boundMs} title={`${latencyText(boundMs, boundsMs)}: ${numberText(decisions)}`}>
          <i style={{ height: `${(100 * decisions) / most}%` }} />
          <span>{Number.isFinite(boundMs) ? boundMs : "more"}</span>
        </li>
      ))}
    </ol>
  );
}

function LatencyTable({ rows, boundsMs, total }: BucketsProps & { readonly total: number }) {
  const columns: readonly Column<Bucket>[] = [
    { title: "Latency", cell: ({ boundMs }) => latencyText(boundMs, boundsMs) },
    { title: "Decisions", cell: ({ decisions }) => numberText(decisions), isNumber: true },
    { title: "Share", cell: ({ decisions }) => percentText(decisions, total), isNumber: true },
  ];
  return (
    <details>
      <summary>Show as table</summary>
      <Table caption="Decisions by latency" columns={columns} rows={rows} keyOf={({ boundMs }) => boundMs} />
    </details>
  );
}
