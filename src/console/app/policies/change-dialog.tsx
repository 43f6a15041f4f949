/** The frame of dialogs that change a policy. It keeps what was typed when another operator changes the same policy. */
import { useState } from "preact/hooks";
import type { Policy } from "../api/answers.ts";
import { readChanges, recentChanges } from "../api/changes.ts";
import { readPolicy } from "../api/rules.ts";
import { ChangeDialog, type ChangeDialogProps, Meanwhile } from "../parts/dialog.tsx";

export interface PolicyDialogProps {
  /** The newest state of the policy. */
  readonly live: Policy;
  readonly onClose: () => void;
}

/**
 * The state that a dialog shows and changes: it stays the same until the operator asks for the new one.
 * @param onShow is called before a newer state is shown
 */
export function useShownPolicy(live: Policy, onShow?: (shown: Policy, newer: Policy) => void) {
  const [policy, setPolicy] = useState(live);
  const show = (newer: Policy): void => {
    onShow?.(policy, newer);
    setPolicy(newer);
  };
  return { policy, live, show };
}

interface PolicyChangeDialogProps<Result> extends Omit<ChangeDialogProps<Result>, "onOutdated"> {
  readonly shown: ReturnType<typeof useShownPolicy>;
}

export function PolicyChangeDialog<Result>({ shown, children, ...dialog }: PolicyChangeDialogProps<Result>) {
  const { policy, live, show } = shown;
  const [openedVersion] = useState(live.version);
  const others = recentChanges.value.filter(
    (entry) => entry.policy === policy.name && entry.keyId === null && entry.seq > openedVersion,
  );
  const showNewest = async (cause: Error): Promise<Error> => {
    readChanges();
    show(await readPolicy(policy.name));
    return new Error(
      "Nothing was changed now, because the policy changed after this dialog was opened. The dialog shows the new state now. Check the effect and confirm again.",
      { cause },
    );
  };
  return (
    <ChangeDialog {...dialog} onOutdated={showNewest}>
      {children}
      <Meanwhile entries={others} intro="While this dialog was open:">
        {live.version > policy.version && (
          <button type="button" onClick={() => show(live)}>
            Show the effect on the new state
          </button>
        )}
      </Meanwhile>
    </ChangeDialog>
  );
}
