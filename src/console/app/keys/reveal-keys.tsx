/** Shows the plain keys of a list, for operators with the right to see them. */
import { useState } from "preact/hooks";
import { ApiProblem } from "../api/client.ts";
import { useAction } from "../parts/action.ts";
import { may } from "../shell/session.ts";
import { showProblem, showToast } from "../shell/toasts.tsx";
import { knownKey, revealKey } from "./known-keys.ts";
import { countOf } from "../parts/text.ts";

interface RevealProps {
  readonly policy: string;
  readonly parts: readonly string[];
  readonly ids: readonly string[];
}

export const RevealKeys = (props: RevealProps) => (may("reveal") ? <RevealButton {...props} /> : null);

/** The keys are revealed once, and their names stay in this tab. Keys that are listed later need another click. */
function RevealButton({ policy, parts, ids }: RevealProps) {
  const [notStored, setNotStored] = useState<ReadonlySet<string>>(new Set());
  const hidden = [...new Set(ids)].filter((id) => knownKey(policy, id) === null && !notStored.has(id));
  const reveal = async (): Promise<void> => {
    const missing = await revealAll(policy, parts, hidden);
    setNotStored(new Set([...notStored, ...missing]));
  };
  const { run, isRunning } = useAction(() => reveal().catch(showProblem));
  return (
    <p class="row">
      <button type="button" disabled={isRunning || hidden.length === 0} onClick={() => void run()}>
        Show plain keys
      </button>
      <span class="hint">
        The audit log records each key that is shown, with your name.
        {notStored.size > 0 && ` The plain form of ${countOf(notStored.size, "key")} is not stored.`}
      </span>
    </p>
  );
}

/** Returns the ids whose plain key is not stored. */
async function revealAll(policy: string, parts: readonly string[], ids: readonly string[]): Promise<readonly string[]> {
  const missing: string[] = [];
  await Promise.all(
    ids.map((id) =>
      revealKey(policy, parts, id).catch((error: unknown) => {
        if (!(error instanceof ApiProblem && error.status === 404)) throw error;
        missing.push(id);
      }),
    ),
  );
  showToast({ text: `${countOf(ids.length - missing.length, "key")} shown, and recorded in the audit log` });
  return missing;
}
