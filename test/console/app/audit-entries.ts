/** Rules and audit entries for tests of the console's logic. */
import type { AuditedRule, AuditEntryView } from "../../../src/admin/wire.ts";

export const startMs = Date.parse("2026-11-22T12:00:00Z");

export const rule = (fields: Partial<AuditedRule> = {}): AuditedRule => ({
  id: "r1",
  policy: "api",
  scope: "policy",
  kind: "mode",
  keyId: null,
  mode: "dry-run",
  startsAt: "2026-11-22T12:00:00.000Z",
  expiresAt: null,
  note: null,
  actor: "ops",
  revision: 1,
  ...fields,
});

/** The policy, the key and the id of the rule that the entry names come from its rule. */
export function entry(fields: Partial<AuditEntryView> & Pick<AuditEntryView, "seq">): AuditEntryView {
  const { before = null, after = null } = fields;
  const own = after ?? before;
  const place = { policy: own?.policy ?? null, keyId: own?.keyId ?? null, rule: own?.id ?? null };
  return {
    at: "2026-11-22T12:00:00.000Z",
    actor: "ops",
    via: "token",
    action: "create",
    note: null,
    ...place,
    before,
    after,
    ...fields,
  };
}
