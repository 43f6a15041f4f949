/** The dialogs of a key. Each shows its fields, the effect of the change, and what other operators change meanwhile. */
import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import type { AuditPage, FullLimit, RuleView } from "../../../admin/wire.ts";
import { readChanges, useChangesOfKey } from "../api/changes.ts";
import { read } from "../api/client.ts";
import { useRead } from "../api/poll.ts";
import { changeBy, planOf, resetKey, type RuleChange, type RulePlan, type Term, type Undo } from "../api/rules.ts";
import { now } from "../clock.ts";
import { CountDown } from "../parts/count-down.tsx";
import {
  ChangeDialog,
  type ChangeDialogProps,
  Dialog,
  Effect,
  type EffectProps,
  MadeFirst,
  Meanwhile,
  TermFields,
} from "../parts/dialog.tsx";
import { Checkbox, TextArea } from "../parts/fields.tsx";
import { changeText, factorText, ruleText, termMs } from "../parts/rule-text.ts";
import { limitsText, numberText } from "../parts/text.ts";
import { previewOf, useReader } from "../policies/texts.ts";
import { showToast } from "../shell/toasts.tsx";
import { LastDay } from "../what-if/of-dialogs.tsx";
import { type Change, changeOfKey, modeObstacle, newRuleOfKey, underRule, withoutRule } from "../what-if/ways.ts";
import { denialShareText } from "./denials.ts";
import { keyName, referenceTo } from "./known-keys.ts";
import {
  afterBoost,
  commonStrategy,
  endText,
  extension,
  holdsSlots,
  type KeyState,
  keyWithout,
  laterRule,
  limitsWithoutRules,
  obstacles,
  replacedRule,
  replacementNotes,
  scaledLimits,
  termText,
  writtenLimit,
} from "./rules.ts";

export type Opened =
  | { readonly kind: "boost" | "allow" | "block" | "reset" }
  | { readonly kind: "extend" | "remove"; readonly rule: RuleView };

interface KeyDialogProps {
  readonly state: KeyState;
  readonly onClose: () => void;
}

export function OpenedDialog({ opened, ...props }: KeyDialogProps & { readonly opened: Opened }) {
  switch (opened.kind) {
    case "boost":
      return <BoostDialog {...props} />;
    case "allow":
    case "block":
      return <AccessDialog kind={opened.kind} {...props} />;
    case "reset":
      return <ResetDialog {...props} />;
    case "extend":
      return <ExtendDialog rule={opened.rule} {...props} />;
    case "remove":
      return <RemoveDialog rule={opened.rule} {...props} />;
    default:
      return opened satisfies never;
  }
}

interface KeyChangeDialogProps
  extends
    KeyDialogProps,
    Omit<ChangeDialogProps<RuleChange>, "change" | "done" | "onOutdated" | "onClose" | "children"> {
  readonly isIncomplete?: boolean;
  readonly effect: Omit<EffectProps, "concerns">;
  readonly lastDay: Change | null;
  readonly plan: RulePlan;
  readonly done: string;
  readonly children?: ComponentChildren;
}

function KeyChangeDialog(props: KeyChangeDialogProps) {
  const { state, effect, lastDay, plan, done, isIncomplete = false, children, ...dialog } = props;
  const change = changeBy(plan);
  const others = useChangesOfKey(state);
  const undoOf = (made: RuleChange): Undo => {
    const undo = change.undoOf(made);
    return async () => {
      const entries = await undo();
      showToast({ text: `Undone: ${done}` });
      return entries;
    };
  };
  return (
    <ChangeDialog
      {...dialog}
      newer={others}
      change={isIncomplete ? null : { ...change, undoOf }}
      done={() => done}
      onOutdated={(refusal) => (plan.kind === "create" ? Promise.resolve(refusal) : namingOperator(plan.before.id))}
    >
      {children}
      <EffectOnKey {...{ state, effect }} />
      <LastDay change={lastDay} obstacle={modeObstacle(state.policy)} />
      <Meanwhile entries={others} intro={otherChangesIntro} />
    </ChangeDialog>
  );
}

async function namingOperator(rule: string): Promise<Error> {
  const { entries } = await read<AuditPage>("audit?limit=50");
  const newest = entries.find((entry) => entry.rule === rule);
  readChanges();
  const change = newest === undefined ? "Another operator changed the rule" : `${newest.actor} ${changeText(newest)}`;
  return new MadeFirst(`${change}. Your change was not made.`);
}

function EffectOnKey({ state: { policy, id }, effect }: Pick<KeyChangeDialogProps, "state" | "effect">) {
  const share = useRead((abort) => denialShareText(policy, id, abort), [policy.name, id]);
  const concerns = (
    <>
      Key <span class="id">{keyName(policy.name, id)}</span> of policy {policy.name}
      {share !== null && `, with ${share}`}
    </>
  );
  return <Effect {...effect} concerns={concerns} />;
}

const otherChangesIntro = "The rules changed while this dialog was open. The effect above includes it.";

const accessTexts = {
  block: {
    title: "Block the key",
    effect: "Every request of this key is denied with status 403",
    done: "Blocked",
  },
  allow: {
    title: "Allow the key without charge",
    effect: "Every request of this key is allowed and costs nothing",
    done: "Allowed",
  },
} as const;

function AccessDialog({ kind, state, onClose }: KeyDialogProps & { readonly kind: "allow" | "block" }) {
  const { policy, id, explanation, rules } = state;
  const [term, setTerm] = useState<Term>({ for: "1h" });
  const { title, effect, done } = accessTexts[kind];
  const lengthMs = termMs(term);
  const replaced = replacedRule(rules, kind, lengthMs === null ? null : now() + lengthMs);
  return (
    <KeyChangeDialog
      {...{ state, title, onClose }}
      effect={{
        term,
        now: explanation.text[0],
        next: effect,
        after: keyWithout(state, replaced, now() + (lengthMs ?? 0)),
        notes: [...replacementNotes(replaced), ...obstacles(kind, explanation)],
      }}
      lastDay={newRuleOfKey(state, underRule({ kind }, policy))}
      confirm={title}
      isDangerous={kind === "block"}
      typed={[kind, term]}
      plan={planOf(referenceTo(policy.name, id), { kind, ...term }, replaced)}
      done={`${done} ${keyName(policy.name, id)}${termText(term)}`}
    >
      <TermFields term={term} onChange={setTerm} isNoteRequired={kind === "block"} />
    </KeyChangeDialog>
  );
}

const WithEnd = ({ rule }: { readonly rule: RuleView }) => (
  <>
    {ruleText(rule)}, <CountDown until={rule.expiresAt} endless="no end" />
  </>
);

function ExtendDialog({ rule, state, onClose }: KeyDialogProps & { readonly rule: RuleView }) {
  const { current, notes } = currentRule(rule, state);
  const [term, setTerm] = useState<Term>({ for: "1h" });
  return (
    <KeyChangeDialog
      {...{ state, onClose }}
      title="Change the end of the rule"
      confirm="Change the end"
      isIncomplete={notes.length > 0}
      effect={{
        term,
        notes,
        now: <WithEnd rule={current} />,
        next: ruleText(current),
        after: keyWithout(state, current, now() + (termMs(term) ?? 0)),
      }}
      lastDay={changeOfKey(state, [
        { title: "Without the rule", decider: withoutRule(state, current) },
        { title: "With the rule", decider: underRule(current, state.policy) },
      ])}
      typed={["extend", rule.id, term]}
      plan={extension(current, term)}
      done={`${ruleText(current)} of ${keyName(state.policy.name, state.id)} now lasts${term.for === undefined ? " until it is removed" : termText(term).replace(" for", "")}`}
    >
      <TermFields term={term} onChange={setTerm} />
    </KeyChangeDialog>
  );
}

/** The newest revision of a rule, which another operator may have changed or removed since the dialog was opened. */
function currentRule(rule: RuleView, { rules }: KeyState): { current: RuleView; notes: readonly string[] } {
  const current = rules.find(({ id }) => id === rule.id);
  return current === undefined ? { current: rule, notes: ["The rule no longer exists."] } : { current, notes: [] };
}

function RemoveDialog({ rule, state, onClose }: KeyDialogProps & { readonly rule: RuleView }) {
  const { current, notes } = currentRule(rule, state);
  return (
    <KeyChangeDialog
      {...{ state, onClose }}
      title="Remove the rule"
      confirm="Remove the rule"
      isDangerous
      isIncomplete={notes.length > 0}
      effect={{ notes, now: <WithEnd rule={current} />, next: keyWithout(state, current, now()) }}
      lastDay={changeOfKey(state, [
        { title: "Now", decider: withoutRule(state, null) },
        { title: "Then", decider: withoutRule(state, current) },
      ])}
      typed={["remove", rule.id]}
      plan={{ kind: "remove", before: current }}
      done={`Removed from ${keyName(state.policy.name, state.id)}: ${ruleText(current)}`}
    />
  );
}

function ResetDialog({ state, onClose }: KeyDialogProps) {
  const { policy, id, explanation } = state;
  const others = useChangesOfKey(state);
  const used = explanation.limits
    .map((limit) => `${numberText(limit.used ?? 0)} of ${numberText(limit.capacity)} used`)
    .join(" and ");
  const reset = async (): Promise<void> => {
    await resetKey(policy.name, id);
    showToast({ text: `Reset the usage of ${keyName(policy.name, id)}` });
  };
  return (
    <Dialog
      title="Reset the usage of the key"
      confirm="Reset the usage"
      isDangerous
      newer={others}
      onConfirm={reset}
      onClose={onClose}
    >
      <EffectOnKey
        state={state}
        effect={{
          now: explanation.bannedForMs > 0 ? `${used}, and banned` : used,
          next: "Nothing used, and no ban. Rules of the key stay.",
          notes: ["This cannot be undone: the counters are forgotten."],
        }}
      />
      <Meanwhile entries={others} intro={otherChangesIntro} />
    </Dialog>
  );
}

/** The choice of the operator. If `factor` is null, the limits are those of `text`. */
interface BoostChoice {
  readonly factor: number | null;
  readonly scalesSlots: boolean;
  readonly text: string;
  readonly term: Term;
}

const first: BoostChoice = { factor: 2, scalesSlots: false, text: "", term: { for: "10m" } };

function BoostDialog({ state, onClose }: KeyDialogProps) {
  const { policy, id, rules, explanation } = state;
  const [choice, setChoice] = useState(first);
  // The factor applies to the limits at the time when the dialog was opened. A boost that another operator makes
  // meanwhile must not be multiplied.
  const [base] = useState(explanation.limitsInEffect);
  const { term, factor, scalesSlots } = choice;
  const text = choice.text.trim();
  const strategy = commonStrategy(base);
  const other = previewOf(text, strategy ?? "", policy.name, useReader().code);
  const lengthMs = termMs(term);
  const endMs = lengthMs === null ? null : now() + lengthMs;
  const replaced = replacedRule(rules, "limits", endMs);
  const scaled = factor === null ? null : scaledLimits(base, factor, scalesSlots);
  const isIncomplete = scaled === null && other.content === null;
  const boost = factor === null ? `to ${text}` : factorText(factor);
  const content =
    scaled === null
      ? { limits: text, strategy, ...other.content }
      : { limits: scaled.map((limit) => writtenLimit(limit, policy.name)), factor: factor ?? undefined };
  return (
    <KeyChangeDialog
      {...{ state, onClose, isIncomplete }}
      title="Boost the key"
      confirm="Boost the key"
      effect={{
        term,
        now: `${limitsText(explanation.limitsInEffect)}, from ${explanation.lines.limitsFrom}`,
        next:
          scaled === null
            ? text === ""
              ? "The limits that you write"
              : other.effect
            : `${limitsText(scaled)} (${boost})`,
        after: endMs === null ? "" : limitsAfterBoost(state, replaced, endMs),
        notes: [
          ...replacementNotes(replaced),
          ...obstacles("limits", explanation),
          ...notesOnBase(choice, base),
          ...afterBoost(explanation.limitsWithoutKeyRules, lengthMs),
        ],
      }}
      lastDay={newRuleOfKey(state, isIncomplete ? null : underRule({ kind: "limits", ...content }, policy))}
      typed={choice}
      plan={planOf(referenceTo(policy.name, id), { kind: "limits", ...content, ...term }, replaced)}
      done={`Boosted ${keyName(policy.name, id)} ${boost}${termText(term)}`}
    >
      <LimitFields {...{ choice, base }} problem={text === "" ? "" : other.problem} onChange={setChoice} />
      <TermFields term={term} onChange={(changed) => setChoice({ ...choice, term: changed })} />
    </KeyChangeDialog>
  );
}

function limitsAfterBoost({ rules, explanation }: KeyState, replaced: RuleView | null, endMs: number): string {
  const later = laterRule(rules, replaced, endMs, ["limits"]);
  if (later === null) return limitsWithoutRules(explanation);
  return `${ruleText(later)}, from the rule of ${later.actor}, ${endText(later)}`;
}

/** Notes on what a boost does not keep of the present limits, or does not multiply. */
function notesOnBase({ factor, scalesSlots }: BoostChoice, base: readonly FullLimit[]): readonly string[] {
  if (factor === null) {
    return base.some(hasOptions)
      ? ["Options of the present limits, such as a burst or a time zone, are not kept."]
      : [];
  }
  return !scalesSlots && base.some(holdsSlots) ? ["Limits of requests at once stay as they are."] : [];
}

const hasOptions = ({ burst, timezone, buckets, precision }: FullLimit): boolean =>
  [burst, timezone, buckets, precision].some((option) => option !== undefined);

interface LimitFieldsProps {
  readonly choice: BoostChoice;
  readonly base: readonly FullLimit[];
  /** Why the other limits are invalid; "" if they are valid. */
  readonly problem: string;
  readonly onChange: (choice: BoostChoice) => void;
}

function LimitFields({ choice, base, problem, onChange }: LimitFieldsProps) {
  const name = useId();
  const { factor, scalesSlots, text } = choice;
  return (
    <>
      <fieldset class="row">
        <legend>Limits</legend>
        {[2, 5, 10, null].map((each) => (
          <label key={each} class="choice">
            <input
              type="radio"
              name={name}
              checked={factor === each}
              onChange={() => onChange({ ...choice, factor: each })}
            />
            {each === null ? "Other" : factorText(each)}
          </label>
        ))}
      </fieldset>
      {factor === null && (
        <TextArea
          label="Other limits"
          rows={2}
          value={text}
          help="For example 100/minute; 5/second."
          problem={problem}
          onInput={(value) => onChange({ ...choice, text: value })}
        />
      )}
      {factor !== null && base.some(holdsSlots) && (
        <Checkbox
          label="Multiply requests at once, too"
          isChecked={scalesSlots}
          onChange={(isChecked) => onChange({ ...choice, scalesSlots: isChecked })}
        />
      )}
    </>
  );
}
