/**
 * The list of audit entries. It shows a part of them at a time, and follows the newest ones until the operator shows
 * older ones.
 */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Fragment } from "preact";
import type { AuditEntryView } from "../../../admin/wire.ts";
import { second } from "../parts/count-down.tsx";
import { Empty } from "../parts/notice.tsx";
import { hrefOf, replaceQuery } from "../shell/route.ts";
import { differences, entryWindow, firstAround, newerFirst, olderFirst } from "./shown-entries.ts";
import type { History, UndoOption } from "./history.ts";
import type { LoadedEntries } from "./loaded-entries.ts";
import { UndoDialog } from "./dialogs.tsx";
import { changeText } from "../parts/rule-text.ts";
import { instantText, shortId } from "../parts/text.ts";
import { may } from "../shell/session.ts";

/** Ignores the failure, because `problem` shows it. The next change or click reads again. */
export const inBackground = (done: Promise<unknown>): void => void done.catch(() => null);

interface EntriesProps {
  /** The entries that match the filter. */
  readonly list: readonly AuditEntryView[];
  readonly loaded: LoadedEntries;
  readonly named: number | null;
  /** The newest entry to show; null for the newest of the list. */
  readonly first: number | null;
  readonly setFirst: (first: number | null) => void;
}

export function Entries({ list, loaded, named, first, setFirst }: EntriesProps) {
  const part = entryWindow(list, first);
  const problem = loaded.problem.value;
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
        <Empty>
          {loaded.newest.value === 0 ? (
            "Nothing has been changed yet."
          ) : (
            <>
              No loaded entry matches. <a href={hrefOf("audit")}>Show all entries</a>
            </>
          )}
        </Empty>
      ) : (
        <EntryList rows={part.rows} history={loaded.history.value} {...{ named }} canChange />
      )}
      <div class="row older">
        {problem !== null && (
          <p class="problem" role="alert">
            {problem.message}
          </p>
        )}
        {part.older > 0 || loaded.hasOlder.value ? (
          <button type="button" disabled={loaded.isLoading.value} onClick={showOlder}>
            Older entries
          </button>
        ) : (
          <span class="dim">No older entries.</span>
        )}
      </div>
    </>
  );
}

interface EntryListProps {
  readonly rows: readonly AuditEntryView[];
  readonly history: History;
  readonly named: number | null;
  /** Whether all newer entries are known, so that an entry can be undone. */
  readonly canChange?: boolean;
}

export function EntryList({ rows, history, named, canChange = false }: EntryListProps) {
  const [undone, setUndone] = useState<AuditEntryView | null>(null);
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
            {...{ entry, history }}
            isNamed={entry.seq === named}
            option={canChange ? history.undoOption(entry, nowMs) : null}
            onUndo={() => setUndone(entry)}
          />
        ))}
      </ol>
      {undone !== null && (
        <UndoDialog entry={undone} option={history.undoOption(undone, nowMs)} onClose={() => setUndone(null)} />
      )}
    </>
  );
}

interface EntryProps {
  readonly entry: AuditEntryView;
  readonly history: History;
  /** Null when newer entries are unknown, so that this one allows neither an undo nor a rollback. */
  readonly option: UndoOption | null;
  /** Whether the address names this entry. */
  readonly isNamed: boolean;
  readonly onUndo: () => void;
}

function Entry(props: EntryProps) {
  const { entry, history, option, isNamed } = props;
  const { seq, at, actor, via } = entry;
  const rows = useMemo(() => differences(entry), [entry]);
  const undone = history.undoneBy(entry);
  return (
    <li class="card entry" tabIndex={-1} {...(isNamed && { "aria-current": "true" as const })}>
      <p class="dim">
        <a href={hrefOf("audit", { seq })}>Entry {seq}</a>, <time dateTime={at}>{instantText(at)}</time>
      </p>
      <p>
        <strong>{actor}</strong>
        {via !== "system" && <span class="dim"> (by {viaNames[via]})</span>} {changeText(entry)}.
      </p>
      {undone !== null && (
        <p>
          This undoes <a href={hrefOf("audit", { seq: undone.seq })}>entry {undone.seq}</a>: {undone.actor}{" "}
          {changeText(undone)}.
        </p>
      )}
      <Links entry={entry} />
      {rows.length > 0 && (
        <details open={isNamed}>
          <summary>Before and after</summary>
          <dl class="differences">
            {rows.map(({ field, before, after }) => (
              <Fragment key={field}>
                <dt>{field}</dt>
                <dd>
                  {before !== "" && <del>{before}</del>} {after !== "" && <ins>{after}</ins>}
                </dd>
              </Fragment>
            ))}
          </dl>
        </details>
      )}
      {option !== null && may("write") && <EntryActions {...props} option={option} />}
    </li>
  );
}

function EntryActions({ entry: { seq }, history, option, onUndo }: EntryProps & { readonly option: UndoOption }) {
  return (
    <p class="row">
      {"step" in option ? (
        <button type="button" aria-label={`Undo entry ${seq}`} onClick={onUndo}>
          Undo
        </button>
      ) : (
        <span class="hint">Cannot be undone by itself: {option.obstacle}.</span>
      )}
      {seq === history.newest ? (
        <span class="hint">The newest entry: the rules are as it left them.</span>
      ) : (
        <button type="button" aria-label={`Roll back to here: entry ${seq}`} onClick={() => replaceQuery({ to: seq })}>
          Roll back to here
        </button>
      )}
    </p>
  );
}

const viaNames = { token: "token", access: "Cloudflare Access" } as const;

function Links({ entry: { policy, keyId } }: { readonly entry: AuditEntryView }) {
  if (policy === null) return null;
  return (
    <p class="row">
      <a href={hrefOf("policies", { name: policy })}>Policy {policy}</a>
      {keyId !== null && (
        <a href={hrefOf("keys", { policy, id: keyId })} title={keyId}>
          Key <span class="id">{shortId(keyId)}</span>
        </a>
      )}
    </p>
  );
}
