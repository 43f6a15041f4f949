/** Where a part of a policy comes from: the configuration, or a rule. */
import type { EntriesPart, Policy, Rule } from "../api/answers.ts";
import { CountDown } from "../parts/count-down.tsx";
import { instantText } from "../parts/text.ts";
import { hrefOf } from "../shell/route.ts";

type SourceOf = Pick<EntriesPart, "source" | "rule">;

const ruleOf = ({ rules }: Policy, { rule }: SourceOf): Rule | undefined =>
  rules.find(({ id }) => id === rule);

/** For example "from a rule by ops, until 22 Nov 2026, 18:30:00". */
export function sourceText(policy: Policy, sourced: SourceOf): string {
  const rule = ruleOf(policy, sourced);
  if (rule === undefined) return "from the configuration";
  const { actor, expiresAt } = rule;
  const end = expiresAt === null ? "without an end" : `until ${instantText(expiresAt)}`;
  return `from a rule by ${actor}, ${end}`;
}

/** The state after the end of a rule that replaces all others of its kind. */
export const laterText = (part: string): string => `the ${part} of the configuration again`;

export function Source({ policy, of }: { readonly policy: Policy; readonly of: SourceOf }) {
  const rule = ruleOf(policy, of);
  if (rule === undefined) return <span class="dim">from the configuration</span>;
  return (
    <span class="dim">
      from <a href={hrefOf("audit", { rule: rule.id })}>a rule</a> by {rule.actor},{" "}
      <End of={rule} />
    </span>
  );
}

/** When a rule ends. */
export const End = ({ of: { expiresAt } }: { readonly of: Pick<Rule, "expiresAt"> }) =>
  expiresAt === null ? <>without an end</> : <CountDown until={expiresAt} />;
