/** The list of denials, of the policy, the key and the period in the address of the page. */
import { useState } from "preact/hooks";
import type { DenialPage, DenialView } from "../../../admin/wire.ts";
import { queryText, read } from "../api/client.ts";
import { usePolled } from "../api/poll.ts";
import { now } from "../clock.ts";
import { keyName } from "../keys/known-keys.ts";
import { Empty, Reading } from "../parts/notice.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { instantText, numberText } from "../parts/text.ts";
import { hrefOf, route } from "../shell/route.ts";
import { completenessText, spanText } from "./search.ts";

const pauseMs = 5_000;
const firstListed = 20;
/** The most that the API returns at once. */
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

export function Log() {
  const { query } = route.value;
  const [policy, id, cursor] = ["policy", "id", "cursor"].map((name) => query.get(name) ?? undefined);
  const [from, to] = periodIn(query);
  const [limit, setLimit] = useState(firstListed);
  const filter = { policy, id, from, to, cursor };
  const log = usePolled((abort) => read<DenialPage>(`denials${queryText({ ...filter, limit })}`, abort), pauseMs, [
    ...Object.values(filter),
    limit,
  ]);
  const isFiltered = [id, from, to, cursor].some((value) => value !== undefined);
  return (
    <section aria-labelledby="log-title">
      <div class="row">
        <h2 id="log-title">
          {id === undefined ? "Denials" : "Denials of this key"}
          {periodText(from, to)}
        </h2>
        {isFiltered && <a href={hrefOf("denied", { policy })}>All denials</a>}
      </div>
      <Reading of={log} what="the log of denials">
        {(page) => (
          <>
            <Page page={page} />
            <More page={page} limit={limit} onMore={() => setLimit(Math.min(mostListed, limit * 3))} />
          </>
        )}
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

function Page({ page }: { readonly page: DenialPage }) {
  const { denials, isOn } = page;
  if (!isOn && denials.length === 0) return <Off />;
  const [from = "", to = "Z"] = periodIn(route.value.query);
  const isOutside = denials.some(({ at, lastAt }) => at < from || lastAt >= to);
  return (
    <>
      <p class="hint">
        {completenessText(page)}
        {isOutside && " A row with several denials is listed when one of them is in the chosen time."}
      </p>
      {denials.length === 0 ? (
        <Empty>No denial in this time.</Empty>
      ) : (
        <div class="card">
          <Table caption="Denials, the newest first" columns={columns} rows={denials} keyOf={rowKeyOf} />
        </div>
      )}
    </>
  );
}

interface MoreProps {
  readonly page: DenialPage;
  readonly limit: number;
  readonly onMore: () => void;
}

/** Lists more rows, up to the most that one answer has, and then links to the next page. */
function More({ page: { next }, limit, onMore }: MoreProps) {
  if (next === null) return null;
  return (
    <p class="row">
      {limit < mostListed ? (
        <button type="button" onClick={onMore}>
          Show more
        </button>
      ) : (
        <a href={hrefOf("denied", { ...Object.fromEntries(route.value.query), cursor: next })}>Older denials</a>
      )}
    </p>
  );
}

const rowKeyOf = ({ instance, policy, at }: DenialView): string => `${instance} ${policy} ${at}`;

const columns: readonly Column<DenialView>[] = [
  { title: "Time", cell: (denial) => spanText(denial, now()) },
  { title: "Denials", cell: ({ count }) => numberText(count), isNumber: true },
  { title: "Policy", cell: ({ policy }) => <a href={hrefOf("policies", { name: policy })}>{policy}</a> },
  { title: "Data center", cell: ({ colo }) => (colo === "" ? "–" : colo) },
  { title: "Key", cell: ({ policy, id }) => (id === null ? "missing" : <KeyLinks policy={policy} id={id} />) },
  { title: "Why", cell: ({ cause }) => cause },
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
          <a class="all-of-key" href={hrefOf("denied", { policy: query.get("policy") ?? "", id })}>
            all denials
          </a>
        </>
      )}
    </span>
  );
}
