/** A key as it was read last, and the dialog that is open for it. */
import type { Explanation, Policy, Rule } from "../api/answers.ts";

export interface KeyState {
  readonly policy: Policy;
  readonly id: string;
  readonly explanation: Explanation;
  /** The newest first. */
  readonly rules: readonly Rule[];
  readonly readAgain: () => void;
}

export type Opened =
  | { readonly kind: "boost" | "allow" | "block" | "reset" }
  | { readonly kind: "extend" | "remove"; readonly rule: Rule };

export interface KeyDialogProps {
  readonly state: KeyState;
  readonly onClose: () => void;
}
