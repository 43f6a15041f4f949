/**
 * A naive reference for how an isolate resolves a key, based on the configuration and the text of the runtime rules.
 */
import type { PolicyFacts } from "./configuration.ts";

/** A policy rule as isolates receive it. */
interface ReceivedRule {
  readonly kind: "mode" | "limits" | "allow" | "deny" | "overrides";
  readonly expiresAtMs?: number;
  readonly mode?: "enforce" | "dry-run" | "off";
  readonly limits?: string;
  readonly entries?: readonly string[];
  readonly overrides?: readonly { readonly key: string; readonly limits: string }[];
}

/** How a key is resolved: the kind, the limit if the key is charged, and whether the policy is a dry run. */
export type Resolved = readonly [kind: "exempt" | "blocked" | "charge", limit: number, isDryRun: boolean];

const numberIn = (limits: string): number => Number.parseInt(limits, 10);

export function resolvedBy(
  facts: PolicyFacts,
  text: string,
  { key, nowMs }: { readonly key: string; readonly nowMs: number },
): Resolved {
  const all = JSON.parse(text) as readonly ReceivedRule[];
  const live = all.filter(({ expiresAtMs }) => expiresAtMs === undefined || expiresAtMs > nowMs);
  const names = (kind: "allow" | "deny"): boolean =>
    live.some((rule) => rule.kind === kind && rule.entries?.includes(key) === true);
  const mode = live.find(({ kind }) => kind === "mode")?.mode ?? "enforce";
  const isDryRun = mode === "dry-run";
  if (mode === "off") return ["exempt", 0, isDryRun];
  if (names("deny")) return ["blocked", 0, isDryRun];
  if (names("allow")) return ["exempt", 0, isDryRun];
  if (facts.deny.includes(key)) return ["blocked", 0, isDryRun];
  if (facts.allow.includes(key)) return ["exempt", 0, isDryRun];
  const overrides = live.flatMap((rule) => (rule.kind === "overrides" ? (rule.overrides ?? []) : []));
  const ruled = overrides.find((override) => override.key === key)?.limits;
  if (ruled !== undefined) return ["charge", numberIn(ruled), isDryRun];
  const configured = facts.overrides[key];
  if (configured !== undefined) return ["charge", configured, isDryRun];
  const limits = live.find(({ kind }) => kind === "limits")?.limits;
  return ["charge", limits === undefined ? facts.limit : numberIn(limits), isDryRun];
}
