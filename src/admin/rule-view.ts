/** Rules and audit entries as the admin API shows them. */
import type { AuditEntry, Rule } from "../control/protocol.ts";
import type { RollbackProgress } from "../control/history-calls.ts";
import { instantText } from "./context.ts";
import type { AuditedRule, AuditEntryView, RollbackView, RuleView } from "./wire.ts";

/** @param key the plain key; undefined for a caller that does not reveal it */
export const ruleView = (rule: Rule, key?: string | null): RuleView => ({
  ...auditedRule(rule),
  ...(key !== undefined && rule.key !== null && { key }),
  state: rule.state ?? (rule.appliedAtMs === null ? "pending" : "applied"),
  appliedAt: textOrNull(rule.appliedAtMs),
});

/** The view also has the fields of the kind, such as `limits`, as the operator wrote them. */
function auditedRule(rule: Rule): AuditedRule {
  const { id, policy, scope, startsAtMs, expiresAtMs, note, actor, revision } = rule;
  return {
    id,
    policy,
    scope,
    kind: rule.rule.kind,
    keyId: rule.key,
    ...Object(rule.written),
    startsAt: instantText(startsAtMs),
    expiresAt: textOrNull(expiresAtMs),
    note,
    actor,
    revision,
  };
}

export function auditView(entry: AuditEntry): AuditEntryView {
  const { seq, atMs, actor, via, action, policy, key, rule, before, after, note, rollback } = entry;
  return {
    seq,
    at: instantText(atMs),
    actor,
    via,
    action,
    policy,
    keyId: key ?? after?.key ?? before?.key ?? null,
    rule,
    before: before === null ? null : auditedRule(before),
    after: after === null ? null : auditedRule(after),
    note,
    ...(rollback !== undefined && { rollback: { to: rollback.toSeq, from: rollback.untilSeq } }),
  };
}

export const rollbackView = (rollback: RollbackProgress): RollbackView => {
  const { state, toSeq, actor, note, startedAtMs, endedAtMs, total, examined, changed } = rollback;
  return {
    state,
    to: toSeq,
    actor: actor.name,
    note,
    startedAt: instantText(startedAtMs),
    endedAt: textOrNull(endedAtMs),
    total,
    examined,
    changed,
  };
};

const textOrNull = (atMs: number | null): string | null => (atMs === null ? null : instantText(atMs));

export const ruleTag = ({ revision }: Pick<Rule, "revision">): string => `"${revision}"`;
