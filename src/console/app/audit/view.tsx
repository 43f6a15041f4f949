/** The view "Audit": the history of all changes, and how to return from them. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { AuditEntryView, AuditPage } from "../../../admin/wire.ts";
import { useChanges } from "../api/changes.ts";
import { read } from "../api/client.ts";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { hrefOf, replaceQuery, route } from "../shell/route.ts";
import { operator } from "../shell/session.ts";
import "./audit.css";
import { Entries, EntryList, inBackground } from "./entries.tsx";
import { type Filter, filteredFieldOf, filterFields, filterIn, matches } from "./shown-entries.ts";
import { LoadedEntries, mostReached, type ReadPage } from "./loaded-entries.ts";
import { RollbackDialog } from "./dialogs.tsx";
import { countOf, numberText } from "../parts/text.ts";
import { History } from "./history.ts";
import { Input, SelectField } from "../parts/fields.tsx";

const readPage: ReadPage = (cursor, limit) =>
  read<AuditPage>(`audit?limit=${limit}${cursor === null ? "" : `&cursor=${cursor}`}`);

export function AuditView() {
  const loaded = useMemo(() => new LoadedEntries(readPage), []);
  const readNewer = useMemo(() => () => inBackground(loaded.loadNewer()), [loaded]);
  useEffect(readNewer, [readNewer]);
  useChanges(readNewer);
  const to = numberIn("to");
  return (
    <section>
      <h1>Audit</h1>
      <Log loaded={loaded} />
      {to !== null && <RollbackDialog key={to} {...{ to, loaded }} onClose={() => replaceQuery({ to: undefined })} />}
    </section>
  );
}

function numberIn(field: string): number | null {
  const text = route.value.query.get(field) ?? "";
  return /^\d{1,15}$/.test(text) ? Number(text) : null;
}

function Log({ loaded }: { readonly loaded: LoadedEntries }) {
  const named = numberIn("seq");
  useEffect(() => {
    if (named !== null) inBackground(loaded.show(named));
  }, [loaded, named]);
  const [shownNewest, showAll] = useShownNewest(loaded);
  const [first, setFirst] = useState<number | null>(null);
  const filter = filterIn(route.value.query);
  const filterText = JSON.stringify(filter);
  useEffect(() => setFirst(null), [filterText]);
  const entries = loaded.all.value;
  const excerpt = loaded.excerpt.value;
  const problem = loaded.problem.value;
  if (entries === null) {
    if (problem === null) return <Loading what="the audit log" />;
    return <Failure problem={problem} onRetry={() => inBackground(loaded.loadNewer())} />;
  }
  if (named !== null && excerpt !== null) return <Excerpt rows={excerpt} named={named} />;
  const matching = entries.filter((entry) => matches(entry, filter));
  const showNewest = (): void => {
    showAll();
    setFirst(null);
  };
  const hidden = matching.filter(({ seq }) => seq > shownNewest).length;
  return (
    <>
      <FilterForm {...{ entries, filter }} />
      <p class="hint">
        {loaded.hasOlder.value
          ? `Filters apply to the ${countOf(entries.length, "entry", "entries")} loaded so far. Load older entries below to search them, too.`
          : `The audit log has ${countOf(entries.length, "entry", "entries")}.`}
      </p>
      <div class="newer" role="status">
        {hidden > 0 && (
          <button type="button" class="primary" onClick={showNewest}>
            {countOf(hidden, "new entry", "new entries")}
          </button>
        )}
      </div>
      <Entries list={matching.filter(({ seq }) => seq <= shownNewest)} {...{ loaded, named, first, setFirst }} />
    </>
  );
}

/**
 * New entries appear at once if the operator of this tab made one of them, or while the operator is not reading older
 * ones. Otherwise they appear when the operator asks for them.
 */
function useShownNewest(loaded: LoadedEntries): [number, () => void] {
  const [shownNewest, setShownNewest] = useState(0);
  const newest = loaded.newest.value;
  const showAll = (): void => setShownNewest(newest);
  useEffect(() => {
    const added = loaded.all.peek()?.filter(({ seq }) => seq > shownNewest) ?? [];
    if (shownNewest === 0 || isAtTop() || added.some(isOwn)) showAll();
    // oxlint-disable-next-line react/exhaustive-deps -- only a new entry may show entries
  }, [newest]);
  return [shownNewest, showAll];
}

const isOwn = ({ actor }: AuditEntryView): boolean => actor === operator.peek()?.name;

const isAtTop = (): boolean =>
  scrollY < 8 &&
  document.querySelector(".entry details[open]") === null &&
  document.activeElement?.closest(".entry") === null;

interface FilterProps {
  readonly entries: readonly AuditEntryView[];
  readonly filter: Filter;
}

function FilterForm({ entries, filter }: FilterProps) {
  const { key = "", rule } = filter;
  return (
    <form class="row filter" aria-label="Filter" onSubmit={(event) => event.preventDefault()}>
      <Choice field="policy" label="Policy" {...{ entries, filter }} />
      <Choice field="actor" label="Operator" {...{ entries, filter }} />
      <Choice field="action" label="Action" {...{ entries, filter }} />
      <Input
        label="Id of the key"
        isSearch
        value={key}
        spellcheck={false}
        onInput={(text) => replaceQuery({ key: text.trim() })}
      />
      {rule !== undefined && (
        <span>
          Rule <span class="id">{rule}</span>
        </span>
      )}
      {Object.keys(filter).length > 0 && (
        <button type="button" class="quiet" onClick={clear}>
          Clear the filter
        </button>
      )}
    </form>
  );
}

const clear = (): void => replaceQuery(Object.fromEntries(filterFields.map((field) => [field, undefined])));

interface ChoiceProps extends FilterProps {
  readonly field: "policy" | "actor" | "action";
  readonly label: string;
}

/** Offers the chosen value even when no loaded entry has it. */
function Choice({ field, label, entries, filter }: ChoiceProps) {
  const { [field]: value = "" } = filter;
  const offered = new Set([value, ...entries.map((entry) => filteredFieldOf(entry, field) ?? "")]);
  offered.delete("");
  return (
    <SelectField
      label={label}
      value={value}
      options={[["", "All"], ...[...offered].toSorted()]}
      onChange={(chosen) => replaceQuery({ [field]: chosen })}
    />
  );
}

/** The entries around an old one, for which the page does not load all newer entries. */
function Excerpt({ rows, named }: { readonly rows: readonly AuditEntryView[]; readonly named: number }) {
  const history = useMemo(() => new History(rows), [rows]);
  const [newest, oldest] = [rows[0], rows.at(-1)];
  if (newest === undefined || oldest === undefined || oldest.seq > named) {
    return (
      <Empty>
        The audit log no longer has entry {named}. <a href={hrefOf("audit")}>Show the newest</a>
      </Empty>
    );
  }
  return (
    <>
      <p class="hint">
        These entries have more than {numberText(mostReached)} newer ones, so they are shown without filters, undo and
        rollback. <a href={hrefOf("audit")}>Show the newest entries</a>
      </p>
      <p class="row older">
        <a href={hrefOf("audit", { seq: newest.seq + 1 })}>Newer entries</a>
      </p>
      <EntryList {...{ rows, history, named }} />
      <p class="row older">{oldest.seq > 1 && <a href={hrefOf("audit", { seq: oldest.seq - 1 })}>Older entries</a>}</p>
    </>
  );
}
