/** Takes the sampled traffic of a policy of the deployment that the operator is signed in to. */
import { useEffect, useId, useState } from "preact/hooks";
import type { Policy } from "../../app/api/answers.ts";
import { queryText, readText } from "../../app/api/client.ts";
import { readPolicies } from "../../app/api/policies.ts";
import { session } from "../../app/shell/session.ts";
import { changeLog } from "../page-state.ts";

/** Only operators have it: the playground needs no credentials. */
export const SampleInput = () => (session.value.kind === "signed-in" ? <PolicySamples /> : null);

function PolicySamples() {
  const id = useId();
  const [policies, setPolicies] = useState<readonly Policy[]>([]);
  const [chosen, setChosen] = useState("");
  const [isReading, setIsReading] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    readPolicies(abort.signal).then(setPolicies, () => null);
    return () => abort.abort();
  }, []);
  const name = chosen === "" ? policies[0]?.name : chosen;
  if (name === undefined) return null;
  const use = async (): Promise<void> => {
    setIsReading(true);
    setProblem(null);
    try {
      changeLog(await readText(`samples${queryText({ policy: name })}`));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    } finally {
      setIsReading(false);
    }
  };
  return (
    <div class="field">
      <label for={id}>Sampled traffic of a policy</label>
      <div class="row">
        <select id={id} value={name} onChange={({ currentTarget: { value } }) => setChosen(value)}>
          {policies.map((policy) => (
            <option key={policy.name}>{policy.name}</option>
          ))}
        </select>
        <button type="button" disabled={isReading} onClick={() => void use()}>
          {isReading ? "Reading …" : "Use the last 24 hours"}
        </button>
      </div>
      <p class="problem" role="alert">
        {problem}
      </p>
    </div>
  );
}
