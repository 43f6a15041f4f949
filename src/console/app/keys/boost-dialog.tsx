/** Gives a key higher limits for some time. */
import { useId, useState } from "preact/hooks";
import type { FullLimit } from "../api/answers.ts";
import type { Term } from "../api/rules.ts";
import { now } from "../clock.ts";
import { TermFields } from "../parts/dialog.tsx";
import { ruleText, termMs } from "../parts/rule-text.ts";
import { limitsText } from "../parts/text.ts";
import {
  afterBoost,
  endText,
  limitsWithoutRules,
  obstacles,
  replacementNotes,
  sourcedLimits,
  termText,
} from "./effects.ts";
import {
  commonStrategy,
  factors,
  holdsSlots,
  type KeyDialogProps,
  type KeyRuleContent,
  type KeyState,
  laterLimitsRule,
  planOf,
  replacedRule,
  scaledLimits,
  type Scaling,
  writtenLimit,
} from "./rules.ts";
import { newRuleOfKey, underRule } from "../what-if/ways.ts";
import { KeyChangeDialog, KeyEffect } from "./change-dialog.tsx";
import { keyName, referenceTo } from "./known-keys.ts";

/** The choice of the operator. Without a factor, the limits are those of the text. */
interface BoostChoice {
  readonly factor: number | null;
  readonly scalesSlots: boolean;
  readonly text: string;
  readonly term: Term;
}

const first: BoostChoice = { factor: 2, scalesSlots: false, text: "", term: { for: "10m" } };

export function BoostDialog({ state, onClose }: KeyDialogProps) {
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
