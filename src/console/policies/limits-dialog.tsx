/** Changes the limits of a policy, or uses those of the configuration again. */
import { useId, useState } from "preact/hooks";
import type { Policy } from "../api/answers.ts";
import { policyChangeBy } from "../api/conditional-change.ts";
import type { PolicyUpdate } from "../api/policy-plan.ts";
import type { Term } from "../api/rules.ts";
import { undoOfPolicy } from "../api/undo.ts";
import { Effect } from "../parts/effect.tsx";
import { configuredText } from "../parts/in-effect.ts";
import { writtenLimitsText } from "../parts/rule-text.ts";
import { NoteField, TermFields } from "../parts/term-fields.tsx";
import { showToast } from "../shell/toasts.tsx";
import { ChangeDialog, useShownPolicy } from "./change-dialog.tsx";
import { Concerned } from "./hour.tsx";
import { limitLine, readLimits, writtenText } from "./limits-text.ts";
import { removedRules, sourceText } from "./source.tsx";

interface LimitsDialogProps {
  readonly live: Policy;
  readonly onClose: () => void;
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

const nowText = (policy: Policy): string =>
  `${policy.limits.value.map(limitLine).join("; ")} – ${sourceText(policy, policy.limits)}`;

function onDone(update: PolicyUpdate): void {
  const { after } = update;
  const lines = after.limits.value.map(limitLine).join("; ");
  const run = undoOfPolicy(update, "limits");
  showToast({ text: `Limits of policy ${after.name}: ${lines}.`, action: { label: "Undo", run } });
}

export function LimitsDialog({ live, onClose }: LimitsDialogProps) {
  const shown = useShownPolicy(live);
  const { policy } = shown;
  const { name } = policy;
  const [rule] = useState(() => live.rules.find(({ id }) => id === live.limits.rule));
  const [text, setText] = useState(rule === undefined ? "" : writtenText(rule));
  const [strategy, setStrategy] = useState(rule?.strategy ?? "");
  const [term, setTerm] = useState<Term>({ for: "1h" });
  const read = readLimits(text);
  const content =
    "limits" in read ? { limits: read.limits, ...(strategy !== "" && { strategy }) } : null;
  const change =
    content === null ? null : policyChangeBy(policy, "limits", { ...content, ...term });
  return (
    <ChangeDialog
      title={`Change the limits of ${name}`}
      confirm="Change the limits"
      typed={{ text, strategy, term }}
      {...{ shown, change, onDone, onClose }}
    >
      <LimitsField text={text} problem={"problem" in read ? read.problem : ""} setText={setText} />
      <StrategyField strategy={strategy} setStrategy={setStrategy} />
      <TermFields term={term} onChange={setTerm} />
      <Effect
        concerns={<Concerned policy={name} />}
        now={nowText(policy)}
        then={content === null ? "…" : writtenLimitsText(content)}
        term={term}
        after={configuredText(policy, "limits")}
      />
      <p class="hint">
        A limit keeps its count if its window and its strategy stay. Otherwise it starts at zero.
        Overrides and limits of single keys still take precedence.
      </p>
    </ChangeDialog>
  );
}

interface LimitsFieldProps {
  readonly text: string;
  readonly problem: string;
  readonly setText: (text: string) => void;
}

function LimitsField({ text, problem, setText }: LimitsFieldProps) {
  const id = useId();
  const isShown = text !== "" && problem !== "";
  return (
    <div class="field">
      <label for={id}>Limits</label>
      <textarea
        id={id}
        rows={text.includes("\n") ? 8 : 2}
        value={text}
        required
        spellcheck={false}
        aria-describedby={`${id}-help`}
        aria-invalid={isShown}
        onInput={({ currentTarget: { value } }) => setText(value)}
      />
      <p id={`${id}-help`} class={isShown ? "problem" : "hint"}>
        {isShown ? problem : "For example 100/minute; 1000/hour – or JSON with all fields."}
      </p>
    </div>
  );
}

interface StrategyFieldProps {
  readonly strategy: string;
  readonly setStrategy: (strategy: string) => void;
}

function StrategyField({ strategy, setStrategy }: StrategyFieldProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>Strategy of limits that name none</label>
      <select
        id={id}
        value={strategy}
        onChange={({ currentTarget: { value } }) => setStrategy(value)}
      >
        <option value="">As the policy is configured</option>
        {strategies.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </div>
  );
}

/** Removes the rules for the limits. */
export function ConfiguredLimitsDialog({ live, onClose }: LimitsDialogProps) {
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
      <NoteField term={term} onChange={setTerm} />
    </ChangeDialog>
  );
}
