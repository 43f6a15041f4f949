/** The view "Denied": why a request was denied in the last 24 hours, from the log of denials. */
import { useEffect, useId, useState } from "preact/hooks";
import type { DenialPage, DenialView, FoundDenials } from "../../../admin/wire.ts";
import { queryText, read } from "../api/client.ts";
import { usePolled } from "../api/poll.ts";
import { now } from "../clock.ts";
import { keyName } from "../keys/known-keys.ts";
import { useAction } from "../parts/action.ts";
import { Input, SelectField } from "../parts/fields.tsx";
import { Empty, Reading } from "../parts/notice.tsx";
import { readPolicies } from "../parts/policies.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { durationText, instantText, numberText } from "../parts/text.ts";
import { hrefOf, replaceQuery, route } from "../shell/route.ts";
import "./denied.css";
import { denialText, findDenial, denialsOfKeyText, completenessText } from "./search.ts";

const policiesPauseMs = 60_000;
const logPauseMs = 5_000;
const listed = 100;

export const DeniedView = () => (
  <section class="denied-view">
    <h1>Denied</h1>
    <Search />
    <Filters />
    <Log />
  </section>
);

/** Finds one denial. Plain keys stay out of the address of the page. */
function Search() {
  const { query } = route.value;
  const named = query.get("instance") ?? "";
  const [typed, setTyped] = useState(named);
  const [age, setAge] = useState("");
  const [found, setFound] = useState<FoundDenials | null>(null);
  const problemId = useId();
  const { run, isRunning, problem } = useAction(async () => {
    setFound(null);
    const result = await findDenial(typed.trim(), { policy: query.get("policy") ?? undefined, at: soughtAt(age) });
    setFound(result);
    const isOfInstance = result.denial?.instance.endsWith(typed.trim().toLowerCase()) === true;
    replaceQuery({ instance: isOfInstance ? result.denial?.instance : "" });
  });
  useEffect(() => {
    if (named !== "" && found === null) void run();
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- only an address with an instance searches by itself
  }, []);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    if (typed.trim() !== "") void run();
  };
  return (
    <section class="card" aria-labelledby="why-title">
      <h2 id="why-title">Why was it denied?</h2>
      <form class="why" onSubmit={submit} aria-describedby={problemId}>
        <Input
          label="Address, API key, id of a key, or instance of the response"
          isSearch
          value={typed}
          autocomplete="off"
          spellcheck={false}
          onInput={setTyped}
        />
        <SelectField label="When" value={age} options={ages} onChange={setAge} />
        <button type="submit" class="primary" disabled={isRunning}>
          Find
        </button>
      </form>
      <p id={problemId} class="problem" role="alert">
        {problem?.message}
      </p>
      <div role="status">{found !== null && <Result found={found} />}</div>
    </section>
  );
}

const minuteMs = 60_000;
const ages = [
  ["", "Latest denial"],
  ...[5, 10, 30, 60, 180, 720].map((minutes) => [`${minutes}`, `${durationText(minutes * minuteMs)} ago`] as const),
] as const;

/** The instant whose nearest denial is sought: the chosen one, else the middle of the period in the address of the page. */
function soughtAt(age: string): string | undefined {
  if (age !== "") return new Date(now() - Number(age) * minuteMs).toISOString();
  const [from, to] = periodIn(route.value.query);
  if (from === undefined || to === undefined) return undefined;
  return new Date((Date.parse(from) + Date.parse(to)) / 2).toISOString();
}

function Result({ found }: { readonly found: FoundDenials }) {
  const { denial, isOn } = found;
  if (!isOn) return <Off />;
  if (denial === null) {
    return (
      <p>
        The log has no such denial. {completenessText(found)} Isolates report a denial after a few seconds, at the
        latest with their next requests.
      </p>
    );
  }
  const { policy, id } = denial;
  return (
    <p class="answer">
      <strong>
        Denied by <a href={hrefOf("policies", { name: policy })}>{policy}</a> {denialText(denial, now())}
      </strong>{" "}
      {denialsOfKeyText(found)} {id !== null && <a href={hrefOf("keys", { policy, id })}>Show the key</a>}
    </p>
  );
}

const Off = () => (
  <Empty>
    Denials are not logged: <code>DENIALS</code> is <code>"off"</code>. <a href={hrefOf("live")}>Live</a> shows denials
    as they happen.
  </Empty>
);

const filters = ["policy", "id", "from", "to"] as const;

/** The period in the address of the page, as RFC 3339. Links of the overview have milliseconds since the Unix epoch. */
function periodIn(query: URLSearchParams): readonly [from: string | undefined, to: string | undefined] {
  const instantIn = (name: "from" | "to"): string | undefined => {
    const text = query.get(name) ?? "";
    const at = new Date(/^\d+$/.test(text) ? Number(text) : text);
    return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
  };
  return [instantIn("from"), instantIn("to")];
}

function Filters() {
  const { query } = route.value;
  const { value } = usePolled(readPolicies, policiesPauseMs);
  const policy = query.get("policy") ?? "";
  const known = (value.value ?? []).map(({ name }) => name);
  const [from, to] = periodIn(query);
  const isFiltered = filters.some((name) => query.has(name));
  return (
    <form class="row" aria-label="Filter" onSubmit={(event) => event.preventDefault()}>
      <SelectField
        label="Policy"
        value={policy}
        options={[["", "All policies"], ...new Set([...known, ...(policy === "" ? [] : [policy])])]}
        onChange={(chosen) => replaceQuery({ policy: chosen })}
      />
      <Input
        label="Id of the key"
        isSearch
        placeholder="All keys"
        value={query.get("id") ?? ""}
        spellcheck={false}
        onInput={(text) => replaceQuery({ id: text.trim() })}
      />
      {(from !== undefined || to !== undefined) && <span>{periodText(from, to)}</span>}
      {isFiltered && (
        <button
          type="button"
          class="quiet"
          onClick={() => replaceQuery(Object.fromEntries(filters.map((name) => [name, undefined])))}
        >
          Clear the filter
        </button>
      )}
    </form>
  );
}

function periodText(from: string | undefined, to: string | undefined): string {
  const start = from === undefined ? "" : `From ${instantText(from)} `;
  return `${start}${to === undefined ? "" : `to ${instantText(to)}`}`;
}

function Log() {
  const { query } = route.value;
  const policy = query.get("policy") ?? undefined;
  const id = query.get("id") ?? undefined;
  const [from, to] = periodIn(query);
  const isId = id === undefined || /^[\w-]{43}$/.test(id);
  const log = usePolled(
    (abort) => read<DenialPage>(`denials${queryText({ policy, id: isId ? id : "", from, to, limit: listed })}`, abort),
    logPauseMs,
    [policy, isId ? id : "", from, to],
  );
  if (!isId) return <Empty>The id of a key has 43 characters. Search above for an address or an API key.</Empty>;
  return (
    <Reading of={log} what="the log of denials">
      {(page) => <Page page={page} />}
    </Reading>
  );
}

function Page({ page }: { readonly page: DenialPage }) {
  const { denials, next, isOn } = page;
  if (!isOn && denials.length === 0) return <Off />;
  const last = denials.at(-1);
  const older = last === undefined ? "" : new Date(Date.parse(last.lastAt) + 1).toISOString();
  return (
    <>
      <p class="hint">{completenessText(page)}</p>
      {denials.length === 0 ? (
        <Empty>No denial in this time.</Empty>
      ) : (
        <div class="card">
          <Table caption="Denials, the newest first" columns={columns} rows={denials} keyOf={rowKeyOf} />
        </div>
      )}
      {next !== null && (
        <p class="row">
          <a href={hrefOf("denied", { ...Object.fromEntries(route.value.query), to: older })}>Older denials</a>
        </p>
      )}
    </>
  );
}

const rowKeyOf = ({ instance, policy, at }: DenialView): string => `${instance} ${policy} ${at}`;

const columns: readonly Column<DenialView>[] = [
  { title: "Time", cell: ({ lastAt }) => instantText(lastAt) },
  { title: "Policy", cell: ({ policy }) => <a href={hrefOf("policies", { name: policy })}>{policy}</a> },
  {
    title: "Key",
    cell: ({ policy, id }) =>
      id === null ? (
        "missing"
      ) : (
        <a class="id" href={hrefOf("keys", { policy, id })}>
          {keyName(policy, id)}
        </a>
      ),
  },
  { title: "Why", cell: ({ cause }) => cause },
  { title: "Denials", cell: ({ count }) => numberText(count), isNumber: true },
  {
    title: "Retry after",
    cell: ({ retryAfterMs }) => (retryAfterMs === null ? "–" : durationText(retryAfterMs)),
    isNumber: true,
  },
  { title: "Data center", cell: ({ colo }) => (colo === "" ? "–" : colo) },
];
