/** Finds a key by its parts, or by its id. */
import { useId, useState } from "preact/hooks";
import type { Policy } from "../api/answers.ts";
import { navigate } from "../shell/route.ts";
import { soughtKey, type TypedKey } from "./key-text.ts";
import { findKey } from "./known-keys.ts";

const textOf = (form: FormData, name: string): string => {
  const value = form.get(name);
  return typeof value === "string" ? value : "";
};

const typedIn = (form: FormData, parts: readonly string[]): TypedKey => ({
  key: parts.map((_, index) => textOf(form, `part-${index}`)),
  id: textOf(form, "id"),
  tenant: textOf(form, "tenant"),
  attributes: textOf(form, "attributes"),
});

export function FindKey({ policy: { name, key: parts } }: { readonly policy: Policy }) {
  const [problem, setProblem] = useState<string | null>(null);
  const [isSearching, setIsSearching] = useState(false);
  const problemId = useId();
  const find = async (form: FormData): Promise<void> => {
    const sought = soughtKey(typedIn(form, parts), parts);
    const id = "id" in sought ? sought.id : await findKey(name, parts, sought);
    navigate("keys", { policy: name, id });
  };
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (!(event.currentTarget instanceof HTMLFormElement)) return;
    setIsSearching(true);
    setProblem(null);
    try {
      await find(new FormData(event.currentTarget));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    } finally {
      setIsSearching(false);
    }
  };
  return (
    <section class="card" aria-labelledby="find-title">
      <h2 id="find-title">Find a key</h2>
      <form class="find" onSubmit={(event) => void submit(event)} aria-describedby={problemId}>
        {parts.map((part, index) =>
          part === "global" ? null : <Field key={part} name={`part-${index}`} label={part} />,
        )}
        <Field name="id" label="or the id of the key" />
        <button type="submit" class="primary" disabled={isSearching}>
          Explain
        </button>
        <details>
          <summary>Tenant and attributes</summary>
          <Field name="tenant" label="Tenant of the /check token" />
          <div class="field">
            <label for="attributes">Attributes</label>
            <textarea
              id="attributes"
              name="attributes"
              rows={2}
              placeholder="country=DE"
              aria-describedby="attributes-help"
            />
            <p id="attributes-help" class="hint">
              One per line. Entries of lists and overrides are compared with them.
            </p>
          </div>
        </details>
      </form>
      <p id={problemId} class="problem" role="alert">
        {problem}
      </p>
    </section>
  );
}

const Field = ({ name, label }: { readonly name: string; readonly label: string }) => (
  <div class="field">
    <label for={name}>{label}</label>
    <input id={name} name={name} type="text" autocomplete="off" spellcheck={false} />
  </div>
);
