/** The list of denials, of the policy, the key and the period in the address of the page. */
import { useState } from "preact/hooks";
import type { DenialPage, FoundDenials } from "../../../admin/wire.ts";
import { queryText, read } from "../api/client.ts";
import { usePolled } from "../api/poll.ts";
import { now } from "../clock.ts";
import { keyName } from "../keys/known-keys.ts";
import { Empty, Reading } from "../parts/notice.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { instantText, numberText, timeText } from "../parts/text.ts";
import { hrefOf, route } from "../shell/route.ts";
import { type DenialRow, joinedRows, rowKeyOf, shownRows } from "./rows.ts";
import { completenessText, listedAround, spanText } from "./search.ts";

const pauseMs = 5_000;
const firstShown = 20;
/** The most entries that the API returns at once. */
const mostListed = 200;

/** The period in the address of the page, as RFC 3339. Links of the overview have milliseconds since the Unix epoch. */
export function periodIn(query: URLSearchParams): readonly [from: string | undefined, to: string | undefined] {
  const instantIn = (name: "from" | "to"): string | undefined => {
    const text = query.get(name) ?? "";
    const at = new Date(/^\d+$/.test(text) ? Number(text) : text);
    return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
  };
  return [instantIn("from"), instantIn("to")];
}

/** @param found the result of the search, which the list is about */
export function Log({ found }: { readonly found: FoundDenials | null }) {
  const { query } = route.value;
  const [policy, id, cursor, asked] = ["policy", "id", "cursor", "at"].map((name) => query.get(name) ?? undefined);
  const [from, to] = periodIn(query);
  const at = cursor === undefined ? listedAround(found, asked) : undefined;
  const filter = { policy, id, from, to, at, cursor };
  const parameters = Object.values(filter);
  const log = usePolled(
    (abort) => read<DenialPage>(`denials${queryText({ ...filter, limit: mostListed })}`, abort),
    pauseMs,
    parameters,
  );
  const isFiltered = [id, from, to, asked, cursor].some((value) => value !== undefined);
  return (
    <section aria-labelledby="log-title">
      <div class="row">
        <h2 id="log-title">
          {id === undefined ? "Denials" : "Denials of this key"}
          {periodText(from, to)}
          {at !== undefined && ` around ${timeText(at)}`}
        </h2>
        {isFiltered && <a href={hrefOf("denied", { policy })}>All denials</a>}
      </div>
      <Reading of={log} what="the log of denials">
        {(page) => <Page key={parameters.join(" ")} page={page} found={found} />}
      </Reading>
    </section>
  );
}

const periodText = (from: string | undefined, to: string | undefined): string =>
  `${from === undefined ? "" : ` from ${instantText(from)}`}${to === undefined ? "" : ` to ${instantText(to)}`}`;

export const Off = () => (
  <Empty>
    Denials are not logged: <code>DENIALS</code> is <code>"off"</code>. <a href={hrefOf("live")}>Live</a> shows denials
    as they happen.
  </Empty>
);

interface PageProps {
  readonly page: DenialPage;
  readonly found: FoundDenials | null;
}

function Page({ page, found }: PageProps) {
  const [most, setMost] = useState(firstShown);
  const { denials, isOn } = page;
  if (!isOn && denials.length === 0) return <Off />;
  const [from = "", to = "Z"] = periodIn(route.value.query);
  const isOutside = denials.some(({ at, lastAt }) => at < from || lastAt >= to);
  const rows = joinedRows(denials, found?.denial ?? null);
  return (
    <>
      <p class="hint">
        {completenessText(page)}
        {isOutside && " A row with several denials is listed when one of them is in the chosen time."}
      </p>
      {rows.length === 0 ? (
        <Empty>No denial in this time.</Empty>
      ) : (
        <div class="card">
          <Table
            caption="Denials, the newest first"
            columns={columns}
            rows={shownRows(rows, most)}
            keyOf={rowKeyOf}
            isMarked={({ isFound }) => isFound}
          />
        </div>
      )}
      <More page={page} isShort={rows.length > most} onMore={() => setMost(mostListed)} />
    </>
  );
}

interface MoreProps {
  readonly page: DenialPage;
  /** Whether the page has more rows than are shown. */
  readonly isShort: boolean;
  readonly onMore: () => void;
}

/** Shows the other rows of the page, and links to earlier and later denials. */
function More({ page: { denials, next, hasNewer }, isShort, onMore }: MoreProps) {
  const { query } = route.value;
  const shown = { ...Object.fromEntries(query), cursor: "" };
  const isLatest = hasNewer !== true && !query.has("cursor");
  if (next === null && !isShort && isLatest) return null;
  return (
    <p class="row">
      {isShort && (
        <button type="button" onClick={onMore}>
          Show more
        </button>
      )}
      {next !== null && <a href={hrefOf("denied", { ...shown, cursor: next })}>Older denials</a>}
      {!isLatest && (
        <a href={hrefOf("denied", { ...shown, instance: "", at: denials[0]?.lastAt ?? "" })}>Newer denials</a>
      )}
    </p>
  );
}

const columns: readonly Column<DenialRow>[] = [
  {
    title: "Time",
    cell: (row) => (
      <>
        {spanText(row, now())}
        {row.isFound && <b class="found"> found</b>}
      </>
    ),
  },
  { title: "Denials", cell: ({ count }) => numberText(count), isNumber: true },
  {
    title: "Policy",
    cell: ({ described: { policy } }) => <a href={hrefOf("policies", { name: policy })}>{policy}</a>,
  },
  { title: "Data center", cell: ({ colos }) => (colos.length === 0 ? "–" : colos.join(", ")) },
  {
    title: "Key",
    cell: ({ described: { policy, id } }) => (id === null ? "missing" : <KeyLinks policy={policy} id={id} />),
  },
  { title: "Why", cell: ({ described: { cause } }) => cause },
];

function KeyLinks({ policy, id }: { readonly policy: string; readonly id: string }) {
  const { query } = route.value;
  return (
    <span>
      <a class="id" href={hrefOf("keys", { policy, id })}>
        {keyName(policy, id)}
      </a>
      {query.get("id") !== id && (
        <>
          {" "}
          <a
            class="all-of-key"
            href={hrefOf("denied", { policy: query.get("policy") ?? "", id, at: query.get("at") ?? "" })}
          >
            all denials
          </a>
        </>
      )}
    </span>
  );
}
