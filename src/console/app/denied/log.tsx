/** The list of denials, of the policy, the key and the period in the address of the page. */
import { useState } from "preact/hooks";
import type { DenialPage, DenialView, FoundDenials } from "../../../admin/wire.ts";
import { queryText, read } from "../api/client.ts";
import { usePolled } from "../api/poll.ts";
import { now } from "../clock.ts";
import { keyName } from "../keys/known-keys.ts";
import { Empty, Reading } from "../parts/notice.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { instantText, numberText, timeText } from "../parts/text.ts";
import { hrefOf, route } from "../shell/route.ts";
import { type DenialRow, extentText, joinedRows, type ListPage, listPageOf, rowKeyOf, shownRows } from "./rows.ts";
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

interface LogProps {
  /** The result of the search, which the list is about. */
  readonly found: FoundDenials | null;
  /** Reads the result again. */
  readonly refresh: () => Promise<void>;
}

export function Log({ found, refresh }: LogProps) {
  const { query } = route.value;
  const names = ["policy", "id", "cursor", "at", "newer"];
  const [policy, id, cursor, asked, newer] = names.map((name) => query.get(name) ?? undefined);
  const [from, to] = periodIn(query);
  const isPaged = cursor !== undefined || newer !== undefined;
  const at = isPaged ? undefined : listedAround(found, asked);
  const filter = { policy, id, from: newer ?? from, to, at: at ?? newer, cursor };
  const parameters = Object.values(filter);
  const log = usePolled(
    async (abort) => {
      const page = read<DenialPage>(`denials${queryText({ ...filter, limit: mostListed })}`, abort);
      const [listed] = await Promise.all([page, refresh()]);
      return listed;
    },
    pauseMs,
    parameters,
  );
  const isFiltered = [id, from, to, asked, cursor, newer].some((value) => value !== undefined);
  return (
    <section aria-labelledby="log-title">
      <div class="row">
        <h2 id="log-title">
          {id === undefined ? "Denials" : "Denials of this key"}
          {periodText(from, to)}
          {at !== undefined && ` around ${timeText(at)}`}
        </h2>
        {isFiltered && (
          <a href={hrefOf("denied", { policy })}>{id === undefined ? "Show all times" : "Show every key"}</a>
        )}
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
  const list = listIn(page, found?.denial ?? null);
  const rows = joinedRows(list.denials, found?.denial ?? null);
  const shown = shownRows(rows, most);
  const hasOlder = list.older !== null || shown.at(-1) !== rows.at(-1);
  const hasNewer = list.newerFrom !== null || shown[0] !== rows[0];
  return (
    <>
      <p class="hint">
        {rows.length > 0 && `${extentText(shown, hasOlder, hasNewer)} `}
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
            rows={shown}
            keyOf={rowKeyOf}
            isMarked={({ isFound }) => isFound}
          />
        </div>
      )}
      <More list={list} isShort={rows.length > most} onMore={() => setMost(mostListed)} />
    </>
  );
}

/** The shown part of the page that the address selects. */
function listIn(page: DenialPage, found: DenialView | null): ListPage {
  const { query } = route.value;
  const [cursor = null, newer = null] = ["cursor", "newer"].map((name) => query.get(name));
  const [, to = "Z"] = periodIn(query);
  const list = listPageOf(page, found);
  const newerFrom = cursor === null ? list.newerFrom : new Date(Number.parseInt(cursor, 10)).toISOString();
  return {
    denials: list.denials,
    older: newer === null ? list.older : `${Date.parse(newer)}-0`,
    newerFrom: newerFrom !== null && newerFrom < to ? newerFrom : null,
  };
}

interface MoreProps {
  readonly list: ListPage;
  /** Whether the page has more rows than are shown. */
  readonly isShort: boolean;
  readonly onMore: () => void;
}

/** Shows the other rows of the page, and links to earlier and later denials. */
function More({ list: { older, newerFrom }, isShort, onMore }: MoreProps) {
  if (older === null && !isShort && newerFrom === null) return null;
  // The question stays in the address, and with it the answer.
  const asked = { ...Object.fromEntries(route.value.query), cursor: "", newer: "" };
  return (
    <p class="row">
      {isShort && (
        <button type="button" onClick={onMore}>
          Show more
        </button>
      )}
      {older !== null && <a href={hrefOf("denied", { ...asked, cursor: older })}>Older denials</a>}
      {newerFrom !== null && <a href={hrefOf("denied", { ...asked, newer: newerFrom })}>Newer denials</a>}
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
            Denials of this key
          </a>
        </>
      )}
    </span>
  );
}
