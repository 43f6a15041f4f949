/** The dialog of a change of a policy that is open. */
import type { FullLimit, Mode, Policy } from "../api/answers.ts";
import { EntriesDialog, type EntriesKind } from "./entries-dialog.tsx";
import { ConfiguredLimitsDialog, LimitsDialog } from "./limits-dialog.tsx";
import { ModeDialog } from "./mode-dialog.tsx";
import { RemoveDialog } from "./remove-dialog.tsx";

export type OpenDialog = { readonly policy: string } & (
  | { readonly kind: "mode"; readonly mode: Mode }
  /** `proposed` is shown in place of the limits in effect. */
  | { readonly kind: "limits"; readonly proposed?: readonly FullLimit[] }
  | { readonly kind: "configured-limits" }
  | { readonly kind: "entries"; readonly list: EntriesKind; readonly ruleId: string | null }
  | { readonly kind: "remove"; readonly ruleId: string }
);

interface PolicyDialogProps {
  readonly dialog: OpenDialog;
  /** The newest state of the policy. */
  readonly live: Policy;
  readonly onClose: () => void;
}

export function PolicyDialog({ dialog, live, onClose }: PolicyDialogProps) {
  const common = { live, onClose };
  switch (dialog.kind) {
    case "mode":
      return <ModeDialog {...common} mode={dialog.mode} />;
    case "limits":
      return <LimitsDialog {...common} proposed={dialog.proposed} />;
    case "configured-limits":
      return <ConfiguredLimitsDialog {...common} />;
    case "entries":
      return <EntriesDialog {...common} kind={dialog.list} ruleId={dialog.ruleId} />;
    case "remove":
      return <RemoveDialog {...common} ruleId={dialog.ruleId} />;
    default:
      return dialog satisfies never;
  }
}
