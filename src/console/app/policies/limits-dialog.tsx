/** Changes the limits of a policy, or uses those of the configuration again. */
import { useState } from "preact/hooks";
import type { FullLimit, Policy, WrittenLimits } from "../api/answers.ts";
import { policyChangeBy, type PolicyUpdate, type Term } from "../api/rules.ts";
import { undoOfPolicy } from "../api/undo.ts";
import { Effect, NoteField, TermFields } from "../parts/dialog.tsx";
import { configuredText } from "../parts/rule-text.ts";
import { showToast } from "../shell/toasts.tsx";
import { LastDay } from "../what-if/of-dialogs.tsx";
import { changeOfPolicy, underLimits, underWritten } from "../what-if/ways.ts";
import { ChangeDialog, type PolicyDialogProps, useShownPolicy } from "./change-dialog.tsx";
import { Concerned, removedRules, sourceText } from "./parts.tsx";
import { editedLimits, limitLine, limitsAsText, type LimitsReader, previewOf, readLimits } from "./texts.ts";
import { lazy } from "../parts/lazy.ts";
import { Select, TextArea } from "../parts/fields.tsx";

const strategies = [
  "fixed-window",
  "sliding-window-counter",
  "sliding-buckets",
  "sliding-log",
  "token-bucket",
  "leaky-bucket",
  "concurrency",
];

const nowText = (policy: Policy): string =>
  `${policy.limits.value.map(limitLine).join("; ")} – ${sourceText(policy, policy.limits)}`;

function onDone(update: PolicyUpdate): void {
  const { after } = update;
  const lines = after.limits.value.map(limitLine).join("; ");
  const run = undoOfPolicy(update, "limits");
  showToast({ text: `Limits of policy ${after.name}: ${lines}.`, action: { label: "Undo", run } });
}

/** @param proposed limits to begin with, in place of those in effect */
export function LimitsDialog({
  live,
  proposed,
  onClose,
}: PolicyDialogProps & { readonly proposed?: readonly FullLimit[] | undefined }) {
  const shown = useShownPolicy(live);
  const { policy } = shown;
  const { name } = policy;
  const [edited] = useState(() => (proposed === undefined ? editedLimits(live) : limitsAsText(proposed, live.name)));
  const [text, setText] = useState(edited.text);
  const [strategy, setStrategy] = useState(edited.strategy);
  const [term, setTerm] = useState<Term>({ for: "1h" });
  const preview = usePreview(text, strategy, name);
  const { content } = preview;
  const current = underLimits(policy.limits.value);
  const change = content === null ? null : policyChangeBy(policy, "limits", { ...content, ...term });
  return (
    <ChangeDialog
      title={`Change the limits of ${name}`}
      confirm="Change the limits"
      typed={{ text, strategy, term }}
      {...{ shown, change, onDone, onClose }}
    >
      <TextArea
        label="Limits"
        rows={text.includes("\n") ? 8 : 2}
        value={text}
        help="For example 100/minute; 1000/hour – or JSON with all fields."
        problem={text === "" ? "" : preview.problem}
        onInput={setText}
      />
      <div class="field">
        <Select
          label="Strategy of limits that name none"
          value={strategy}
          options={[["", "As the policy is configured"], ...strategies]}
          onChange={setStrategy}
        />
      </div>
      <TermFields term={term} onChange={setTerm} />
      <Effect
        concerns={<Concerned policy={name} />}
        now={nowText(policy)}
        then={preview.effect}
        term={term}
        after={configuredText(policy, "limits")}
      />
      <p class="hint">
        A limit keeps its count if its window and its strategy stay. Otherwise it starts at zero. Overrides and limits
        of single keys still take precedence.
      </p>
      <LastDay change={content === null ? null : changeOfPolicy(policy, current, underWritten(content, policy))} />
    </ChangeDialog>
  );
}

interface Preview {
  /** Null while the text has a problem. */
  readonly content: { readonly limits: WrittenLimits; readonly strategy?: string } | null;
  readonly problem: string;
  /** The limits that would be in effect. */
  readonly effect: string;
}

/** Reads the text as the Worker does, once the engine is loaded. Without it, the Worker checks the limits on confirmation. */
function usePreview(text: string, strategy: string, policy: string): Preview {
  const { code: engine } = useReader();
  const read = readLimits(text);
  if ("problem" in read) return { content: null, problem: read.problem, effect: "…" };
  const content = { limits: read.limits, ...(strategy !== "" && { strategy }) };
  const { problem, effect } = previewOf(content, policy, engine);
  return { content: problem === "" ? content : null, problem, effect };
}

const useReader = lazy<LimitsReader>(async () => (await import("./written-limits.ts")).limitsWritten);

/** Removes the rules for the limits. */
export function ConfiguredLimitsDialog({ live, onClose }: PolicyDialogProps) {
  const shown = useShownPolicy(live);
  const [term, setTerm] = useState<Term>({});
  const { policy } = shown;
  const change = policyChangeBy(policy, "limits", { limits: null, ...term });
  return (
    <ChangeDialog
      title={`Use the configured limits of ${policy.name} again`}
      confirm="Use the configuration"
      typed={term}
      {...{ shown, change, onDone, onClose }}
    >
      <Effect
        concerns={<Concerned policy={policy.name} />}
        now={nowText(policy)}
        then={configuredText(policy, "limits")}
        notes={removedRules(policy, "limits")}
      />
      <LastDay
        change={changeOfPolicy(policy, underLimits(policy.limits.value), underLimits(policy.configured.limits))}
      />
      <NoteField term={term} onChange={setTerm} />
    </ChangeDialog>
  );
}
