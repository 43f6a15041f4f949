/** Asks for confirmation of the undo of one entry. */
import type { AuditEntry } from "../api/answers.ts";
import { perform, undoChange } from "../api/undo.ts";
import type { UndoStep } from "../api/undo-plan.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Effect } from "../parts/effect.tsx";
import { showToast } from "../shell/toasts.tsx";
import type { UndoOption } from "./rollback-plan.ts";
import { stepPlace, stepStates } from "./step-text.ts";

interface UndoDialogProps {
  readonly entry: AuditEntry;
  /** Changes while the dialog is open, when another operator changes the rule. */
  readonly option: UndoOption;
  readonly onClose: () => void;
}

export function UndoDialog({ entry: { seq }, option, onClose }: UndoDialogProps) {
  const step = "step" in option ? option.step : null;
  const undo = async (): Promise<void> => {
    if (step === null) return;
    const change = await perform(step);
    const run = (): Promise<unknown> => undoChange(change);
    showToast({ text: `Undid entry ${seq}.`, action: { label: "Undo", run } });
  };
  return (
    <Dialog
      title={`Undo entry ${seq}`}
      confirm="Undo the change"
      isIncomplete={step === null}
      {...{ onClose }}
      onConfirm={undo}
    >
      {step !== null && <StepEffect step={step} />}
      <div role="status">
        {"obstacle" in option && (
          <p class="warning">This entry can no longer be undone by itself: {option.obstacle}.</p>
        )}
      </div>
      <p class="hint">The undo is an entry of its own in the audit log.</p>
    </Dialog>
  );
}

function StepEffect({ step }: { readonly step: UndoStep }) {
  const { before, after } = stepStates(step);
  return <Effect concerns={stepPlace(step)} now={before} then={after} />;
}
