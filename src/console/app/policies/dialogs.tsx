/** The dialogs of a policy. */
import { useState } from "preact/hooks";
import type { FullLimit, Mode, Policy, Statistics } from "../api/answers.ts";
import { EntriesDialog, type EntriesKind } from "./entries-dialog.tsx";
import { ConfiguredLimitsDialog, LimitsDialog } from "./limits-dialog.tsx";
import { changeBy, policyChangeBy, type PolicyUpdate, type Term } from "../api/rules.ts";
import { Effect, NoteField, TermFields } from "../parts/dialog.tsx";
import { undoOf, undoOfPolicy } from "../api/undo.ts";
import { configuredText, modeEffects, policyWithout, ruleText } from "../parts/rule-text.ts";
import { showToast } from "../shell/toasts.tsx";
import { LastDay } from "../what-if/of-dialogs.tsx";
import { changeOfPolicy, changeOfRules, listObstacle, underMode } from "../what-if/ways.ts";
import { Concerned, LastHour, OpenPolicyDialog, removedRules, sourceText } from "./parts.tsx";
import type { RuleChange } from "../api/undo-plan.ts";
import { ChangeDialog, type PolicyDialogProps, useShownPolicy } from "./change-dialog.tsx";
import type { ComponentChildren } from "preact";
import { usePolled } from "../api/poll.ts";
import { read } from "../api/client.ts";

export type OpenDialog = { readonly policy: string } & (
  | { readonly kind: "mode"; readonly mode: Mode }
  /** `proposed` is shown in place of the limits in effect. */
  | { readonly kind: "limits"; readonly proposed?: readonly FullLimit[] }
  | { readonly kind: "configured-limits" }
  | { readonly kind: "entries"; readonly list: EntriesKind; readonly ruleId: string | null }
  | { readonly kind: "remove"; readonly ruleId: string }
);

const hourPauseMs = 5_000;

interface WithDialogsProps {
  readonly policies: readonly Policy[];
  readonly children: ComponentChildren;
}

/** A part of a page that opens dialogs of policies, with the numbers of the last hour. */
export function WithDialogs({ policies, children }: WithDialogsProps) {
  const hour = usePolled((abort) => read<Statistics>("stats", abort), hourPauseMs);
  const [dialog, setDialog] = useState<OpenDialog | null>(null);
  const live = policies.find(({ name }) => name === dialog?.policy);
  return (
    <LastHour.Provider value={hour.value}>
      <OpenPolicyDialog.Provider value={setDialog}>{children}</OpenPolicyDialog.Provider>
      {dialog !== null && live !== undefined && <PolicyDialog {...{ dialog, live }} onClose={() => setDialog(null)} />}
    </LastHour.Provider>
  );
}

function PolicyDialog({ dialog, ...common }: PolicyDialogProps & { readonly dialog: OpenDialog }) {
  switch (dialog.kind) {
    case "mode":
      return <ModeDialog {...common} mode={dialog.mode} />;
    case "limits":
      return <LimitsDialog {...common} proposed={dialog.proposed} />;
    case "configured-limits":
      return <ConfiguredLimitsDialog {...common} />;
    case "entries":
      return <EntriesDialog {...common} kind={dialog.list} ruleId={dialog.ruleId} />;
    case "remove":
      return <RemoveDialog {...common} ruleId={dialog.ruleId} />;
    default:
      return dialog satisfies never;
  }
}

function ModeDialog({ live, mode, onClose }: PolicyDialogProps & { readonly mode: Mode }) {
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

function RemoveDialog({ live, ruleId, onClose }: PolicyDialogProps & { readonly ruleId: string }) {
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
