/** The list of entries: a part of it at a time, which follows the newest entries until older ones are shown. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { AuditEntry } from "../api/answers.ts";
import { second } from "../parts/count-down.tsx";
import { Empty } from "../parts/notice.tsx";
import { hrefOf, replaceQuery } from "../shell/route.ts";
import { Entry } from "./entry.tsx";
import { entryWindow, firstAround, newerFirst, olderFirst } from "./entry-window.ts";
import type { History } from "./history.ts";
import type { LoadedEntries } from "./loaded-entries.ts";
import { UndoDialog } from "./undo-dialog.tsx";

/** A failure is shown from `problem`; the next change or click reads again. */
export const inBackground = (done: Promise<unknown>): void => void done.catch(() => null);

interface EntriesProps {
  /** The entries that match the filter. */
  readonly list: readonly AuditEntry[];
  readonly loaded: LoadedEntries;
  readonly named: number | null;
  /** The newest entry to show; null for the newest of the list. */
  readonly first: number | null;
  readonly setFirst: (first: number | null) => void;
}

export function Entries({ list, loaded, named, first, setFirst }: EntriesProps) {
  const part = entryWindow(list, first);
  const isLoaded = named !== null && list.some(({ seq }) => seq === named);
  useEffect(() => {
    if (isLoaded) setFirst(firstAround(list, first, named));
    // oxlint-disable-next-line react/exhaustive-deps -- afterwards the operator moves the part
  }, [named, isLoaded]);
  const showOlder = (): void => {
    setFirst(olderFirst(part, first));
    if (part.older < part.rows.length) inBackground(loaded.loadOlder());
  };
  return (
    <>
      {part.newer > 0 && (
        <div class="row older">
          <button type="button" onClick={() => setFirst(newerFirst(list, part))}>
            Newer entries
          </button>
        </div>
      )}
      {list.length === 0 ? (
        <NoEntry hasEntries={loaded.newest.value > 0} />
      ) : (
        <EntryList rows={part.rows} history={loaded.history.value} {...{ named }} canChange />
      )}
      <Older loaded={loaded} hasOlder={part.older > 0} onClick={showOlder} />
    </>
  );
}

const NoEntry = ({ hasEntries }: { readonly hasEntries: boolean }) => (
  <Empty>
    {hasEntries ? "No loaded entry matches." : "Nothing has been changed yet."}{" "}
    {hasEntries && <a href={hrefOf("audit")}>Show all entries</a>}
  </Empty>
);

interface EntryListProps {
  readonly rows: readonly AuditEntry[];
  readonly history: History;
  readonly named: number | null;
  /** Whether all newer entries are known, so that an entry can be undone. */
  readonly canChange?: boolean;
}

export function EntryList({ rows, history, named, canChange = false }: EntryListProps) {
  const [undone, setUndone] = useState<AuditEntry | null>(null);
  const list = useRef<HTMLOListElement>(null);
  const reachedRef = useRef<number | null>(null);
  const nowMs = second.peek();
  useEffect(() => {
    const element = list.current?.querySelector<HTMLElement>("[aria-current]") ?? null;
    if (element === null || reachedRef.current === named) return;
    reachedRef.current = named;
    element.scrollIntoView({ block: "center" });
    element.focus({ preventScroll: true });
  });
  return (
    <>
      <ol ref={list} class="plain" aria-label="Audit entries">
        {rows.map((entry) => (
          <Entry
            key={entry.seq}
            entry={entry}
            option={canChange ? history.undoOption(entry, nowMs) : null}
            undone={history.undoneBy(entry)}
            isNewest={entry.seq === history.newest}
            isNamed={entry.seq === named}
            onUndo={() => setUndone(entry)}
            onRollBack={() => replaceQuery({ to: entry.seq })}
          />
        ))}
      </ol>
      {undone !== null && (
        <UndoDialog entry={undone} option={history.undoOption(undone, nowMs)} onClose={() => setUndone(null)} />
      )}
    </>
  );
}

interface OlderProps {
  readonly loaded: LoadedEntries;
  /** Whether older entries are loaded, and not shown. */
  readonly hasOlder: boolean;
  readonly onClick: () => void;
}

function Older({ loaded, hasOlder, onClick }: OlderProps) {
  const problem = loaded.problem.value;
  return (
    <div class="row older">
      {problem !== null && (
        <p class="problem" role="alert">
          {problem.message}
        </p>
      )}
      {hasOlder || loaded.hasOlder.value ? (
        <button type="button" disabled={loaded.isLoading.value} onClick={onClick}>
          Older entries
        </button>
      ) : (
        <span class="dim">No older entries.</span>
      )}
    </div>
  );
}
