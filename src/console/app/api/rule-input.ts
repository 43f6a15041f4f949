/** Changes of rules as the admin API reads them. */
import type { Mode, Rule, RuleKind, WrittenLimits } from "./answers.ts";

/** How long a change lasts, and why it is made. */
export interface Term {
  /** A duration such as `10m`; absent for a change without an end. */
  readonly for?: string;
  /** The instant at which it ends, in place of `for`. */
  readonly expiresAt?: string;
  readonly note?: string;
}

export interface NewRule extends Term {
  readonly policy: string;
  readonly kind: RuleKind;
  /** Required for limits and allow entries of a whole policy. */
  readonly scope?: Rule["scope"];
  /** The id of a key, for a rule of one key. */
  readonly id?: string;
  /** The plain key, for a rule of one key. */
  readonly key?: string | readonly (string | null)[];
  /** The tenant of the plain key. */
  readonly tenant?: string;
  readonly limits?: WrittenLimits;
  readonly strategy?: string;
  readonly mode?: Mode;
  readonly entries?: readonly unknown[];
  readonly overrides?: readonly unknown[];
}

/** The key of a new rule, as a call names it. */
export type KeyReference = Pick<NewRule, "policy" | "id" | "key" | "tenant">;

/** The fields that a call can change in a rule: its policy and its key stay. */
export type RuleContent = Omit<NewRule, "policy" | "scope" | "id" | "key" | "tenant">;

export interface PolicyChange extends Term {
  readonly mode?: Mode | null;
  readonly limits?: WrittenLimits | null;
  readonly strategy?: string;
  readonly allow?: readonly unknown[] | null;
  readonly deny?: readonly unknown[] | null;
  readonly overrides?: readonly unknown[] | null;
}
