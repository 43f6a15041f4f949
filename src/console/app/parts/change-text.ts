/** An audit entry as the rest of a sentence that begins with the actor. */
import type { AuditedRule, AuditEntry } from "../api/answers.ts";
import { placeText, ruleText, writtenLimitsText } from "./rule-text.ts";
import { durationText } from "./text.ts";

/** For example: `blocked key 3f9aQx7p… of policy api for 10 min`. */
export function changeText(entry: AuditEntry): string {
  const { action, at, before, after, policy, keyId, note } = entry;
  const place = placeText(policy, keyId);
  const reason = note === null ? "" : ` (${note})`;
  switch (action) {
    case "create":
      return after === null ? "made a rule" : `${effectText(after, at)}${reason}`;
    case "replace":
      return `${replacementText(entry)}${reason}`;
    case "delete":
      return `removed ${removedText(before)} from ${place}${reason}`;
    case "expire":
      return `ended ${removedText(before)} of ${place}, which expired`;
    case "reset":
      return `reset the usage of ${place}`;
    case "reveal":
      return `revealed ${place}`;
    case "rollback":
      return `rolled back: ${rollbackText(entry)}${reason}`;
    default:
      return action satisfies never;
  }
}

const removedText = (rule: AuditedRule | null): string => (rule === null ? "a rule" : `the rule “${ruleText(rule)}”`);

function replacementText({ at, before, after }: AuditEntry): string {
  if (after === null) return "changed a rule";
  const isSame = before !== null && ruleText(before) === ruleText(after);
  if (!isSame) return `changed a rule: ${effectText(after, at)}`;
  return `changed the end or the note of the rule “${ruleText(after)}” of ${placeOf(after)}`;
}

function rollbackText({ at, before, after }: AuditEntry): string {
  if (after !== null) return effectText(after, at);
  return before === null ? "nothing" : `removed ${removedText(before)} from ${placeOf(before)}`;
}

const placeOf = ({ policy, keyId }: AuditedRule): string => placeText(policy, keyId);

/** The effect of a rule: `set the mode of policy api to dry-run for 1 h`. */
function effectText(rule: AuditedRule, at: string): string {
  const { kind, keyId, expiresAt } = rule;
  const place = placeOf(rule);
  const term = expiresAt === null ? "" : ` for ${durationText(Date.parse(expiresAt) - Date.parse(at))}`;
  switch (kind) {
    case "block":
      return `blocked ${place}${term}`;
    case "allow":
      return keyId === null ? `gave ${place} ${ruleText(rule)}${term}` : `allowed ${place} without charge${term}`;
    case "limits":
      return `set the limits of ${place} to ${writtenLimitsText(rule)}${term}`;
    case "mode":
      return `set the mode of ${place} to ${rule.mode ?? ""}${term}`;
    case "deny":
    case "overrides":
      return `gave ${place} ${ruleText(rule)}${term}`;
    default:
      return kind satisfies never;
  }
}
