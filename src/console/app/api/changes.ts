/** The newest audit entries, which every view shares: they show what other operators change. */
import { computed, signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { AuditEntryView, AuditPage, PolicyView, RuleView } from "../../../admin/wire.ts";
import { type EntryGroup, groupsOf } from "../parts/entry-groups.ts";
import { read } from "./client.ts";
import { Polling } from "./poll.ts";

/** The changes of other operators appear after this time. The operator's own changes are read at once. */
const pauseMs = 5_000;

/** The newest first. */
export const recentChanges = signal<readonly AuditEntryView[]>([]);

/** Grows with every change by anybody. Views that show rules read them again when it grows. */
export const newestChange = computed(() => recentChanges.value[0]?.seq ?? 0);

let polling: Polling<void> | null = null;

/** Calls `onChange` with every change by anybody while the component is shown. */
export function useChanges(onChange: () => void): void {
  useEffect(() => {
    let known = newestChange.peek();
    return newestChange.subscribe((seq) => {
      if (seq === known) return;
      known = seq;
      onChange();
    });
  }, [onChange]);
}

interface ShownKey {
  readonly policy: PolicyView;
  readonly id: string;
  /** The rules of the key. */
  readonly rules: readonly RuleView[];
}

/** The changes that concern a key since the component was first shown, the newest first. */
export function useChangesOfKey({ policy, id, rules }: ShownKey): readonly AuditEntryView[] {
  const [opened] = useState(() => ({ seq: newestChange.peek(), rules: [...rules, ...policy.rules] }));
  // The page may have read the rules after a change, and the audit log before it.
  const wasShown = ({ rule, after }: AuditEntryView): boolean => {
    const revision = opened.rules.find((each) => each.id === rule)?.revision ?? 0;
    return rule !== null && (after === null ? revision === 0 : revision >= after.revision);
  };
  return recentChanges.value.filter((entry) => {
    const isOfKey = entry.policy === policy.name && (entry.keyId === null || entry.keyId === id);
    return entry.seq > opened.seq && entry.action !== "reveal" && isOfKey && !wasShown(entry);
  });
}

/** Reads the audit log now, such as after a change of one's own. */
export const readChanges = (): void => polling?.readAgain();

/**
 * Starts reading the audit log. Returns a function that stops it.
 * @param onChange gets each change once, the newest first, and a rollback when its first entries have arrived
 */
export function followChanges(onChange: (changes: readonly EntryGroup[]) => void): () => void {
  let newest: number | null = null;
  const started = new Polling(async (abort) => {
    const known = newest;
    if (known !== null) {
      // Most reads find no change, and entries can be long.
      const latest = await read<AuditPage>("audit?limit=1", abort);
      if (known === (latest.entries[0]?.seq ?? 0)) return;
    }
    const { entries } = await read<AuditPage>("audit?limit=50", abort);
    newest = entries[0]?.seq ?? 0;
    recentChanges.value = entries;
    if (known !== null) onChange(groupsOf(entries).filter((group) => group.every(({ seq }) => seq > known)));
  }, pauseMs);
  polling = started;
  started.start();
  return () => started.stop();
}
