/** Asks for confirmation of another mode of a policy. */
import { useState } from "preact/hooks";
import type { Mode, Policy } from "../api/answers.ts";
import { changePolicy, type Term } from "../api/rules.ts";
import { undoPolicyChange } from "../api/undo.ts";
import { Effect } from "../parts/effect.tsx";
import { modeEffects } from "../parts/rule-text.ts";
import { NoteField, TermFields } from "../parts/term-fields.tsx";
import { showToast } from "../shell/toasts.tsx";
import { ChangeDialog, useShownPolicy } from "./change-dialog.tsx";
import { Concerned } from "./hour.tsx";
import { laterText, sourceText } from "./source.tsx";

interface ModeDialogProps {
  readonly live: Policy;
  /** Null: the mode of the configuration. */
  readonly mode: Mode | null;
  readonly onClose: () => void;
}

export function ModeDialog({ live, mode, onClose }: ModeDialogProps) {
  const [term, setTerm] = useState<Term>(mode === null ? {} : { for: "1h" });
  const shown = useShownPolicy(live);
  const { policy } = shown;
  const { name } = policy;
  const change = async (before: Policy): Promise<void> => {
    const after = await changePolicy(before, { mode, ...term });
    const text =
      mode === null
        ? `Policy ${name} has the mode of the configuration again: ${after.mode.value}.`
        : `Policy ${name}: mode ${mode}.`;
    const run = (): Promise<unknown> => undoPolicyChange(before, after, "mode");
    showToast({ text, action: { label: "Undo", run } });
  };
  return (
    <ChangeDialog
      title={
        mode === null
          ? `Use the configured mode of ${name} again`
          : `Set the mode of ${name} to ${mode}`
      }
      confirm={mode === null ? "Use the configuration" : `Set to ${mode}`}
      {...{ shown, change, onClose }}
      isDangerous={mode === "off"}
    >
      <Effect
        concerns={<Concerned policy={name} />}
        now={`${policy.mode.value}, ${sourceText(policy, policy.mode)}`}
        then={
          mode === null
            ? "the mode of the configuration, without any rule for the mode"
            : `${mode}: ${modeEffects[mode]}`
        }
        term={term}
        after={laterText("mode")}
      />
      {mode === null ? (
        <NoteField term={term} onChange={setTerm} />
      ) : (
        <TermFields term={term} onChange={setTerm} />
      )}
    </ChangeDialog>
  );
}
