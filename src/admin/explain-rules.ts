/** The runtime rules about a key and its policy, as the object, the isolate and the control plane know them. */
import type { PolicyRules, RulesVersion } from "../policy/runtime-rules.ts";
import type { PolicyState, Rule } from "../control/protocol.ts";
import type { KeyRule } from "../limiter/protocol.ts";
import { jsonOrNull } from "../validation/json.ts";
import { asText, isRecord } from "../validation/problems.ts";
import type { ExplainedRule } from "./wire.ts";

/** The rules that the control plane has. */
export interface KnownRules {
  readonly keyRules: readonly Rule[];
  readonly policy: PolicyState;
}

/** A rule that is in effect. */
interface LiveRule {
  readonly id: string;
  readonly kind: string;
  readonly expiresAtMs: number | null;
}

/**
 * The rules in effect, followed by those that only the control plane has yet.
 * @param live null when it is not known which rules are in effect
 */
export function explainedRules(
  live: readonly LiveRule[] | null,
  known: readonly Rule[] | null,
  nowMs: number,
): ExplainedRule[] {
  const byId = new Map((known ?? []).map((rule) => [rule.id, rule]));
  const ids = new Set(live?.map(({ id }) => id));
  const inEffect = (live ?? []).map((each) => rowOf(each, byId.get(each.id), "in-effect", nowMs));
  const others = (known ?? [])
    .filter(({ id, expiresAtMs }) => !ids.has(id) && (expiresAtMs ?? nowMs + 1) > nowMs)
    .map((each) => {
      const { kind } = each.rule;
      return rowOf({ ...each, kind }, each, stateOf(each, live !== null), nowMs);
    });
  return [...inEffect, ...others];
}

/** The state of a rule that is not known to be in effect. @param isKnown whether the rules in effect are known */
function stateOf({ state, appliedAtMs }: Rule, isKnown: boolean): ExplainedRule["state"] {
  if (state === "orphan") return state;
  return isKnown || appliedAtMs === null ? "pending" : "in-effect";
}

const rowOf = (
  { id, kind, expiresAtMs }: LiveRule,
  stored: Rule | undefined,
  state: ExplainedRule["state"],
  nowMs: number,
): ExplainedRule => ({
  id,
  kind,
  expiresInMs: expiresAtMs === null ? null : Math.max(0, expiresAtMs - nowMs),
  state,
  actor: stored?.actor ?? null,
  note: stored?.note ?? null,
});

export const liveKeyRule = ({ id, kind, expiresAtMs }: KeyRule): LiveRule => ({
  id,
  kind,
  expiresAtMs: expiresAtMs ?? null,
});

/** The live rules in the text of a policy's rules, the newest first. */
export function livePolicyRules(rules: PolicyRules | null, nowMs: number): LiveRule[] {
  if (rules === null) return [];
  const parsed = jsonOrNull(rules.text);
  return (Array.isArray(parsed) ? parsed : []).filter(isRecord).flatMap((each) => {
    const { id, kind, expiresAtMs } = each as { readonly [field: string]: unknown };
    const endMs = typeof expiresAtMs === "number" ? expiresAtMs : null;
    if (endMs !== null && endMs <= nowMs) return [];
    return [{ id: asText(id), kind: asText(kind), expiresAtMs: endMs }];
  });
}

/** A version without other fields that its object may have. */
export const versionOnly = (rules: RulesVersion | null | undefined): RulesVersion | null =>
  rules === null || rules === undefined ? null : { epoch: rules.epoch, version: rules.version };
