/** Rules and audit entries as the admin API shows them. */
import type { AuditEntry, Rule } from "../control/protocol.ts";
import type { RollbackProgress } from "../control/rollback-call.ts";
import { instantText } from "./context.ts";

/** A rule as an entry of the audit has it: without what happens to it afterwards. */
interface AuditedRule {
  readonly id: string;
  readonly policy: string;
  readonly scope: Rule["scope"];
  readonly kind: Rule["rule"]["kind"];
  /** The id of the key; null for a rule of a policy. */
  readonly keyId: string | null;
  readonly startsAt: string;
  readonly expiresAt: string | null;
  readonly note: string | null;
  readonly actor: string;
  readonly revision: number;
}

export interface RuleView extends AuditedRule {
  /** The plain key; only for a caller that reveals it, and null when it is not known. */
  readonly key?: string | null;
  readonly state: "pending" | "applied" | "orphan";
  readonly appliedAt: string | null;
}

export const ruleView = (rule: Rule, key?: string | null): RuleView => ({
  ...auditedRule(rule),
  ...(key !== undefined && { key }),
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

export function auditView(entry: AuditEntry): object {
  const { seq, atMs, actor, via, action, policy, key, rule, before, after, note } = entry;
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
  };
}

export const rollbackView = (rollback: RollbackProgress) => {
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
