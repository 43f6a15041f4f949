/** The view "Live": denials as they happen. */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { OutcomeName } from "../../../admin/wire.ts";
import { readPolicies } from "../parts/policies.tsx";
import { usePolled } from "../api/poll.ts";
import { keyName } from "../keys/known-keys.ts";
import { Empty, Failure } from "../parts/notice.tsx";
import { durationText, numberText, timeText } from "../parts/text.ts";
import { hrefOf, replaceQuery, route } from "../shell/route.ts";
import "./live.css";
import { denialsOf, LiveTail, mostKeys, type TailFilter, type TailRow } from "./tail.ts";
import { type Column, numberColumn, Table } from "../parts/table.tsx";
import { Input, SelectField } from "../parts/fields.tsx";

const policiesPauseMs = 60_000;
/** How often screen readers hear the number of denials. */
const announcedMs = 10_000;

const knownOutcomes = [
  "denied",
  "banned",
  "blocked",
  "dry-run-denied",
  "fallback-local",
  "fallback-closed",
] as const satisfies readonly OutcomeName[];

export function LiveView() {
  const { query } = route.value;
  const filter = useMemo(() => filterOf(query), [query]);
  // oxlint-disable-next-line react-hooks/exhaustive-deps -- another filter does not need another connection
  const tail = useMemo(() => new LiveTail(filter), []);
  useEffect(() => tail.setFilter(filter), [tail, filter]);
  useEffect(() => {
    tail.connection.connect();
    return () => tail.stop();
  }, [tail]);
  return (
    <section class="live">
      <h1>Live</h1>
      <p class="hint">
        A key appears about a second after it is denied. Counts begin when you open this page. If many requests are
        denied at once, some are left out here, and at most {mostKeys} keys are listed. The <a href="./">overview</a>{" "}
        counts all denials, and <a href={hrefOf("denied")}>Denied</a> lists those of the last 24 hours.
      </p>
      <Filters filter={filter} />
      <div class="row live-state">
        <PauseButton tail={tail} />
        <State tail={tail} />
      </div>
      <Announcement tail={tail} />
      <Denials tail={tail} />
    </section>
  );
}

const filterOf = (query: URLSearchParams): TailFilter => ({
  policy: query.get("policy"),
  outcome: knownOutcomes.find((each) => each === query.get("outcome")) ?? null,
  key: query.get("id") ?? "",
});

function Filters({ filter: { policy, outcome, key } }: { readonly filter: TailFilter }) {
  const { value } = usePolled(readPolicies, policiesPauseMs);
  const known = (value.value ?? []).map(({ name }) => name);
  return (
    <form class="row live-filters" onSubmit={(event) => event.preventDefault()}>
      <SelectField
        label="Policy"
        value={policy ?? ""}
        options={[["", "All policies"], ...new Set([...known, ...(policy === null ? [] : [policy])])]}
        onChange={(chosen) => replaceQuery({ policy: chosen })}
      />
      <SelectField
        label="Outcome"
        value={outcome ?? ""}
        options={[["", "All outcomes"], ...knownOutcomes]}
        onChange={(chosen) => replaceQuery({ outcome: chosen })}
      />
      <Input
        label="Id of the key"
        isSearch
        placeholder="All keys"
        value={key}
        onInput={(text) => replaceQuery({ id: text.trim() })}
      />
    </form>
  );
}

interface TailProps {
  readonly tail: LiveTail;
}

function PauseButton({ tail }: TailProps) {
  const { isPaused, waitingCount } = tail.shown.value;
  return (
    <button type="button" class="pause" onClick={isPaused ? tail.resume : tail.pause}>
      {isPaused ? `Resume (${numberText(waitingCount)} waiting)` : "Pause"}
    </button>
  );
}

const stateTexts = {
  connecting: { text: "Connecting …", color: "" },
  connected: { text: "Connected", color: "allowed" },
  disconnected: { text: "Disconnected. Connecting again …", color: "warning" },
  unreachable: {
    text: "No connection yet: the Worker does not answer, or 50 tails are open. Trying again …",
    color: "warning",
  },
} as const;

function State({ tail }: TailProps) {
  const { value: state } = tail.connection.state;
  if (typeof state !== "string") return <Failure problem={state} onRetry={tail.connection.connect} />;
  const { text, color } = stateTexts[state];
  return (
    <span role="status" class={color}>
      {text}
    </span>
  );
}

function Denials({ tail }: TailProps) {
  const { rows, received } = tail.shown.value;
  if (rows.length > 0)
    return (
      <div class="card">
        <Table
          caption="Denied keys, the newest first"
          columns={columns}
          rows={rows}
          keyOf={({ number }) => number}
          sorted={{ title: "First denied", isDescending: true }}
        />
      </div>
    );
  if (tail.connection.state.value !== "connected") return null;
  return (
    <Empty>
      {received === 0
        ? "No request has been denied since this page opened. The first denial can take up to 30 seconds to appear."
        : `${numberText(received)} denials have arrived, but none matches the filter.`}
    </Empty>
  );
}

/** Rows come too fast to be read out, so screen readers hear their number now and then. */
function Announcement({ tail }: TailProps) {
  const text = useSignal("");
  useEffect(() => {
    let announced = 0;
    const timer = setInterval(() => {
      const { received } = tail.shown.value;
      if (received === announced) return;
      text.value = `${numberText(received - announced)} more denials, ${numberText(received)} in all`;
      announced = received;
    }, announcedMs);
    return () => clearInterval(timer);
  }, [tail, text]);
  return (
    <p class="hidden" role="status">
      {text.value}
    </p>
  );
}

const outcomeClasses: Readonly<Partial<Record<OutcomeName, string>>> = {
  denied: "denied",
  banned: "denied",
  blocked: "blocked",
  "dry-run-denied": "warning",
};

const newestOf = ({ outcomes: [{ newest }] }: TailRow): TailRow["outcomes"][0]["newest"] => newest;

const columns: readonly Column<TailRow>[] = [
  // Rows keep their places while their counts rise: sorted by their last denial, they would move under the pointer.
  { title: "First denied", cell: ({ firstMs }) => timeText(firstMs), sortBy: ({ firstMs }) => firstMs },
  { title: "Last denied", cell: (row) => timeText(newestOf(row).atMs), sortBy: (row) => newestOf(row).atMs },
  { title: "Policy", cell: ({ policy }) => <a href={hrefOf("policies", { name: policy })}>{policy}</a> },
  { title: "Outcome", cell: (row) => <Outcomes row={row} /> },
  {
    title: "Key",
    cell: ({ policy, key }) => (
      <a class="id" href={hrefOf("keys", { policy, id: key })}>
        {keyName(policy, key)}
      </a>
    ),
  },
  numberColumn("Denials", denialsOf),
  { title: "Limits", cell: (row) => newestOf(row).violated.join(", ") },
  {
    title: "Retry after",
    cell: (row) => {
      const { retryAfterMs } = newestOf(row);
      return retryAfterMs === null ? "–" : durationText(retryAfterMs);
    },
    isNumber: true,
  },
  { title: "Cost", cell: (row) => numberText(newestOf(row).cost), isNumber: true },
  { title: "Data center", cell: (row) => newestOf(row).colo || "–" },
];

/** The outcome of the newest denial is first. Counts are shown where the outcomes of a key differ. */
const Outcomes = ({ row: { outcomes } }: { readonly row: TailRow }) => (
  <span class="outcomes">
    {outcomes.map(({ outcome, count }) => (
      <span key={outcome} class={`badge ${outcomeClasses[outcome] ?? "dim"}`}>
        {outcome}
        {outcomes.length > 1 && ` ${numberText(count)}`}
      </span>
    ))}
  </span>
);
