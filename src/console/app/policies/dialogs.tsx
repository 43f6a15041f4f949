/** The dialogs of a policy. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { FullLimit, PolicyMode, PolicyView, StatisticsView } from "../../../admin/wire.ts";
import { read } from "../api/client.ts";
import { usePolled } from "../api/poll.ts";
import { changeBy, policyChangeBy, type PolicyUpdate, type Term } from "../api/rules.ts";
import { Effect, NoteField, TermFields } from "../parts/dialog.tsx";
import { SelectField, TextArea } from "../parts/fields.tsx";
import { configuredText, modeEffects, policyWithout, removedText, ruleText } from "../parts/rule-text.ts";
import { LastDay } from "../what-if/of-dialogs.tsx";
import { changeOfPolicy, changeOfRules, listObstacle, underLimits, underMode, underWritten } from "../what-if/ways.ts";
import { EntriesDialog, type EntriesKind } from "./entries-dialog.tsx";
import {
  Concerned,
  LastHour,
  OpenPolicyDialog,
  PolicyChangeDialog,
  type PolicyDialogProps,
  removedRules,
  sourceText,
  useShownPolicy,
} from "./parts.tsx";
import { editedLimits, limitsAsText, limitsLine, previewOf, useReader } from "./texts.ts";

export type OpenDialog = { readonly policy: string } & (
  | { readonly kind: "mode"; readonly mode: PolicyMode }
  /** `proposed` is shown in place of the limits in effect. */
  | { readonly kind: "limits"; readonly proposed?: readonly FullLimit[] }
  | { readonly kind: "configured-limits" }
  | { readonly kind: "entries"; readonly list: EntriesKind; readonly ruleId: string | null }
  | { readonly kind: "remove"; readonly ruleId: string }
);

const hourPauseMs = 5_000;

interface WithDialogsProps {
  readonly policies: readonly PolicyView[];
  readonly children: ComponentChildren;
}

/** A part of a page that opens dialogs of policies, with the numbers of the last hour. */
export function WithDialogs({ policies, children }: WithDialogsProps) {
  const hour = usePolled((abort) => read<StatisticsView>("stats", abort), hourPauseMs);
  const [dialog, setDialog] = useState<OpenDialog | null>(null);
  const live = policies.find(({ name }) => name === dialog?.policy);
  return (
    <LastHour.Provider value={hour.value.value}>
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

function ModeDialog({ live, mode, onClose }: PolicyDialogProps & { readonly mode: PolicyMode }) {
  const isConfigured = mode === live.configured.mode;
  const [term, setTerm] = useState<Term>(isConfigured ? {} : { for: "1h" });
  const shown = useShownPolicy(live);
  const { policy } = shown;
  const { name } = policy;
  const limits = policy.limits.value;
  const configured = configuredText(policy, "mode");
  return (
    <PolicyChangeDialog
      title={`Set the mode of ${name} to ${mode}`}
      confirm={`Set to ${mode}`}
      {...{ shown, onClose }}
      typed={term}
      change={policyChangeBy(policy, "mode", { mode: isConfigured ? null : mode, ...term })}
      done={({ after }) => `Policy ${name}: mode ${isConfigured ? configuredText(after, "mode") : mode}.`}
      isDangerous={mode === "off"}
    >
      <Effect
        concerns={<Concerned policy={name} />}
        now={`${policy.mode.value}, ${sourceText(policy, policy.mode)}`}
        next={`${isConfigured ? configured : mode}: ${modeEffects[mode]}`}
        term={term}
        after={configured}
        notes={isConfigured ? removedRules(policy, "mode") : []}
      />
      {isConfigured ? <NoteField term={term} onChange={setTerm} /> : <TermFields term={term} onChange={setTerm} />}
      <LastDay change={changeOfPolicy(policy, underMode(policy.mode.value, limits), underMode(mode, limits))} />
    </PolicyChangeDialog>
  );
}

const strategies = [
  "fixed-window",
  "sliding-window-counter",
  "sliding-buckets",
  "sliding-log",
  "token-bucket",
  "leaky-bucket",
  "concurrency",
];

const limitsNow = (policy: PolicyView): string =>
  `${limitsLine(policy.limits.value)} – ${sourceText(policy, policy.limits)}`;

const limitsChanged = ({ after }: PolicyUpdate): string =>
  `Limits of policy ${after.name}: ${limitsLine(after.limits.value)}.`;

interface LimitsDialogProps extends PolicyDialogProps {
  readonly proposed: readonly FullLimit[] | undefined;
}

function LimitsDialog({ live, proposed, onClose }: LimitsDialogProps) {
  const shown = useShownPolicy(live);
  const { policy } = shown;
  const { name } = policy;
  const [edited] = useState(() => (proposed === undefined ? editedLimits(live) : limitsAsText(proposed, live.name)));
  const [text, setText] = useState(edited.text);
  const [strategy, setStrategy] = useState(edited.strategy);
  const [term, setTerm] = useState<Term>({ for: "1h" });
  // If the engine is not loaded, the Worker checks the limits when the operator confirms.
  const { code: reader } = useReader();
  const { content, problem, effect } = previewOf(text, strategy, name, reader);
  const current = underLimits(policy.limits.value);
  return (
    <PolicyChangeDialog
      title={`Change the limits of ${name}`}
      confirm="Change the limits"
      typed={{ text, strategy, term }}
      change={content === null ? null : policyChangeBy(policy, "limits", { ...content, ...term })}
      done={limitsChanged}
      {...{ shown, onClose }}
    >
      <TextArea
        label="Limits"
        rows={text.includes("\n") ? 8 : 2}
        value={text}
        help="For example 100/minute; 1000/hour – or JSON with all fields."
        problem={text === "" ? "" : problem}
        onInput={setText}
      />
      <SelectField
        label="Strategy of limits that name none"
        value={strategy}
        options={[["", "As the policy is configured"], ...strategies]}
        onChange={setStrategy}
      />
      <TermFields term={term} onChange={setTerm} />
      <Effect
        concerns={<Concerned policy={name} />}
        now={limitsNow(policy)}
        next={effect}
        term={term}
        after={configuredText(policy, "limits")}
      />
      <p class="hint">
        A limit keeps its count if its window and its strategy stay. Otherwise it starts at zero. Overrides and limits
        of single keys still take precedence.
      </p>
      <LastDay change={content === null ? null : changeOfPolicy(policy, current, underWritten(content, policy))} />
    </PolicyChangeDialog>
  );
}

function ConfiguredLimitsDialog({ live, onClose }: PolicyDialogProps) {
  const shown = useShownPolicy(live);
  const [term, setTerm] = useState<Term>({});
  const { policy } = shown;
  const { name, limits, configured } = policy;
  return (
    <PolicyChangeDialog
      title={`Use the configured limits of ${name} again`}
      confirm="Use the configuration"
      typed={term}
      change={policyChangeBy(policy, "limits", { limits: null, ...term })}
      done={limitsChanged}
      {...{ shown, onClose }}
    >
      <Effect
        concerns={<Concerned policy={name} />}
        now={limitsNow(policy)}
        next={configuredText(policy, "limits")}
        notes={removedRules(policy, "limits")}
      />
      <LastDay change={changeOfPolicy(policy, underLimits(limits.value), underLimits(configured.limits))} />
      <NoteField term={term} onChange={setTerm} />
    </PolicyChangeDialog>
  );
}

function RemoveDialog({ live, ruleId, onClose }: PolicyDialogProps & { readonly ruleId: string }) {
  const shown = useShownPolicy(live);
  const { policy } = shown;
  const { name, rules } = policy;
  const rule = rules.find(({ id }) => id === ruleId);
  const others = rules.filter(({ id }) => id !== ruleId);
  return (
    <PolicyChangeDialog
      title={`Remove a rule of ${name}`}
      confirm="Remove the rule"
      typed={ruleId}
      change={rule === undefined ? null : changeBy({ kind: "remove", before: rule })}
      done={({ before }) => `Removed ${removedText(before)} from policy ${name}.`}
      isDangerous
      {...{ shown, onClose }}
    >
      <Effect
        concerns={<Concerned policy={name} />}
        now={rule === undefined ? "the rule no longer exists" : `a rule by ${rule.actor}: ${ruleText(rule)}`}
        next={rule === undefined ? "no change" : policyWithout(policy, rule)}
      />
      {rule !== undefined && (
        <LastDay
          change={changeOfRules(policy, others)}
          {...(rule.kind !== "limits" && rule.kind !== "mode" && { obstacle: listObstacle })}
        />
      )}
    </PolicyChangeDialog>
  );
}
