/** Asks for confirmation of the removal of a rule of a policy. */
import type { Policy } from "../api/answers.ts";
import { changeBy } from "../api/rules.ts";
import { undoOf } from "../api/undo.ts";
import type { RuleChange } from "../api/undo-plan.ts";
import { Effect } from "../parts/dialog.tsx";
import { policyWithout, ruleText } from "../parts/rule-text.ts";
import { showToast } from "../shell/toasts.tsx";
import { changeOfRules } from "../what-if/after-rules.ts";
import { LastDay } from "../what-if/lazy.tsx";
import { listObstacle } from "../what-if/ways.ts";
import { ChangeDialog, useShownPolicy } from "./change-dialog.tsx";
import { Concerned } from "./hour.tsx";

interface RemoveDialogProps {
  readonly live: Policy;
  readonly ruleId: string;
  readonly onClose: () => void;
}

export function RemoveDialog({ live, ruleId, onClose }: RemoveDialogProps) {
  const shown = useShownPolicy(live);
  const { name, rules } = shown.policy;
  const rule = rules.find(({ id }) => id === ruleId);
  const change = rule === undefined ? null : changeBy({ kind: "remove", before: rule });
  const onDone = (removal: RuleChange): void => {
    const { before } = removal;
    if (before === null) return;
    const text = `Removed the rule “${ruleText(before)}” from policy ${name}.`;
    showToast({ text, action: { label: "Undo", run: undoOf(removal) } });
  };
  return (
    <ChangeDialog
      title={`Remove a rule of ${name}`}
      confirm="Remove the rule"
      typed={ruleId}
      isDangerous
      {...{ shown, change, onDone, onClose }}
    >
      <Effect
        concerns={<Concerned policy={name} />}
        now={rule === undefined ? "the rule no longer exists" : `a rule by ${rule.actor}: ${ruleText(rule)}`}
        then={rule === undefined ? "no change" : policyWithout(shown.policy, rule)}
      />
      {rule !== undefined && (
        <LastDay
          change={changeOfRules(
            shown.policy,
            rules.filter(({ id }) => id !== ruleId),
          )}
          {...(rule.kind !== "limits" && rule.kind !== "mode" && { obstacle: listObstacle })}
        />
      )}
    </ChangeDialog>
  );
}
