/** A modal dialog that asks for confirmation of a change: its fields, its effect, and what others change meanwhile. */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ApiProblem } from "../api/client.ts";
import { showProblem, showToast } from "../shell/toasts.tsx";
import { type ConditionalChange, isOutdated, isUnsure, Sender, type Term } from "../api/rules.ts";
import { operator } from "../shell/session.ts";
import { useAction } from "./action.ts";
import { second } from "./count-down.tsx";
import { changeText, durations, termMs } from "./rule-text.ts";
import { instantText, timeText } from "./text.ts";
import type { AuditEntryView } from "../../../admin/wire.ts";
import { Checkbox, Input, SelectField } from "./fields.tsx";

/**
 * Another operator made a change first, so this one was refused. The dialog sends nothing more until it shows the newer
 * state, and the operator ticks that the change applies to it.
 */
export class MadeFirst extends Error {}

interface DialogProps {
  readonly title: string;
  /** The label of the button that makes the change, such as "Block the key". */
  readonly confirm: string;
  readonly isDangerous?: boolean;
  readonly isIncomplete?: boolean;
  /** Identifies the state that the dialog shows and changes. It differs once the dialog shows a newer state. */
  readonly basis?: string;
  /** The changes that the dialog shows and that were made since it was opened, the newest first. */
  readonly newer?: readonly AuditEntryView[];
  /**
   * Makes the change. After success, the dialog closes. A failure is shown in the dialog, or in a message if it is
   * closed already.
   */
  readonly onConfirm: () => Promise<unknown>;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

export function Dialog(props: DialogProps) {
  const { title, confirm, isDangerous = false, isIncomplete = false, onConfirm, onClose, children } = props;
  const { basis = "", newer = [] } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => dialog.current?.showModal(), []);
  const [refused, setRefused] = useState<string | null>(null);
  const { run, isRunning, problem } = useAction(async () => {
    try {
      await onConfirm();
      dialog.current?.close();
    } catch (error) {
      if (error instanceof MadeFirst) setRefused(basis);
      if (dialog.current === null) showProblem(error);
      throw error;
    }
  });
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    void run();
  };
  // A change whose answer was lost may be among the newer ones.
  const isOwn = ({ actor }: AuditEntryView): boolean =>
    problem !== null && isUnsure(problem) && actor === operator.value?.name;
  const conflict = useConflict({ basis, refused, newest: newer.find((entry) => !isOwn(entry))?.seq ?? 0 });
  return (
    <dialog ref={dialog} aria-labelledby={titleId} onClose={onClose}>
      <form onSubmit={submit}>
        <h2 id={titleId}>{title}</h2>
        {children}
        <footer>
          <ProblemAlert problem={problem} />
          {conflict.isOpen && !isRunning && !isIncomplete && <ReplaceNewer {...conflict} />}
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button
            type="submit"
            class={isDangerous ? "primary danger" : "primary"}
            disabled={isRunning || isIncomplete || (conflict.isOpen && !conflict.isAccepted)}
          >
            {isRunning ? "Sending …" : confirm}
          </button>
        </footer>
      </form>
    </dialog>
  );
}

interface Conflict {
  /** Whether another operator made a change while the dialog was open. It stays true until the dialog closes. */
  readonly isOpen: boolean;
  /** Whether the dialog shows the newer state. */
  readonly isShown: boolean;
  /** Whether the operator wants to replace the state that the dialog shows. */
  readonly isAccepted: boolean;
  readonly accept: (isAccepted: boolean) => void;
}

interface ConflictState {
  readonly basis: string;
  /** The basis of a change that was refused; null for none. */
  readonly refused: string | null;
  /** The number of the newest change by another operator since the dialog was opened; 0 for none. */
  readonly newest: number;
}

function useConflict({ basis, refused, newest }: ConflictState): Conflict {
  const [accepted, setAccepted] = useState<string | null>(null);
  const state = `${newest} ${basis}`;
  return {
    isOpen: refused !== null || newest > 0,
    isShown: basis !== refused,
    isAccepted: accepted === state && basis !== refused,
    accept: (isAccepted) => setAccepted(isAccepted ? state : null),
  };
}

const ReplaceNewer = ({ isShown, isAccepted, accept }: Conflict) =>
  isShown ? (
    <Checkbox
      label="Make this change to the newer state, which is shown above"
      isChecked={isAccepted}
      onChange={accept}
    />
  ) : (
    <p class="hint">Reading the newer state …</p>
  );

/** Stands beside the buttons, which are always in view, and gets the focus. */
function ProblemAlert({ problem }: { readonly problem: Error | null }) {
  const alert = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (problem !== null) alert.current?.focus();
  }, [problem]);
  return (
    <div ref={alert} class="dialog-alert" role="alert" {...(problem !== null && { tabIndex: -1 })}>
      {problem !== null && <ProblemText problem={problem} />}
    </div>
  );
}

export interface ChangeDialogProps<Result> extends Omit<DialogProps, "onConfirm" | "isIncomplete" | "basis"> {
  /** The content of all fields. */
  readonly typed: unknown;
  /** Null while the fields are incomplete. */
  readonly change: ConditionalChange<Result> | null;
  /** The message after success, such as "Boosted ip=192.0.2.1 for 10 min". */
  readonly done: (result: Result) => string;
  /** Returns the error to show when the target has changed since the page read it, usually a `MadeFirst`. */
  readonly onOutdated: (refusal: ApiProblem) => Promise<Error>;
}

/** A dialog for a change. The message after success has a button that undoes the change. */
export function ChangeDialog<Result>({ typed, change, done, onOutdated, ...dialog }: ChangeDialogProps<Result>) {
  const [sender] = useState(() => new Sender<Result>());
  const confirm = async (): Promise<void> => {
    if (change === null) return;
    try {
      const result = await sender.send(JSON.stringify(typed), change);
      showToast({ text: done(result), undo: change.undoOf(result) });
    } catch (error) {
      throw isOutdated(error) ? await onOutdated(error) : error;
    }
  };
  return <Dialog {...dialog} isIncomplete={change === null} basis={change?.basis ?? ""} onConfirm={confirm} />;
}

const ProblemText = ({ problem }: { readonly problem: Error }) => (
  <div class="problem">
    <p>{problem.message}</p>
    {problem instanceof ApiProblem && problem.fields.length > 0 && (
      <ul>
        {problem.fields.map(({ field, accepted }) => (
          <li key={field}>
            <code>{field}</code>: expected {accepted}
          </li>
        ))}
      </ul>
    )}
  </div>
);

export interface EffectProps {
  /** The key or the policy that changes, such as "Key 3f9aQx7p… of policy api". */
  readonly concerns: ComponentChildren;
  readonly now: ComponentChildren;
  /** The state after the change is made. */
  readonly next: ComponentChildren;
  /** How long the change lasts. Default: without an end. */
  readonly term?: Term;
  /** The state after the end of the change; not shown for a change without an end. */
  readonly after?: ComponentChildren;
  /** Warnings, such as a ban that still denies the key. */
  readonly notes?: readonly string[];
}

export function Effect({ concerns, now, next, term = {}, after, notes = [] }: EffectProps) {
  const lengthMs = termMs(term);
  return (
    <section class="effect" aria-label="Effect">
      <dl>
        <dt>Concerns</dt>
        <dd>{concerns}</dd>
        <dt>Now</dt>
        <dd>{now}</dd>
        <dt>{lengthMs === null ? "Then" : <Until lengthMs={lengthMs} />}</dt>
        <dd>
          <strong>{next}</strong>
        </dd>
        {lengthMs !== null && after !== undefined && (
          <>
            <dt>After that</dt>
            <dd>{after}</dd>
          </>
        )}
      </dl>
      {notes.map((note) => (
        <p key={note} class="warning">
          {note}
        </p>
      ))}
    </section>
  );
}

const dayMs = 86_400_000;

/** The end moves while the dialog is open, because the term begins with the confirmation. */
function Until({ lengthMs }: { readonly lengthMs: number }) {
  const endMs = second.value + lengthMs;
  return <>Then, until {lengthMs < dayMs ? timeText(endMs) : instantText(endMs)}</>;
}

interface TermFieldsProps {
  readonly term: Term;
  readonly onChange: (term: Term) => void;
  readonly isNoteRequired?: boolean;
}

export const TermFields = ({ term, onChange, isNoteRequired = false }: TermFieldsProps) => (
  <>
    <SelectField
      label="For how long"
      value={term.for ?? ""}
      options={durations.map(([value, label]) => [value, label])}
      onChange={(value) => onChange(withTerm(term, { for: value }))}
    />
    <NoteField {...{ term, onChange, isNoteRequired }} />
  </>
);

/** Why a change is made, for a change without a term. */
export const NoteField = ({ term, onChange, isNoteRequired = false }: TermFieldsProps) => (
  <Input
    label={`Note for the audit log (${isNoteRequired ? "required" : "optional"})`}
    maxLength={1_024}
    required={isNoteRequired}
    value={term.note ?? ""}
    onInput={(note) => onChange(withTerm(term, { note }))}
  />
);

/** Empty texts are left out, because the admin API refuses them. */
const withTerm = (term: Term, changed: Term): Term =>
  Object.fromEntries(Object.entries({ ...term, ...changed }).filter(([, text]) => text !== ""));

interface MeanwhileProps {
  readonly entries: readonly AuditEntryView[];
  readonly intro: string;
  readonly children?: ComponentChildren;
}

/** The status exists before the first change, so that screen readers announce it. */
export const Meanwhile = ({ entries, intro, children }: MeanwhileProps) => (
  <div role="status">
    {entries.length > 0 && (
      <div class="warning-list">
        <p>{intro}</p>
        <ul>
          {entries.map((entry) => (
            <li key={entry.seq}>
              {entry.actor} {changeText(entry)}
            </li>
          ))}
        </ul>
        {children}
      </div>
    )}
  </div>
);
