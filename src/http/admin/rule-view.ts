/** Rules and audit entries as the admin API shows them. */
import type { AuditEntry, Rule } from "../../control/protocol.ts";
import { instantText } from "./context.ts";

export interface RuleView {
  readonly id: string;
  readonly policy: string;
  readonly scope: Rule["scope"];
  readonly kind: Rule["rule"]["kind"];
  /** The id of the key; null for a rule of a policy. */
  readonly keyId: string | null;
  /** The plain key; only for a caller that reveals it, and null when it is not known. */
  readonly key?: string | null;
  readonly state: "pending" | "applied" | "orphan";
  readonly startsAt: string;
  readonly expiresAt: string | null;
  readonly appliedAt: string | null;
  readonly note: string | null;
  readonly actor: string;
  readonly revision: number;
}

/** The view also has the fields of the kind, such as `limits`, as the operator wrote them. */
export function ruleView(rule: Rule, key?: string | null): RuleView {
  const { id, policy, scope, startsAtMs, expiresAtMs, appliedAtMs, note, actor, revision } = rule;
  return {
    id,
    policy,
    scope,
    kind: rule.rule.kind,
    keyId: rule.key,
    ...(key !== undefined && { key }),
    ...Object(rule.written),
    state: rule.state ?? (appliedAtMs === null ? "pending" : "applied"),
    startsAt: instantText(startsAtMs),
    expiresAt: textOrNull(expiresAtMs),
    appliedAt: textOrNull(appliedAtMs),
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
    before: before === null ? null : ruleView(before),
    after: after === null ? null : ruleView(after),
    note,
  };
}

const textOrNull = (atMs: number | null): string | null =>
  atMs === null ? null : instantText(atMs);

export const ruleTag = ({ revision }: Pick<Rule, "revision">): string => `"${revision}"`;
