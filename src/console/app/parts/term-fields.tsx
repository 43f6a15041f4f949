/** Form fields of every change: how long it lasts, and why it is made. */
import { useId } from "preact/hooks";
import type { Term } from "../api/rule-input.ts";
import { durations } from "./term.ts";

interface TermFieldsProps {
  readonly term: Term;
  readonly onChange: (term: Term) => void;
  readonly isNoteRequired?: boolean;
}

export function TermFields({ term, onChange, isNoteRequired = false }: TermFieldsProps) {
  const id = useId();
  return (
    <>
      <div class="field">
        <label for={`${id}-for`}>For how long</label>
        <select
          id={`${id}-for`}
          value={term.for ?? ""}
          onChange={({ currentTarget: { value } }) => onChange(withTerm(term, { for: value }))}
        >
          {durations.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
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
