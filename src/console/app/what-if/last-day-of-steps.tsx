/** The last 24 hours under the limits and modes that the steps of an undo or a rollback bring back. */
import { useEffect, useId, useState } from "preact/hooks";
import type { Policy } from "../api/answers.ts";
import { read } from "../api/client.ts";
import type { UndoStep } from "../api/undo-plan.ts";
import { changeOfRules, rulesAfter } from "./after-rules.ts";
import { LastDay } from "./lazy.tsx";

interface StepsProps {
  readonly steps: readonly UndoStep[];
}

const changesLimits = ({ rule: { kind, keyId } }: UndoStep): boolean =>
  keyId === null && (kind === "limits" || kind === "mode");

/** Shows one policy at a time. */
export function LastDayOfSteps({ steps }: StepsProps) {
  const id = useId();
  const [chosen, setChosen] = useState("");
  const own = steps.filter(changesLimits);
  const names = [...new Set(own.map(({ rule }) => rule.policy))];
  const name = names.includes(chosen) ? chosen : names[0];
  if (name === undefined) return null;
  return (
    <>
      {names.length > 1 && (
        <p class="row">
          <label for={id}>Effect on policy</label>
          <select id={id} value={name} onChange={({ currentTarget: { value } }) => setChosen(value)}>
            {names.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </p>
      )}
      <OfOnePolicy key={name} name={name} steps={own.filter(({ rule }) => rule.policy === name)} />
      {own.length < steps.length && (
        <p class="hint">The last 24 hours do not include what changes for single keys and lists of entries.</p>
      )}
    </>
  );
}

/** Shows nothing when the policy cannot be read: the dialog is complete without it. */
function OfOnePolicy({ name, steps }: StepsProps & { readonly name: string }) {
  const [policy, setPolicy] = useState<Policy | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    read<Policy>(`policies/${encodeURIComponent(name)}`, abort.signal).then(setPolicy, () => null);
    return () => abort.abort();
  }, [name]);
  if (policy === null) return null;
  return <LastDay change={changeOfRules(policy, rulesAfter(policy, steps))} />;
}
