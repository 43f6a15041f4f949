/** An audit entry: a sentence, its difference, and how to return from it. */
import { Fragment } from "preact";
import { useMemo } from "preact/hooks";
import type { AuditEntry } from "../api/answers.ts";
import { changeText } from "../parts/rule-text.ts";
import { instantText, shortId } from "../parts/text.ts";
import { hrefOf } from "../shell/route.ts";
import { may } from "../shell/session.ts";
import { type Difference, differences } from "./differences.ts";
import type { UndoOption } from "./history.ts";

interface EntryProps {
  readonly entry: AuditEntry;
  /** Null when newer entries are unknown, so that it can be neither undone nor rolled back to. */
  readonly option: UndoOption | null;
  /** The entry whose change this one takes back; null for none. */
  readonly undone: AuditEntry | null;
  /** Whether no later entry exists, so that a rollback to it changes nothing. */
  readonly isNewest: boolean;
  /** Whether the address names this entry. */
  readonly isNamed: boolean;
  readonly onUndo: () => void;
  readonly onRollBack: () => void;
}

export function Entry(props: EntryProps) {
  const { entry, option, undone, isNamed } = props;
  const { seq, at, actor, via } = entry;
  const rows = useMemo(() => differences(entry), [entry]);
  return (
    <li class="card entry" tabIndex={-1} {...(isNamed && { "aria-current": "true" as const })}>
      <p class="dim">
        <a href={hrefOf("audit", { seq })}>Entry {seq}</a>, <time dateTime={at}>{instantText(at)}</time>
      </p>
      <p>
        <strong>{actor}</strong>
        {via !== "system" && <span class="dim"> (by {viaNames[via]})</span>} {changeText(entry)}.
      </p>
      {undone !== null && <Undone entry={undone} />}
      <Links entry={entry} />
      {rows.length > 0 && (
        <details open={isNamed}>
          <summary>Before and after</summary>
          <Differences rows={rows} />
        </details>
      )}
      {option !== null && may("write") && <EntryActions {...props} option={option} />}
    </li>
  );
}

interface EntryActionsProps extends EntryProps {
  readonly option: UndoOption;
}

function EntryActions(props: EntryActionsProps) {
  const { entry, option, isNewest, onUndo, onRollBack } = props;
  const { seq } = entry;
  return (
    <p class="row">
      {"step" in option ? (
        <button type="button" aria-label={`Undo entry ${seq}`} onClick={onUndo}>
          Undo
        </button>
      ) : (
        <span class="hint">Cannot be undone by itself: {option.obstacle}.</span>
      )}
      {isNewest ? (
        <span class="hint">The newest entry: the rules are as it left them.</span>
      ) : (
        <button type="button" aria-label={`Roll back to here: entry ${seq}`} onClick={onRollBack}>
          Roll back to here
        </button>
      )}
    </p>
  );
}

const Undone = ({ entry }: { readonly entry: AuditEntry }) => (
  <p>
    This undoes <a href={hrefOf("audit", { seq: entry.seq })}>entry {entry.seq}</a>: {entry.actor} {changeText(entry)}.
  </p>
);

const viaNames = { token: "token", access: "Cloudflare Access" } as const;

function Links({ entry: { policy, keyId } }: { readonly entry: AuditEntry }) {
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

const Differences = ({ rows }: { readonly rows: readonly Difference[] }) => (
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
);
