/** A modal dialog that asks for confirmation of a change: its fields, its effect, and what others change meanwhile. */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ApiProblem } from "../api/client.ts";
import { showProblem } from "../shell/toasts.tsx";
import type { Term } from "../api/rules.ts";
import { second } from "./count-down.tsx";
import { changeText, durations, termMs } from "./rule-text.ts";
import { instantText, timeText } from "./text.ts";
import type { AuditEntry } from "../api/answers.ts";
import { Select } from "./fields.tsx";

export interface DialogProps {
  readonly title: string;
  /** The label of the button that makes the change, such as "Block the key". */
  readonly confirm: string;
  readonly isDangerous?: boolean;
  readonly isIncomplete?: boolean;
  /** Makes the change. The dialog closes after success, and shows a failure; a message does if it was closed meanwhile. */
  readonly onConfirm: () => Promise<unknown>;
  readonly onClose: () => void;
  /** The fields, and the effect of the change. */
  readonly children: ComponentChildren;
}

export function Dialog(props: DialogProps) {
  const { title, confirm, isDangerous = false, isIncomplete = false, onClose, children } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  const [problem, setProblem] = useState<Error | null>(null);
  const [isSending, setIsSending] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    setIsSending(true);
    setProblem(null);
    try {
      await props.onConfirm();
      dialog.current?.close();
    } catch (error) {
      if (dialog.current === null) showProblem(error);
      setProblem(error instanceof Error ? error : new Error(String(error)));
    } finally {
      setIsSending(false);
    }
  };
  return (
    <dialog ref={dialog} aria-labelledby={titleId} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <h2 id={titleId}>{title}</h2>
        {children}
        <div role="alert">{problem !== null && <ProblemText problem={problem} />}</div>
        <footer>
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="submit" class={isDangerous ? "primary danger" : "primary"} disabled={isSending || isIncomplete}>
            {isSending ? "Sending …" : confirm}
          </button>
        </footer>
      </form>
    </dialog>
  );
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
  readonly then: ComponentChildren;
  /** How long the change lasts. Default: without an end. */
  readonly term?: Term;
  /** The state after the end of the change; not shown for a change without an end. */
  readonly after?: ComponentChildren;
  /** Warnings, such as a ban that still denies the key. */
  readonly notes?: readonly string[];
}

export function Effect({ concerns, now, then, term = {}, after, notes = [] }: EffectProps) {
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
          <strong>{then}</strong>
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

export function TermFields({ term, onChange, isNoteRequired = false }: TermFieldsProps) {
  return (
    <>
      <div class="field">
        <Select
          label="For how long"
          value={term.for ?? ""}
          options={durations.map(([value, label]) => [value, label])}
          onChange={(value) => onChange(withTerm(term, { for: value }))}
        />
      </div>
      <NoteField {...{ term, onChange, isNoteRequired }} />
    </>
  );
}

/** Why a change is made, for a change without a term. */
export function NoteField({ term, onChange, isNoteRequired = false }: TermFieldsProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={`${id}-note`}>Note for the audit log ({isNoteRequired ? "required" : "optional"})</label>
      <input
        id={`${id}-note`}
        type="text"
        maxLength={1_024}
        required={isNoteRequired}
        value={term.note ?? ""}
        onInput={({ currentTarget: { value } }) => onChange(withTerm(term, { note: value }))}
      />
    </div>
  );
}

/** Empty texts are left out, because the admin API refuses them. */
function withTerm(term: Term, changed: { readonly [Name in keyof Term]?: string }): Term {
  const fields = Object.entries({ ...term, ...changed }).filter(([, text]) => text !== "");
  return Object.fromEntries(fields);
}

interface MeanwhileProps {
  readonly entries: readonly AuditEntry[];
  /** The sentence above the changes. */
  readonly intro: string;
  /** Shown below the changes. */
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
