/** A dialog that changes a policy. It notices when another operator changes the same policy, and keeps what was typed. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { AuditEntry, Policy } from "../api/answers.ts";
import { readChanges, recentChanges } from "../api/changes.ts";
import { ApiProblem, read } from "../api/client.ts";
import { changeText } from "../parts/change-text.ts";
import { Dialog, type DialogProps } from "../parts/dialog.tsx";

/** The state that a dialog shows and changes: it stays the same until the operator asks for the new one. */
export interface ShownPolicy {
  readonly policy: Policy;
  /** The newest state. */
  readonly live: Policy;
  readonly openedVersion: number;
  readonly show: (policy: Policy) => void;
}

/** @param onShow is called before a newer state is shown */
export function useShownPolicy(
  live: Policy,
  onShow?: (shown: Policy, newer: Policy) => void,
): ShownPolicy {
  const [policy, setPolicy] = useState(live);
  const [openedVersion] = useState(live.version);
  const show = (newer: Policy): void => {
    onShow?.(policy, newer);
    setPolicy(newer);
  };
  return { policy, live, openedVersion, show };
}

interface ChangeDialogProps extends Omit<DialogProps, "onConfirm"> {
  readonly shown: ShownPolicy;
  /** Makes the change, on the condition that `policy` is still in effect. */
  readonly change: (policy: Policy) => Promise<unknown>;
  readonly children: ComponentChildren;
}

export function ChangeDialog({ shown, change, children, ...props }: ChangeDialogProps) {
  const confirm = async (): Promise<void> => {
    try {
      await change(shown.policy);
    } catch (error) {
      const isOutdated =
        error instanceof ApiProblem && (error.status === 412 || error.status === 404);
      if (!isOutdated) throw error;
      readChanges();
      shown.show(await read<Policy>(`policies/${encodeURIComponent(shown.policy.name)}`));
      throw new Error(
        "Nothing was changed, because the policy changed after this dialog was opened. The dialog shows the new state now. Check the effect and confirm again.",
        { cause: error },
      );
    }
  };
  return (
    <Dialog {...props} onConfirm={confirm}>
      {children}
      <OtherChanges shown={shown} />
    </Dialog>
  );
}

/** The changes of the policy since the dialog was opened. */
function OtherChanges({ shown: { policy, live, openedVersion, show } }: { shown: ShownPolicy }) {
  const changes = recentChanges.value.filter(
    (entry) => entry.policy === policy.name && entry.keyId === null && entry.seq > openedVersion,
  );
  const isOutdated = live.version > policy.version;
  return (
    <div role="status">
      {changes.length > 0 && (
        <div class="meanwhile">
          <p>While this dialog was open:</p>
          <ul>
            {changes.map((entry: AuditEntry) => (
              <li key={entry.seq}>
                {entry.actor} {changeText(entry)}
              </li>
            ))}
          </ul>
          {isOutdated && (
            <button type="button" onClick={() => show(live)}>
              Show the effect on the new state
            </button>
          )}
        </div>
      )}
    </div>
  );
}
