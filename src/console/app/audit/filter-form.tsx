/** The filter of the audit entries. Its values are in the address of the page. */
import { useId } from "preact/hooks";
import type { AuditEntry } from "../api/answers.ts";
import { replaceQuery } from "../shell/route.ts";
import { type Filter, type FilterField, filterFields } from "./filter.ts";

interface FilterFormProps {
  readonly entries: readonly AuditEntry[];
  readonly filter: Filter;
}

export function FilterForm({ entries, filter }: FilterFormProps) {
  const choices = (value: (entry: AuditEntry) => string | null): readonly string[] =>
    [...new Set(entries.map((entry) => value(entry) ?? ""))].filter((text) => text !== "");
  const isSet = filterFields.some((field) => filter[field] !== undefined);
  return (
    <form class="row filter" aria-label="Filter" onSubmit={(event) => event.preventDefault()}>
      <Choice field="policy" label="Policy" list={choices(({ policy }) => policy)} {...{ filter }} />
      <Choice field="actor" label="Operator" list={choices(({ actor }) => actor)} {...{ filter }} />
      <Choice field="action" label="Action" list={choices(({ action }) => action)} {...{ filter }} />
      <KeyField filter={filter} />
      {filter.rule !== undefined && (
        <span>
          Rule <span class="id">{filter.rule}</span>
        </span>
      )}
      {isSet && (
        <button type="button" class="quiet" onClick={clear}>
          Clear the filter
        </button>
      )}
    </form>
  );
}

const clear = (): void => replaceQuery(Object.fromEntries(filterFields.map((field) => [field, undefined])));

interface FilterChoiceProps {
  readonly field: FilterField;
  readonly label: string;
  readonly list: readonly string[];
  readonly filter: Filter;
}

/** The chosen value is offered even when no loaded entry has it. */
function Choice({ field, label, list, filter }: FilterChoiceProps) {
  const id = useId();
  const value = filter[field] ?? "";
  const offered = new Set(value === "" ? list : [...list, value]);
  return (
    <span class="choice-field">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={({ currentTarget }) => replaceQuery({ [field]: currentTarget.value })}>
        <option value="">All</option>
        {[...offered].toSorted().map((text) => (
          <option key={text}>{text}</option>
        ))}
      </select>
    </span>
  );
}

function KeyField({ filter: { key = "" } }: { readonly filter: Filter }) {
  const id = useId();
  return (
    <span class="choice-field">
      <label for={id}>Id of the key</label>
      <input
        id={id}
        type="search"
        value={key}
        spellcheck={false}
        onInput={({ currentTarget }) => replaceQuery({ key: currentTarget.value.trim() })}
      />
    </span>
  );
}
