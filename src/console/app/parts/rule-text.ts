/** Rules, their changes and their terms in words. */
import type { AuditedRule, AuditEntryView, PolicyMode, PolicyView, RuleView, RuleKind } from "../../../admin/wire.ts";
import { countOf, durationText, instantText, limitsText, numberText, shortId } from "./text.ts";
import type { Term } from "../api/rules.ts";

export const modeEffects: Readonly<Record<PolicyMode, string>> = {
  enforce: "requests that exceed the limits are denied",
  "dry-run":
    "requests that exceed the limits are allowed, and counted as would-be denials; deny entries deny nothing either",
  off: "the policy has no effect and counts nothing: no request is limited or denied by it",
};

const shownEntries = 3;

/** For example "limits 20/minute" or "2 deny entries: 192.0.2.7, 198.51.100.0/24". */
export function ruleText(rule: AuditedRule): string {
  const { kind, keyId, mode = "enforce", entries = [], overrides = [] } = rule;
  switch (kind) {
    case "block":
      return "block";
    case "allow":
      return keyId === null ? entriesText(entries, "allow entry", entryNames.allow) : "allow without charge";
    case "deny":
      return entriesText(entries, "deny entry", entryNames.deny);
    case "overrides":
      return entriesText(overrides, "override", entryNames.overrides);
    case "limits":
      return `limits ${writtenLimitsText(rule)}`;
    case "mode":
      return `mode ${mode}`;
    default:
      return kind satisfies never;
  }
}

const entryNames = { allow: "allow entries", deny: "deny entries", overrides: "overrides" } as const;

function entriesText(list: readonly unknown[], one: string, many: string): string {
  const first = list.slice(0, shownEntries).map(entryText).join(", ");
  const more = list.length - shownEntries;
  return `${countOf(list.length, one, many)}: ${first}${more > 0 ? ` and ${more} more` : ""}`;
}

/** An entry as an operator writes it on a line: a text, or JSON. */
export function entryText(entry: unknown): string {
  const isPlain = typeof entry === "string" && !/^\s*["[{]|\n|^\s|\s$|^$/.test(entry);
  return isPlain ? entry : JSON.stringify(entry);
}

/** For example "20/minute; 100/hour, token-bucket", or "200/minute (2x)" for a boost. */
export function writtenLimitsText(rule: Pick<AuditedRule, "limits" | "strategy" | "factor">): string {
  const { limits, strategy, factor } = rule;
  const list = Array.isArray(limits) ? limits : [limits];
  const text = list.map((limit) => (typeof limit === "string" ? limit : tableText(limit)));
  const boost = factor === undefined ? "" : ` (${factorText(factor)})`;
  return `${text.join("; ")}${strategy === undefined ? "" : `, ${strategy}`}${boost}`;
}

/** The label of a boost: "2x". */
export const factorText = (factor: number): string => `${factor}x`;

/** For example "20/1m, token-bucket, burst 40". */
const tableText = (limit: unknown): string => {
  const { limit: units, window, strategy, ...options }: Record<string, unknown> = { ...Object(limit) };
  const named = Object.entries(options).map(([name, value]) => `${name} ${String(value)}`);
  const parts = [`${String(units)}/${String(window)}`, ...(typeof strategy === "string" ? [strategy] : [])];
  return [...parts, ...named].join(", ");
};

/** The policy or the key that a rule or a change applies to. */
export function placeText({ policy, keyId }: Pick<AuditEntryView, "policy" | "keyId">): string {
  const ofPolicy = policy === null ? "a policy" : `policy ${policy}`;
  return keyId === null ? ofPolicy : `key ${shortId(keyId)} of ${ofPolicy}`;
}

/** For example: `blocked key 3f9aQx7p… of policy api for 10 min`. */
export function changeText(entry: AuditEntryView): string {
  const { action, at, before, after, note } = entry;
  const place = placeText(entry);
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
    case "record":
      return `recorded ${place} for an hour`;
    case "stop-recording":
      return `stopped the recording of ${place}`;
    case "reveal":
      return `revealed ${place}`;
    case "rollback":
      return `rolled back: ${rollbackText(entry)}${reason}`;
    default:
      return action satisfies never;
  }
}

/** The first words of `changeText`, such as "blocked" or "set the limits", by which entries are filtered. */
export const actionText = (entry: AuditEntryView): string =>
  /^(?:set the \w+|rolled back|stopped the recording|\w+)/.exec(changeText(entry))?.[0] ?? entry.action;

export const removedText = (rule: AuditedRule | null): string =>
  rule === null ? "a rule" : `the rule “${ruleText(rule)}”`;

function replacementText({ at, before, after }: AuditEntryView): string {
  if (after === null) return "changed a rule";
  const isSame = before !== null && ruleText(before) === ruleText(after);
  if (!isSame) return `changed a rule: ${effectText(after, at)}`;
  return `changed the end or the note of the rule “${ruleText(after)}” of ${placeText(after)}`;
}

function rollbackText({ at, before, after }: AuditEntryView): string {
  if (after !== null) return effectText(after, at);
  return before === null ? "nothing" : `removed ${removedText(before)} from ${placeText(before)}`;
}

/** The effect of a rule: `set the mode of policy api to dry-run for 1 h`. */
function effectText(rule: AuditedRule, at: string): string {
  const { kind, keyId, expiresAt } = rule;
  const place = placeText(rule);
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

const untilText = ({ expiresAt }: Pick<RuleView, "expiresAt">): string =>
  expiresAt === null ? "without an end" : `until ${instantText(expiresAt)}`;

/** For example "api: mode dry-run, until 22 Nov 2026, 18:30:00". */
export const stateText = (rule: AuditedRule): string => `${ruleText(rule)}, ${untilText(rule)}`;

/** For example "from a rule by ops, until 22 Nov 2026, 18:30:00". */
export function ruleSource({ actor, expiresAt }: Pick<RuleView, "actor" | "expiresAt">): string {
  return `from a rule by ${actor}, ${untilText({ expiresAt })}`;
}

/**
 * When the newest change of a rule was made; null when the answer does not say. The first change starts the rule. Each
 * change of a policy's rule applies it again. The answer does not say when a key's rule was changed: it is applied when
 * the object of the key confirms it.
 */
export function changedAt({ keyId, revision, startsAt, appliedAt }: RuleView): string | null {
  if (revision === 1) return startsAt;
  return keyId === null ? appliedAt : null;
}

/** For example "by alice, since 22 Nov 2026, 18:30:00". */
export function authorText(rule: RuleView): string {
  const at = changedAt(rule);
  return `by ${rule.actor}${at === null ? "" : `, since ${instantText(at)}`}`;
}

/** For example "enforce, from the configuration". */
export const configuredText = ({ configured }: PolicyView, part: "mode" | "limits"): string =>
  `${part === "mode" ? configured.mode : limitsText(configured.limits)}, from the configuration`;

/**
 * The state without the rule, for example "enforce, from the configuration" or "without these entries; 3 other
 * deny entries stay".
 * @param rule its id is null for a rule that does not exist yet
 */
export function policyWithout(
  policy: PolicyView,
  { kind, id }: { readonly kind: RuleKind; readonly id: string | null },
): string {
  if (kind === "mode" || kind === "limits") {
    const next = policy.rules.find((rule) => rule.kind === kind && rule.id !== id && !isRefused(policy, rule));
    return next === undefined ? configuredText(policy, kind) : `${ruleText(next)}, ${ruleSource(next)}`;
  }
  if (kind === "block") throw new Error("expected a rule of a policy, got a block");
  const others = policy[kind].filter(({ rule }) => rule !== id).reduce((sum, { count }) => sum + count, 0);
  const name = entryNames[kind];
  return others === 0 ? `no ${name}` : `without these entries; ${numberText(others)} other ${name} stay`;
}

const isRefused = ({ refused }: PolicyView, { id }: RuleView): boolean => refused.some(({ rule }) => rule === id);

const minuteMs = 60_000;
const dayMs = 86_400_000;

export const durations = [
  ["10m", "10 minutes", 10 * minuteMs],
  ["1h", "1 hour", 60 * minuteMs],
  ["1d", "1 day", dayMs],
  ["7d", "7 days", 7 * dayMs],
  ["30d", "30 days", 30 * dayMs],
  ["", "Until it is removed", null],
] as const;

export const termMs = (term: Term): number | null =>
  durations.find(([value]) => value === (term.for ?? ""))?.[2] ?? null;
