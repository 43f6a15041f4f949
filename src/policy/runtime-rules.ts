/** Runtime rules: changes of the policies in effect, made in the control plane without a deployment. */

/**
 * Orders the states of a policy's runtime rules. The state with the later epoch is newer; within an epoch, the one
 * with the higher version.
 */
export interface RulesVersion {
  /** When the control plane was created, in milliseconds since the Unix epoch; 0 before an isolate knows of one. */
  readonly epoch: number;
  /** Grows with each change of the policy's rules; 0 before the first one. */
  readonly version: number;
}

/** The runtime rules of one policy. */
export interface PolicyRules extends RulesVersion {
  /** JSON of `PolicyRule[]`, the newest first; `[]` without rules. */
  readonly text: string;
}

export const policyModes = ["enforce", "dry-run", "off"] as const;
export type PolicyMode = (typeof policyModes)[number];

export const modeOf = ({ isOff, isDryRun }: { readonly isOff: boolean; readonly isDryRun: boolean }): PolicyMode =>
  isOff ? "off" : isDryRun ? "dry-run" : "enforce";

/** A runtime rule of one policy. Its fields have the forms of the configuration. */
export type PolicyRule = {
  readonly id: string;
  /** Milliseconds since the Unix epoch, by the clock of the isolate. Default: the rule does not expire. */
  readonly expiresAtMs?: number;
} & (
  | { readonly kind: "mode"; readonly mode: PolicyMode }
  | { readonly kind: "limits"; readonly limits: unknown; readonly strategy?: string }
  | { readonly kind: "allow" | "deny"; readonly entries: readonly unknown[] }
  | { readonly kind: "overrides"; readonly overrides: readonly unknown[] }
);

/** The runtime rule that an entry comes from. */
export interface RuleEntry {
  /** The id of the rule. */
  readonly rule: string;
  /** The position of the entry in the rule. */
  readonly index: number;
}

/** Negative when `one` is older than `other`, 0 when they are the same. */
export const compareVersions = (one: RulesVersion, other: RulesVersion): number =>
  one.epoch - other.epoch || one.version - other.version;
