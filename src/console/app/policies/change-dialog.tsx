/** The frame of dialogs that change a policy. It keeps what was typed when another operator changes the same policy. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { readChanges, recentChanges } from "../api/changes.ts";
import { Dialog, type DialogProps, Meanwhile } from "../parts/dialog.tsx";
import { type ConditionalChange, isOutdated, readPolicy, Sender } from "../api/rules.ts";
import type { Policy } from "../api/answers.ts";

export interface PolicyDialogProps {
  /** The newest state of the policy. */
  readonly live: Policy;
  readonly onClose: () => void;
}

/** The state that a dialog shows and changes: it stays the same until the operator asks for the new one. */
interface ShownPolicy {
  readonly policy: Policy;
  /** The newest state. */
  readonly live: Policy;
  readonly openedVersion: number;
  readonly show: (policy: Policy) => void;
}

/** @param onShow is called before a newer state is shown */
export function useShownPolicy(live: Policy, onShow?: (shown: Policy, newer: Policy) => void): ShownPolicy {
  const [policy, setPolicy] = useState(live);
  const [openedVersion] = useState(live.version);
  const show = (newer: Policy): void => {
    onShow?.(policy, newer);
    setPolicy(newer);
  };
  return { policy, live, openedVersion, show };
}

interface ChangeDialogProps<Result> extends Omit<DialogProps, "onConfirm" | "isIncomplete"> {
  readonly shown: ShownPolicy;
  /** The content of all fields. */
  readonly typed: unknown;
  /** The change of the policy as it is shown; null while the fields are incomplete. */
  readonly change: ConditionalChange<Result> | null;
  readonly onDone: (result: Result) => void;
  readonly children: ComponentChildren;
}

export function ChangeDialog<Result>(dialog: ChangeDialogProps<Result>) {
  const { shown, typed, change, onDone, children, ...props } = dialog;
  const [sender] = useState(() => new Sender<Result>());
  const confirm = async (): Promise<void> => {
    if (change === null) return;
    try {
      onDone(await sender.send(JSON.stringify(typed), change));
    } catch (error) {
      if (!isOutdated(error)) throw error;
      readChanges();
      shown.show(await readPolicy(shown.policy.name));
      throw new Error(
        "Nothing was changed now, because the policy changed after this dialog was opened. The dialog shows the new state now. Check the effect and confirm again.",
        { cause: error },
      );
    }
  };
  return (
    <Dialog {...props} isIncomplete={change === null} onConfirm={confirm}>
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
  const isOlder = live.version > policy.version;
  return (
    <Meanwhile entries={changes} intro="While this dialog was open:">
      {isOlder && (
        <button type="button" onClick={() => show(live)}>
          Show the effect on the new state
        </button>
      )}
    </Meanwhile>
  );
}
