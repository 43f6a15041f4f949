/** Undoes changes: the control plane returns the rules of audit entries to what they were, in one step or not at all. */
import type { AuditEntry, AuditPage, UndoResult } from "./answers.ts";
import { readChanges } from "./changes.ts";
import { call, read } from "./client.ts";
import type { PatchedKind, PolicyUpdate } from "./rules.ts";
import type { RuleChange } from "./undo-plan.ts";

type EntryNumbers = readonly Pick<AuditEntry, "seq">[];

/**
 * Returns a function that undoes audit entries, and returns those of the undo, which can be undone in turn. After a lost
 * answer, it can be called again.
 */
export function undoOfEntries(
  entries: EntryNumbers | (() => Promise<EntryNumbers>),
): () => Promise<readonly AuditEntry[]> {
  const idempotencyKey = crypto.randomUUID();
  return async () => {
    const seqs = (typeof entries === "function" ? await entries() : entries).map(({ seq }) => seq);
    const body = { entries: seqs };
    const { value } = await call<UndoResult>("POST", "audit/undo", { body, idempotencyKey });
    readChanges();
    return value.entries;
  };
}

/** Undoes one change of one rule. */
export const undoOf = ({ before, after }: RuleChange): (() => Promise<readonly AuditEntry[]>) =>
  undoOfEntries(() =>
    recentEntries(
      (entry) =>
        entry.rule === (after ?? before)?.id &&
        entry.before?.revision === before?.revision &&
        entry.after?.revision === after?.revision,
    ),
  );

/** Undoes the change of all rules of one kind that a policy had. */
export const undoOfPolicy = (
  { before, after }: PolicyUpdate,
  kind: PatchedKind,
): (() => Promise<readonly AuditEntry[]>) =>
  undoOfEntries(() =>
    recentEntries(
      (entry) =>
        entry.policy === before.name &&
        entry.keyId === null &&
        (entry.after ?? entry.before)?.kind === kind &&
        entry.seq > before.version &&
        entry.seq <= after.version,
    ),
  );

/** @throws Error when there are none */
async function recentEntries(isWanted: (entry: AuditEntry) => boolean): Promise<EntryNumbers> {
  const { entries } = await read<AuditPage>("audit?limit=200");
  const found = entries.filter(isWanted);
  if (found.length === 0) throw new Error("The newest 200 entries of the audit log do not have this change.");
  return found;
}
