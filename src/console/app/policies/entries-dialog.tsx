/** Adds entries to a policy as a rule of their own, or changes the entries of a rule. */
import { useState } from "preact/hooks";
import type { PolicyView, RuleView } from "../../../admin/wire.ts";
import { changeBy, planOf, type Term, termOf } from "../api/rules.ts";
import { Effect, TermFields } from "../parts/dialog.tsx";
import { policyWithout, ruleText } from "../parts/rule-text.ts";
import { LastDayOfEntries } from "../what-if/of-dialogs.tsx";
import { Concerned, PolicyChangeDialog, type PolicyDialogProps, sourceText, useShownPolicy } from "./parts.tsx";
import { changedEntries, linesOf, mergeLines, readLines } from "./texts.ts";
import { Checkbox, TextArea } from "../parts/fields.tsx";

export type EntriesKind = "allow" | "deny" | "overrides";

export const entriesOf = ({ entries, overrides }: RuleView): readonly unknown[] => entries ?? overrides ?? [];

interface EntriesDialogProps extends PolicyDialogProps {
  readonly kind: EntriesKind;
  /** The rule whose entries change; null for a new rule. */
  readonly ruleId: string | null;
}

export function EntriesDialog({ live, kind, ruleId, onClose }: EntriesDialogProps) {
  const ruleIn = ({ rules }: PolicyView): RuleView | null => rules.find(({ id }) => id === ruleId) ?? null;
  const textIn = (policy: PolicyView): string => linesOf(entriesIn(ruleIn(policy)));
  const [text, setText] = useState(() => textIn(live));
  const [isTermKept, setIsTermKept] = useState(ruleId !== null);
  const [given, setTerm] = useState<Term>({ for: "1h" });
  const shown = useShownPolicy(live, (before, newer) =>
    setText((typed) => (ruleIn(newer) === null ? typed : mergeLines(textIn(before), typed, textIn(newer)))),
  );
  const { policy } = shown;
  const { name } = policy;
  const rule = ruleIn(policy);
  const term = rule !== null && isTermKept ? termOf(rule) : given;
  const read = readLines(text);
  const entries = "entries" in read ? read.entries : [];
  const content = { kind, ...(kind === "overrides" ? { overrides: entries } : { entries }), ...term };
  const difference = { kind, before: entriesIn(rule), after: entries };
  return (
    <PolicyChangeDialog
      title={ruleId === null ? `Add ${kind} entries to ${name}` : `Change ${kind} entries of ${name}`}
      confirm={ruleId === null ? "Add the entries" : "Change the entries"}
      typed={content}
      change={entries.length === 0 ? null : changeBy(planOf({ policy: name, scope: "policy" }, content, rule))}
      done={({ after }) => `Policy ${name}: ${after === null ? "no rule" : ruleText(after)}.`}
      isDangerous={kind === "deny"}
      {...{ shown, onClose }}
    >
      <TextArea
        label="Entries"
        rows={4}
        value={text}
        help={helpOf(kind, policy.key)}
        problem={"problem" in read ? read.problem : ""}
        onInput={setText}
      />
      {rule !== null && (
        <Checkbox label="Keep the end and the note of the rule" isChecked={isTermKept} onChange={setIsTermKept} />
      )}
      {(rule === null || !isTermKept) && (
        <TermFields term={given} onChange={setTerm} isNoteRequired={kind === "deny"} />
      )}
      <Effect
        concerns={<Concerned policy={name} />}
        now={nowText(policy, rule, kind)}
        next={<Difference {...difference} />}
        term={term}
        after={policyWithout(policy, { kind, id: rule?.id ?? null })}
      />
      <LastDayOfEntries policy={policy} {...difference} />
    </PolicyChangeDialog>
  );
}

const entriesIn = (rule: RuleView | null): readonly unknown[] => (rule === null ? [] : entriesOf(rule));

function nowText(policy: PolicyView, rule: RuleView | null, kind: EntriesKind): string {
  const all = policy[kind].reduce((sum, { count }) => sum + count, 0);
  const ofPolicy = `${all} ${kind} entries in the policy`;
  if (rule === null) return ofPolicy;
  const source = sourceText(policy, { source: "rule", rule: rule.id });
  return `${ofPolicy}; ${entriesOf(rule).length} of them ${source}`;
}

const effects: Readonly<Record<EntriesKind, string>> = {
  allow: "Requests that match are allowed and not charged.",
  deny: "Requests that match are denied with 403.",
  overrides: "Keys that match have these limits in place of those of the policy.",
};

export interface ChangedEntries {
  readonly kind: EntriesKind;
  readonly before: readonly unknown[];
  readonly after: readonly unknown[];
}

function Difference({ before, after, kind }: ChangedEntries) {
  const { added, removed } = changedEntries(before, after);
  if (added.length === 0 && removed.length === 0) return <>the same entries</>;
  return (
    <>
      {added.length > 0 && (
        <>
          added: <ins>{added.join(", ")}</ins>.{" "}
        </>
      )}
      {removed.length > 0 && (
        <>
          removed: <del>{removed.join(", ")}</del>.{" "}
        </>
      )}
      {added.length > 0 && effects[kind]}
    </>
  );
}

function helpOf(kind: EntriesKind, parts: PolicyView["key"]): string {
  if (kind === "overrides") return 'One a line, as JSON: {"key": "partner-42", "limits": "900/minute"}';
  const oneKey = parts.length === 1 ? `a key (${parts.join()})` : `["…", "…"] for ${parts.join(", ")}`;
  return `One a line: an address, a network such as 192.0.2.0/24, or ${oneKey}.`;
}
