/** Where a part of a policy comes from: the configuration, or a rule. */
import type { EntriesPart, Policy, Rule } from "../api/answers.ts";
import { CountDown } from "../parts/count-down.tsx";
import { ruleSource, ruleText } from "../parts/rule-text.ts";
import { hrefOf } from "../shell/route.ts";

type SourceOf = Pick<EntriesPart, "source" | "rule">;

const ruleOf = ({ rules }: Policy, { rule }: SourceOf): Rule | undefined => rules.find(({ id }) => id === rule);

/** For example "from a rule by ops, until 22 Nov 2026, 18:30:00". */
export function sourceText(policy: Policy, sourced: SourceOf): string {
  const rule = ruleOf(policy, sourced);
  return rule === undefined ? "from the configuration" : ruleSource(rule);
}

/** The rules that a return to the configuration removes. */
export const removedRules = ({ rules }: Policy, part: "mode" | "limits"): readonly string[] =>
  rules.filter(({ kind }) => kind === part).map((rule) => `This removes the rule by ${rule.actor}: ${ruleText(rule)}.`);

export function Source({ policy, of }: { readonly policy: Policy; readonly of: SourceOf }) {
  const rule = ruleOf(policy, of);
  if (rule === undefined) return <span class="dim">from the configuration</span>;
  return (
    <span class="dim">
      from <a href={hrefOf("audit", { rule: rule.id })}>a rule</a> by {rule.actor}, <End of={rule} />
    </span>
  );
}

/** When a rule ends. */
export const End = ({ of: { expiresAt } }: { readonly of: Pick<Rule, "expiresAt"> }) =>
  expiresAt === null ? <>without an end</> : <CountDown until={expiresAt} />;
