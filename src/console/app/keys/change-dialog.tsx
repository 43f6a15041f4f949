/** The frame of every dialog that changes rules of a key: its fields, the effect, and what others change meanwhile. */
import type { ComponentChildren } from "preact";
import { type Change, modeObstacle } from "../what-if/ways.ts";
import type { RuleChange } from "../api/undo-plan.ts";
import { useEffect, useState } from "preact/hooks";
import { LastDay } from "../what-if/of-dialogs.tsx";
import { type RulePlan, Sender } from "../api/rules.ts";
import { Dialog, Effect, type EffectProps, Meanwhile } from "../parts/dialog.tsx";
import { denialShare, type DenialShare } from "./denials.ts";
import { type KeyState, sendPlan } from "./rules.ts";
import { keyName } from "./known-keys.ts";
import { undoOf } from "../api/undo.ts";
import { showToast } from "../shell/toasts.tsx";
import { newestChange, recentChanges } from "../api/changes.ts";
import { numberText, percentText } from "../parts/text.ts";

interface KeyChangeDialogProps {
  readonly state: KeyState;
  readonly title: string;
  readonly confirm: string;
  readonly isDangerous?: boolean;
  readonly isIncomplete?: boolean;
  /** A `KeyEffect`. */
  readonly effect: ComponentChildren;
  /** Null while the fields are incomplete. */
  readonly lastDay: Change | null;
  /** The content of all fields. */
  readonly typed: unknown;
  readonly plan: RulePlan;
  /** The message after success, such as "Boosted ip=192.0.2.1 for 10 min". */
  readonly done: string;
  readonly onClose: () => void;
  readonly children?: ComponentChildren;
}

export function KeyChangeDialog(props: KeyChangeDialogProps) {
  const { state, title, confirm, isDangerous = false, isIncomplete = false } = props;
  const { effect, lastDay, typed, plan, done, onClose, children } = props;
  const { policy, id, readAgain } = state;
  const [sender] = useState(() => new Sender<RuleChange>());
  const submit = async (): Promise<void> => {
    try {
      const change = await sendPlan(sender, JSON.stringify(typed), plan);
      const undoIt = undoOf(change);
      const undo = async (): Promise<void> => {
        await undoIt();
        readAgain();
        showToast({ text: `Undone: ${done}` });
      };
      showToast({ text: done, action: { label: "Undo", run: undo } });
    } finally {
      readAgain();
    }
  };
  return (
    <Dialog {...{ title, confirm, isDangerous, isIncomplete, onClose }} onConfirm={submit}>
      {children}
      {effect}
      <LastDay change={lastDay} obstacle={modeObstacle(policy)} />
      <OtherChangesOfKey policy={policy.name} id={id} />
    </Dialog>
  );
}

/** The effect of a change of a key. */
export const KeyEffect = ({
  state: { policy, id },
  ...effect
}: Omit<EffectProps, "concerns"> & { readonly state: KeyState }) => (
  <Effect concerns={<Concerns policy={policy} id={id} />} {...effect} />
);

/** The key, and how much of the policy's denials it has. */
function Concerns({ policy, id }: Pick<KeyState, "policy" | "id">) {
  const [share, setShare] = useState<DenialShare | null>(null);
  useEffect(() => {
    // The share is an addition: without it, the dialog is complete.
    denialShare(policy, id).then(setShare, () => null);
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- the policy is read again while the dialog is open
  }, [policy.name, id]);
  return (
    <>
      Key <span class="id">{keyName(policy.name, id)}</span> of policy {policy.name}
      {share !== null &&
        `, with ${percentText(share.ofKey, share.ofPolicy)} of its ${share.what} in the last 24 hours (${numberText(share.ofKey)} of ${numberText(share.ofPolicy)})`}
    </>
  );
}

/** Changes of this key or its policy since the dialog was opened. */
export function OtherChangesOfKey({ policy, id }: { readonly policy: string; readonly id: string }) {
  const [opened] = useState(() => newestChange.peek());
  const others = recentChanges.value.filter(
    (entry) =>
      entry.seq > opened &&
      entry.action !== "reveal" &&
      entry.policy === policy &&
      (entry.keyId === null || entry.keyId === id),
  );
  return (
    <Meanwhile entries={others} intro="The rules changed while this dialog was open. The effect above includes it." />
  );
}
