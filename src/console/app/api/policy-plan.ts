/** Changes of the rules of a policy that have one kind. */
import type { Policy, Rule } from "./answers.ts";
import type { PolicyChange } from "./rule-input.ts";
import { isResultOf } from "./rule-plan.ts";

export type PatchedKind = "mode" | "limits" | "allow" | "deny" | "overrides";

/** A policy before and after a change. */
export interface PolicyUpdate {
  readonly before: Policy;
  readonly after: Policy;
}

/** The newest first. */
export const rulesOfKind = ({ rules }: Policy, kind: PatchedKind): readonly Rule[] =>
  rules.filter((rule) => rule.kind === kind);

/** Whether the rules of the kind are what the patch made of those before it. Rules of other kinds may have changed since. */
export function isResultOfPatch({ before, after }: PolicyUpdate, kind: PatchedKind, patch: PolicyChange): boolean {
  const { mode, limits, strategy, overrides, ...term } = patch;
  const [newest = null] = rulesOfKind(before, kind);
  const [rule, ...others] = rulesOfKind(after, kind);
  if (patch[kind] === null) return rule === undefined;
  const entries = kind === "allow" || kind === "deny" ? patch[kind] : undefined;
  const content = {
    ...term,
    kind,
    ...(mode && { mode }),
    ...(limits && { limits }),
    ...(strategy !== undefined && { strategy }),
    ...(overrides && { overrides }),
    ...(entries && { entries }),
  };
  return rule !== undefined && others.length === 0 && isResultOf(newest, content, rule);
}
