/** Shows what other operators change, while one works. */
import type { AuditEntry } from "../api/answers.ts";
import { changeText } from "../parts/change-text.ts";
import { session } from "./session.ts";
import { showToast } from "./toasts.tsx";

/** @param entries the newest first */
export function announceChanges(entries: readonly AuditEntry[]): void {
  const { value } = session;
  const own = value.kind === "signed-in" ? value.operator.name : null;
  for (const entry of entries.toReversed()) {
    if (entry.actor === own || entry.action === "reveal") continue;
    showToast({ text: `${entry.actor} ${changeText(entry)}`, kind: "news" });
  }
}
