/** Asks for confirmation of the undo of one entry. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { AuditedRule, AuditEntry, Explanation, RulePage } from "../api/answers.ts";
import { undoOfEntries } from "../api/undo.ts";
import type { UndoStep } from "../api/undo-plan.ts";
import { changeText, placeText, policyWithout, stateText } from "../parts/rule-text.ts";
import { Dialog, Effect } from "../parts/dialog.tsx";
import { showToast } from "../shell/toasts.tsx";
import { LastDayOfSteps } from "../what-if/of-dialogs.tsx";
import type { UndoOption } from "./history.ts";
import { call, queryText, read } from "../api/client.ts";
import { now } from "../clock.ts";
import { keyWithout } from "../keys/rules.ts";
import { readPolicy } from "../api/rules.ts";

interface UndoDialogProps {
  readonly entry: AuditEntry;
  /** Changes while the dialog is open, when another operator changes the rule. */
  readonly option: UndoOption;
  readonly onClose: () => void;
}

export function UndoDialog({ entry, option, onClose }: UndoDialogProps) {
  const { seq, actor } = entry;
  const step = "step" in option ? option.step : null;
  const send = useMemo(() => undoOfEntries([entry]), [entry]);
  const undo = async (): Promise<void> => {
    const entries = await send();
    showToast({ text: `Undid entry ${seq}.`, action: { label: "Undo", run: undoOfEntries(entries) } });
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
    />
  );
}

/** For example "100 per minute, from the configuration". */
async function readWithout(
  rule: Pick<AuditedRule, "id" | "kind" | "policy" | "keyId">,
  abort: AbortSignal,
): Promise<string> {
  const { policy, keyId } = rule;
  if (keyId === null) {
    const state = await readPolicy(policy, abort);
    return policyWithout(state, rule);
  }
  const [{ rules }, { value: explanation }] = await Promise.all([
    read<RulePage>(`rules${queryText({ policy, id: keyId })}`, abort),
    call<Explanation>("POST", "keys/explain", { body: { policy, id: keyId }, signal: abort }),
  ]);
  return keyWithout({ rules, explanation }, rule, now());
}
