/** Asks for confirmation of another mode of a policy. The mode of the configuration needs no rule, so its rules are removed. */
import { useState } from "preact/hooks";
import type { Mode, Policy } from "../api/answers.ts";
import { policyChangeBy, type PolicyUpdate, type Term } from "../api/rules.ts";
import { undoOfPolicy } from "../api/undo.ts";
import { Effect, NoteField, TermFields } from "../parts/dialog.tsx";
import { configuredText, modeEffects } from "../parts/rule-text.ts";
import { showToast } from "../shell/toasts.tsx";
import { LastDay } from "../what-if/lazy.tsx";
import { changeOfPolicy, underMode } from "../what-if/ways.ts";
import { ChangeDialog, useShownPolicy } from "./change-dialog.tsx";
import { Concerned } from "./hour.tsx";
import { removedRules, sourceText } from "./source.tsx";

interface ModeDialogProps {
  readonly live: Policy;
  readonly mode: Mode;
  readonly onClose: () => void;
}

export function ModeDialog({ live, mode, onClose }: ModeDialogProps) {
  const isConfigured = mode === live.configured.mode;
  const [term, setTerm] = useState<Term>(isConfigured ? {} : { for: "1h" });
  const shown = useShownPolicy(live);
  const { policy } = shown;
  const { name } = policy;
  const limits = policy.limits.value;
  const change = policyChangeBy(policy, "mode", { mode: isConfigured ? null : mode, ...term });
  const onDone = (update: PolicyUpdate): void => {
    const { after } = update;
    const text = `Policy ${name}: mode ${isConfigured ? configuredText(after, "mode") : mode}.`;
    showToast({ text, action: { label: "Undo", run: undoOfPolicy(update, "mode") } });
  };
  return (
    <ChangeDialog
      title={`Set the mode of ${name} to ${mode}`}
      confirm={`Set to ${mode}`}
      {...{ shown, change, onDone, onClose }}
      typed={term}
      isDangerous={mode === "off"}
    >
      <Effect
        concerns={<Concerned policy={name} />}
        now={`${policy.mode.value}, ${sourceText(policy, policy.mode)}`}
        then={
          isConfigured ? `${configuredText(policy, "mode")}: ${modeEffects[mode]}` : `${mode}: ${modeEffects[mode]}`
        }
        term={term}
        after={configuredText(policy, "mode")}
        notes={isConfigured ? removedRules(policy, "mode") : []}
      />
      {isConfigured ? <NoteField term={term} onChange={setTerm} /> : <TermFields term={term} onChange={setTerm} />}
      <LastDay change={changeOfPolicy(policy, underMode(policy.mode.value, limits), underMode(mode, limits))} />
    </ChangeDialog>
  );
}
