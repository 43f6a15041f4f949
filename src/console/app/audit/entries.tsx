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
import { type EntryGroup, groupsOf, groupText } from "../parts/entry-groups.ts";
import { changeText } from "../parts/rule-text.ts";
import { countOf, instantText, shortId } from "../parts/text.ts";
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
            "No changes yet. Changes of rules and policies appear here, with the operator and an undo."
          ) : (
            <>
              No loaded entry matches the filter. <a href={hrefOf("audit")}>Show all entries</a>
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
  const optionOf = (entry: AuditEntryView): UndoOption | null => (canChange ? history.undoOption(entry, nowMs) : null);
  return (
    <>
      <ol ref={list} class="plain" aria-label="Audit entries">
        {groupsOf(rows).map((group) => (
          <Entry
            key={group[0].seq}
            {...{ group, history, optionOf }}
            isNamed={group.some(({ seq }) => seq === named)}
            onUndo={setUndone}
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
  readonly group: EntryGroup;
  readonly history: History;
  /** Null when newer entries are unknown, so that an entry allows neither an undo nor a rollback. */
  readonly optionOf: (entry: AuditEntryView) => UndoOption | null;
  /** Whether the address names an entry of the group. */
  readonly isNamed: boolean;
  readonly onUndo: (entry: AuditEntryView) => void;
}

function Entry(props: EntryProps) {
  const { group, history, optionOf, isNamed } = props;
  const [entry, ...others] = group;
  const undone = history.undoneBy(entry);
  const option = may("write") ? optionOf(entry) : null;
  return (
    <li class="card entry" tabIndex={-1} {...(isNamed && { "aria-current": "true" as const })}>
      <p>
        <span class="dim">
          <EntryLink entry={entry} />, <time dateTime={entry.at}>{instantText(entry.at)}</time>
        </span>{" "}
        <strong>{entry.actor}</strong>
        {entry.via !== "system" && <span class="dim"> (by {viaNames[entry.via]})</span>} {groupText(group)}.
        {undone !== null && (
          <>
            {" "}
            This undoes <EntryLink entry={undone} isWithin />: {undone.actor} {changeText(undone)}.
          </>
        )}
      </p>
      {others.length === 0 ? (
        <>
          <Links entry={entry} />
          <Differences entry={entry} isOpen={isNamed} />
          {option !== null && <EntryActions entry={entry} {...{ history, option }} onUndo={props.onUndo} />}
        </>
      ) : (
        <>
          <RolledBack {...props} />
          {option !== null && <RollbackActions group={group} history={history} />}
        </>
      )}
    </li>
  );
}

const EntryLink = ({
  entry: { seq },
  isWithin = false,
}: {
  readonly entry: AuditEntryView;
  /** Whether the link is within a sentence. */
  readonly isWithin?: boolean;
}) => (
  <a href={hrefOf("audit", { seq })}>
    {isWithin ? "entry" : "Entry"} {seq}
  </a>
);

function Differences({ entry, isOpen }: { readonly entry: AuditEntryView; readonly isOpen: boolean }) {
  const rows = useMemo(() => differences(entry), [entry]);
  if (rows.length === 0) return null;
  return (
    <details open={isOpen}>
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
  );
}

/** The rules that one rollback has changed. */
const RolledBack = ({ group, isNamed, optionOf, onUndo }: EntryProps) => (
  <details open={isNamed}>
    <summary>{countOf(group.length, "change")}</summary>
    <ul class="rolled-back">
      {group.map((entry) => {
        const option = may("write") ? optionOf(entry) : null;
        return (
          <li key={entry.seq}>
            <EntryLink entry={entry} /> {changeText(entry)}. <Links entry={entry} />{" "}
            {option !== null && "step" in option && <UndoButton entry={entry} onUndo={onUndo} />}
          </li>
        );
      })}
    </ul>
  </details>
);

type UndoProps = Pick<EntryProps, "onUndo"> & { readonly entry: AuditEntryView };

const UndoButton = ({ entry, onUndo }: UndoProps) => (
  <button type="button" aria-label={`Undo entry ${entry.seq}`} onClick={() => onUndo(entry)}>
    Undo
  </button>
);

interface EntryActionsProps extends UndoProps {
  readonly history: History;
  readonly option: UndoOption;
}

function EntryActions({ entry, history, option, onUndo }: EntryActionsProps) {
  return (
    <div class="row actions">
      {"step" in option ? (
        <UndoButton entry={entry} onUndo={onUndo} />
      ) : (
        <span class="hint">Cannot be undone by itself: {option.obstacle}.</span>
      )}
      <RollbackButton seq={entry.seq} history={history} />
    </div>
  );
}

/** A rollback is undone as a whole by another one, to the entry before it. */
const RollbackActions = ({ group: [newest], history }: Pick<EntryProps, "group" | "history">) => (
  <div class="row actions">
    <button
      type="button"
      aria-label={`Undo the rollback: entry ${newest.seq}`}
      onClick={() => replaceQuery({ to: newest.rollback?.from })}
    >
      Undo the rollback
    </button>
    <RollbackButton seq={newest.seq} history={history} />
  </div>
);

const RollbackButton = ({ seq, history }: { readonly seq: number; readonly history: History }) =>
  seq === history.newest ? (
    <span class="hint">The newest entry: the rules are as it left them.</span>
  ) : (
    <button type="button" aria-label={`Roll back to here: entry ${seq}`} onClick={() => replaceQuery({ to: seq })}>
      Roll back to here
    </button>
  );

const viaNames = { token: "token", access: "Cloudflare Access" } as const;

function Links({ entry: { policy, keyId } }: { readonly entry: AuditEntryView }) {
  if (policy === null) return null;
  return (
    <span class="row links-of-entry">
      <a href={hrefOf("policies", { name: policy })}>Policy {policy}</a>
      {keyId !== null && (
        <a href={hrefOf("keys", { policy, id: keyId })} title={keyId}>
          Key <span class="id">{shortId(keyId)}</span>
        </a>
      )}
    </span>
  );
}
