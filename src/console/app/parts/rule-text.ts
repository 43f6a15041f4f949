/** Rules and their parts in words. */
import type { AuditedRule, Mode, WrittenLimits } from "../api/answers.ts";
import { numberText, shortId } from "./text.ts";

/** The effect of each mode on requests. */
export const modeEffects: Readonly<Record<Mode, string>> = {
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
      return keyId === null ? entriesText("allow entr", entries) : "allow without charge";
    case "deny":
      return entriesText("deny entr", entries);
    case "overrides":
      return entriesText("overrid", overrides, "e", "es");
    case "limits":
      return `limits ${writtenLimitsText(rule)}`;
    case "mode":
      return `mode ${mode}`;
    default:
      return kind satisfies never;
  }
}

function entriesText(stem: string, list: readonly unknown[], one = "y", many = "ies"): string {
  const first = list.slice(0, shownEntries).map(entryText).join(", ");
  const more = list.length - shownEntries;
  const rest = more > 0 ? ` and ${more} more` : "";
  return `${numberText(list.length)} ${stem}${list.length === 1 ? one : many}: ${first}${rest}`;
}

/** An entry as an operator writes it on a line: a text, or JSON. */
export function entryText(entry: unknown): string {
  const isPlain = typeof entry === "string" && !/^\s*["[{]|\n|^\s|\s$|^$/.test(entry);
  return isPlain ? entry : JSON.stringify(entry);
}

/** For example "20/minute; 100/hour, token-bucket". */
export function writtenLimitsText({
  limits,
  strategy,
}: {
  readonly limits?: WrittenLimits;
  readonly strategy?: string;
}): string {
  const list = Array.isArray(limits) ? limits : [limits];
  const text = list.map((limit) => (typeof limit === "string" ? limit : tableText(limit)));
  return text.join("; ") + (strategy === undefined ? "" : `, ${strategy}`);
}

/** For example "20/1m, token-bucket, burst 40". */
const tableText = (limit: unknown): string => {
  const { limit: units, window, strategy, ...options }: Record<string, unknown> = { ...Object(limit) };
  const named = Object.entries(options).map(([name, value]) => `${name} ${String(value)}`);
  const parts = [`${String(units)}/${String(window)}`, ...(typeof strategy === "string" ? [strategy] : [])];
  return [...parts, ...named].join(", ");
};

/** The policy or the key that a rule applies to. */
export const placeText = (policy: string | null, keyId: string | null): string => {
  const ofPolicy = policy === null ? "a policy" : `policy ${policy}`;
  return keyId === null ? ofPolicy : `key ${shortId(keyId)} of ${ofPolicy}`;
};
