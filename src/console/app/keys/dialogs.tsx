/** The dialogs of a key. */
import { useId, useState } from "preact/hooks";
import type { FullLimit, Rule } from "../api/answers.ts";
import { resetKey, type Term } from "../api/rules.ts";
import { now } from "../clock.ts";
import { CountDown } from "../parts/count-down.tsx";
import { Dialog, TermFields } from "../parts/dialog.tsx";
import { ruleText, termMs } from "../parts/rule-text.ts";
import { limitsText, numberText } from "../parts/text.ts";
import { showToast } from "../shell/toasts.tsx";
import { changeOfKey, newRuleOfKey, underRule, withoutRule } from "../what-if/ways.ts";
import {
  afterBoost,
  commonStrategy,
  endText,
  extension,
  factors,
  holdsSlots,
  type KeyDialogProps,
  type KeyRuleContent,
  type KeyState,
  keyWithout,
  laterLimitsRule,
  limitsWithoutRules,
  obstacles,
  type Opened,
  planOf,
  replacedRule,
  replacementNotes,
  scaledLimits,
  type Scaling,
  sourcedLimits,
  termText,
  writtenLimit,
} from "./rules.ts";
import { keyName, referenceTo } from "./known-keys.ts";
import { KeyChangeDialog, KeyEffect, OtherChangesOfKey } from "./change-dialog.tsx";

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
  const notes = [...replacementNotes(replaced), ...obstacles(kind, explanation)];
  return (
    <KeyChangeDialog
      {...{ state, title, onClose }}
      effect={
        <KeyEffect
          {...{ state, term, notes }}
          now={explanation.text[0]}
          then={effect}
          after={keyWithout(state, replaced, now() + (lengthMs ?? 0))}
        />
      }
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

const WithEnd = ({ rule }: { readonly rule: Rule }) => (
  <>
    {ruleText(rule)}, {rule.expiresAt === null ? "no end" : <CountDown until={rule.expiresAt} />}
  </>
);

function ExtendDialog({ rule, state, onClose }: KeyDialogProps & { readonly rule: Rule }) {
  const { current, notes } = currentRule(rule, state);
  const [term, setTerm] = useState<Term>({ for: "1h" });
  const after = keyWithout(state, current, now() + (termMs(term) ?? 0));
  return (
    <KeyChangeDialog
      {...{ state, onClose }}
      title="Change the end of the rule"
      confirm="Change the end"
      isIncomplete={notes.length > 0}
      effect={
        <KeyEffect {...{ state, term, after, notes }} now={<WithEnd rule={current} />} then={ruleText(current)} />
      }
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
function currentRule(rule: Rule, { rules }: KeyState): { current: Rule; notes: readonly string[] } {
  const current = rules.find(({ id }) => id === rule.id);
  return { current: current ?? rule, notes: current === undefined ? [goneNote] : [] };
}

const goneNote = "The rule no longer exists.";

function RemoveDialog({ rule, state, onClose }: KeyDialogProps & { readonly rule: Rule }) {
  const { policy, id } = state;
  const { current, notes } = currentRule(rule, state);
  return (
    <KeyChangeDialog
      {...{ state, onClose }}
      title="Remove the rule"
      confirm="Remove the rule"
      isDangerous
      effect={
        <KeyEffect {...{ state, notes }} now={<WithEnd rule={current} />} then={keyWithout(state, current, now())} />
      }
      lastDay={changeOfKey(state, [
        { title: "Now", decider: withoutRule(state, null) },
        { title: "Then", decider: withoutRule(state, current) },
      ])}
      typed={["remove", rule.id]}
      plan={{ kind: "remove", before: current }}
      done={`Removed from ${keyName(policy.name, id)}: ${ruleText(current)}`}
    />
  );
}

function ResetDialog({ state, onClose }: KeyDialogProps) {
  const { policy, id, explanation, readAgain } = state;
  const used = explanation.limits
    .map((limit) => `${numberText(limit.used ?? 0)} of ${numberText(limit.capacity)} used`)
    .join(" and ");
  const ban = explanation.bannedForMs > 0 ? ", and banned" : "";
  const reset = async (): Promise<void> => {
    await resetKey(policy.name, id);
    readAgain();
    showToast({ text: `Reset the usage of ${keyName(policy.name, id)}` });
  };
  return (
    <Dialog
      title="Reset the usage of the key"
      confirm="Reset the usage"
      isDangerous
      onConfirm={reset}
      onClose={onClose}
    >
      <KeyEffect
        state={state}
        now={`${used}${ban}`}
        then="Nothing used, and no ban. Rules of the key stay."
        notes={["This cannot be undone: the counters are forgotten."]}
      />
      <OtherChangesOfKey policy={policy.name} id={id} />
    </Dialog>
  );
}

/** The choice of the operator. Without a factor, the limits are those of the text. */
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
  // The limits are multiplied as they were when the dialog was opened: a boost by another operator must not be multiplied.
  const [base] = useState(explanation.limitsInEffect);
  const { term, factor, text } = choice;
  const lengthMs = termMs(term);
  const endMs = lengthMs === null ? null : now() + lengthMs;
  const replaced = replacedRule(rules, "limits", endMs);
  const content = contentOf(choice, base, policy.name);
  const isIncomplete = factor === null && text.trim() === "";
  return (
    <KeyChangeDialog
      {...{ state, onClose }}
      title="Boost the key"
      confirm="Boost the key"
      isIncomplete={isIncomplete}
      effect={
        <KeyEffect
          {...{ state, term }}
          now={sourcedLimits(explanation.limitsInEffect, explanation.lines.limitsFrom)}
          then={thenText(choice, base)}
          after={afterText(state, endMs)}
          notes={notesOf(choice, base, state)}
        />
      }
      lastDay={newRuleOfKey(state, isIncomplete ? null : underRule({ ...content, kind: "limits" }, policy))}
      typed={choice}
      plan={planOf(referenceTo(policy.name, id), content, replaced)}
      done={`Boosted ${keyName(policy.name, id)}${termText(term)}`}
    >
      <LimitFields {...{ choice, base }} onChange={setChoice} />
      <TermFields term={term} onChange={(changed) => setChoice({ ...choice, term: changed })} />
    </KeyChangeDialog>
  );
}

function contentOf(choice: BoostChoice, base: readonly FullLimit[], policy: string): KeyRuleContent {
  const { factor, scalesSlots, text, term } = choice;
  if (factor === null) {
    const strategy = commonStrategy(base);
    const limits = text.trim();
    return { kind: "limits", limits, ...(strategy !== undefined && { strategy }), ...term };
  }
  const scaled = scaledLimits(base, { factor, scalesSlots });
  return { kind: "limits", limits: scaled.map((limit) => writtenLimit(limit, policy)), ...term };
}

const scalingOf = ({ factor, scalesSlots }: BoostChoice): Scaling => ({ factor: factor ?? 1, scalesSlots });

function thenText(choice: BoostChoice, base: readonly FullLimit[]): string {
  const { factor, text } = choice;
  if (factor !== null) return limitsText(scaledLimits(base, scalingOf(choice)));
  return text.trim() === "" ? "The limits that you write" : text.trim();
}

function afterText({ rules, explanation }: KeyState, endMs: number | null): string {
  if (endMs === null) return "";
  const later = laterLimitsRule(rules, replacedRule(rules, "limits", endMs), endMs);
  if (later === null) return limitsWithoutRules(explanation);
  return `${ruleText(later)}, from the rule of ${later.actor}, ${endText(later)}`;
}

function notesOf(choice: BoostChoice, base: readonly FullLimit[], { rules, explanation }: KeyState): readonly string[] {
  const { factor, scalesSlots, term } = choice;
  const lengthMs = termMs(term);
  const replaced = replacedRule(rules, "limits", lengthMs === null ? null : now() + lengthMs);
  const keepsSlots = factor !== null && !scalesSlots && base.some(holdsSlots);
  const losesOptions = factor === null && base.some(hasOptions);
  return [
    ...replacementNotes(replaced),
    ...obstacles("limits", explanation),
    ...(keepsSlots ? ["Limits of requests at once stay as they are."] : []),
    ...(losesOptions ? ["Options of the present limits, such as a burst or a time zone, are not kept."] : []),
    ...afterBoost(explanation.limitsWithoutKeyRules, lengthMs),
  ];
}

const hasOptions = ({ burst, timezone, buckets, precision }: FullLimit): boolean =>
  [burst, timezone, buckets, precision].some((option) => option !== undefined);

interface LimitFieldsProps {
  readonly choice: BoostChoice;
  readonly base: readonly FullLimit[];
  readonly onChange: (choice: BoostChoice) => void;
}

function LimitFields({ choice, base, onChange }: LimitFieldsProps) {
  const id = useId();
  const { factor, scalesSlots, text } = choice;
  return (
    <>
      <fieldset class="row">
        <legend>Limits</legend>
        {[...factors, null].map((each) => (
          <label key={each} class="choice">
            <input
              type="radio"
              name={`${id}-factor`}
              checked={factor === each}
              onChange={() => onChange({ ...choice, factor: each })}
            />
            {each === null ? "Other" : `× ${each}`}
          </label>
        ))}
      </fieldset>
      {factor === null && (
        <div class="field">
          <label for={`${id}-limits`}>Other limits</label>
          <input
            id={`${id}-limits`}
            type="text"
            required
            placeholder="100/minute; 5/second"
            value={text}
            onInput={({ currentTarget: { value } }) => onChange({ ...choice, text: value })}
          />
        </div>
      )}
      {factor !== null && base.some(holdsSlots) && (
        <label class="choice">
          <input
            type="checkbox"
            checked={scalesSlots}
            onChange={({ currentTarget: { checked } }) => onChange({ ...choice, scalesSlots: checked })}
          />
          Multiply requests at once, too
        </label>
      )}
    </>
  );
}
