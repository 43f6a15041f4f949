/** The view "Audit": the history of all changes, and how to return from them. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { AuditEntry, AuditPage } from "../api/answers.ts";
import { useChanges } from "../api/changes.ts";
import { read } from "../api/client.ts";
import { Failure, Loading } from "../parts/notice.tsx";
import { replaceQuery, route } from "../shell/route.ts";
import { session } from "../shell/session.ts";
import "./audit.css";
import { Entries, inBackground } from "./entries.tsx";
import { Excerpt } from "./excerpt.tsx";
import { filterIn, matches } from "./filter.ts";
import { FilterForm } from "./filter-form.tsx";
import { LoadedEntries, type ReadPage } from "./loaded-entries.ts";
import { RollbackDialog } from "./rollback-dialog.tsx";

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

interface LogProps {
  readonly loaded: LoadedEntries;
}

function Log({ loaded }: LogProps) {
  const named = useNamedEntry(loaded);
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
        Filters apply to the {entries.length} entries loaded
        {loaded.hasOlder.value ? "; load older entries below to search them too" : ", which are all"}.
      </p>
      <div class="newer" role="status">
        {hidden > 0 && (
          <button type="button" class="primary" onClick={showNewest}>
            {hidden} new {hidden === 1 ? "entry" : "entries"}
          </button>
        )}
      </div>
      <Entries list={matching.filter(({ seq }) => seq <= shownNewest)} {...{ loaded, named, first, setFirst }} />
    </>
  );
}

/** Shows the entry that the address names. */
function useNamedEntry(loaded: LoadedEntries): number | null {
  const named = numberIn("seq");
  useEffect(() => {
    if (named !== null) inBackground(loaded.show(named));
  }, [loaded, named]);
  return named;
}

/**
 * New entries appear at once while nothing else is read, or when the operator of this tab made one of them. Otherwise they
 * appear when the operator asks for them.
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

const isOwn = ({ actor }: AuditEntry): boolean => {
  const { value } = session;
  return value.kind === "signed-in" && actor === value.operator.name;
};

const isAtTop = (): boolean =>
  scrollY < 8 &&
  document.querySelector(".entry details[open]") === null &&
  document.activeElement?.closest(".entry") === null;
