/** Asks for confirmation of the undo of one entry. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { AuditEntry } from "../api/answers.ts";
import { changeBy, type KeyReference, Sender } from "../api/rules.ts";
import { planOfStep, undoOf } from "../api/undo.ts";
import type { RuleChange, UndoStep } from "../api/undo-plan.ts";
import { referenceTo } from "../keys/known-keys.ts";
import { changeText, placeText, stateText } from "../parts/rule-text.ts";
import { Dialog, Effect } from "../parts/dialog.tsx";
import { showToast } from "../shell/toasts.tsx";
import { LastDayOfSteps } from "../what-if/of-dialogs.tsx";
import { readWithout } from "./read-without.ts";
import type { UndoOption } from "./history.ts";

interface UndoDialogProps {
  readonly entry: AuditEntry;
  /** Changes while the dialog is open, when another operator changes the rule. */
  readonly option: UndoOption;
  readonly onClose: () => void;
}

export function UndoDialog({ entry, option, onClose }: UndoDialogProps) {
  const { seq, actor } = entry;
  const step = "step" in option ? option.step : null;
  const sender = useMemo(() => new Sender<RuleChange>(), []);
  const undo = async (): Promise<void> => {
    if (step === null) return;
    const change = await sender.send("", changeBy(planOfStep(step, keyOf(step))));
    showToast({ text: `Undid entry ${seq}.`, action: { label: "Undo", run: undoOf(change) } });
  };
  return (
    <Dialog
      title={`Undo entry ${seq}`}
      confirm="Undo the change"
      isIncomplete={step === null}
      {...{ onClose }}
      onConfirm={undo}
    >
      <p>
        {actor} {changeText(entry)}.
      </p>
      {step !== null && <StepEffect step={step} />}
      <div role="status">
        {"obstacle" in option && (
          <p class="warning">This entry can no longer be undone by itself: {option.obstacle}.</p>
        )}
      </div>
      <p class="hint">The undo is an entry of its own in the audit log.</p>
      {step !== null && <LastDayOfSteps steps={[step]} />}
    </Dialog>
  );
}

const keyOf = ({ rule: { policy, keyId } }: UndoStep): KeyReference | undefined =>
  keyId === null ? undefined : referenceTo(policy, keyId);

/** A rule that is made again is a new one, which has the plain key only if this tab knows it. */
function restoredKeyNotes(step: UndoStep): readonly string[] {
  const isLost = step.kind === "restore" && keyOf(step)?.id !== undefined;
  return isLost ? ["The rule is made again with the id of its key, and without the plain key."] : [];
}

function StepEffect({ step }: { readonly step: UndoStep }) {
  const { kind, rule } = step;
  const [without, setWithout] = useState("…");
  useEffect(() => {
    if (kind === "replace") return undefined;
    const abort = new AbortController();
    readWithout(rule, abort.signal).then(setWithout, () => setWithout("without this rule"));
    return () => abort.abort();
  }, [kind, rule]);
  return (
    <Effect
      concerns={placeText(step.rule.policy, step.rule.keyId)}
      now={kind === "restore" ? without : stateText(rule)}
      then={kind === "remove" ? without : stateText(kind === "restore" ? rule : step.former)}
      notes={restoredKeyNotes(step)}
    />
  );
}
