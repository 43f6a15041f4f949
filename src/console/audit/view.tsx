/** The view "Audit": the history of all changes, and how to return from them. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { AuditEntry, AuditPage } from "../api/answers.ts";
import { useChanges } from "../api/changes.ts";
import { read } from "../api/client.ts";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { undoneEntry } from "../parts/undone-entry.ts";
import { second } from "../parts/count-down.tsx";
import { hrefOf, replaceQuery, route } from "../shell/route.ts";
import { session } from "../shell/session.ts";
import "./audit.css";
import { Entry } from "./entry.tsx";
import { filterIn, matches } from "./filter.ts";
import { FilterForm } from "./filter-form.tsx";
import { LoadedEntries, type ReadPage } from "./loaded-entries.ts";
import { RollbackDialog } from "./rollback-dialog.tsx";
import { undoOption } from "./rollback-plan.ts";
import { UndoDialog } from "./undo-dialog.tsx";

const readPage: ReadPage = (cursor) =>
  read<AuditPage>(`audit?limit=100${cursor === null ? "" : `&cursor=${cursor}`}`);

/** A failure is shown from `problem`; the next change or click reads again. */
const inBackground = (done: Promise<void>): void => void done.catch(() => null);

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
      {to !== null && (
        <RollbackDialog
          key={to}
          {...{ to, loaded }}
          onClose={() => replaceQuery({ to: undefined })}
        />
      )}
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
  const entries = loaded.all.value;
  const problem = loaded.problem.value;
  if (entries === null) {
    if (problem === null) return <Loading what="the audit log" />;
    return <Failure problem={problem} onRetry={() => inBackground(loaded.loadNewer())} />;
  }
  const filter = filterIn(route.value.query);
  const matching = entries.filter((entry) => matches(entry, filter));
  const hidden = matching.filter(({ seq }) => seq > shownNewest).length;
  return (
    <>
      <FilterForm {...{ entries, filter }} />
      <p class="hint">
        Filters apply to the {entries.length} entries loaded
        {loaded.hasOlder.value
          ? "; load older entries below to search them too"
          : ", which are all"}
        .
      </p>
      <div class="newer" role="status">
        {hidden > 0 && (
          <button type="button" class="primary" onClick={showAll}>
            {hidden} new {hidden === 1 ? "entry" : "entries"}
          </button>
        )}
      </div>
      <Entries list={matching.filter(({ seq }) => seq <= shownNewest)} {...{ entries, named }} />
      <Older loaded={loaded} />
    </>
  );
}

/** Loads entries down to the one that the address names. */
function useNamedEntry(loaded: LoadedEntries): number | null {
  const named = numberIn("seq");
  useEffect(() => {
    if (named !== null) inBackground(loaded.loadTo(named));
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

interface EntriesProps {
  readonly list: readonly AuditEntry[];
  /** All entries that are loaded. */
  readonly entries: readonly AuditEntry[];
  readonly named: number | null;
}

function Entries({ list, entries, named }: EntriesProps) {
  const [undone, setUndone] = useState<AuditEntry | null>(null);
  const nowMs = second.peek();
  if (list.length === 0) {
    return (
      <Empty>
        {entries.length === 0 ? "Nothing has been changed yet." : "No loaded entry matches."}{" "}
        {entries.length > 0 && <a href={hrefOf("audit")}>Show all entries</a>}
      </Empty>
    );
  }
  return (
    <>
      <ol class="plain" aria-label="Audit entries">
        {list.map((entry) => (
          <Entry
            key={entry.seq}
            entry={entry}
            option={undoOption(entry, entries, nowMs)}
            undone={undoneEntry(entry, entries)}
            isNewest={entry === entries[0]}
            isNamed={entry.seq === named}
            onUndo={() => setUndone(entry)}
            onRollBack={() => replaceQuery({ to: entry.seq })}
          />
        ))}
      </ol>
      {undone !== null && (
        <UndoDialog
          entry={undone}
          option={undoOption(undone, entries, nowMs)}
          onClose={() => setUndone(null)}
        />
      )}
    </>
  );
}

function Older({ loaded }: LogProps) {
  const problem = loaded.problem.value;
  return (
    <div class="row older">
      {problem !== null && (
        <p class="problem" role="alert">
          {problem.message}
        </p>
      )}
      {loaded.hasOlder.value ? (
        <button
          type="button"
          disabled={loaded.isLoading.value}
          onClick={() => inBackground(loaded.loadOlder())}
        >
          Older entries
        </button>
      ) : (
        <span class="dim">No older entries.</span>
      )}
    </div>
  );
}
