/** Rolls back rules, and follows a long rollback, which continues after its answer. */
import type { RollbackProgress } from "../api/answers.ts";
import { readChanges } from "../api/changes.ts";
import { call, read } from "../api/client.ts";

const pauseMs = 1_000;

interface LatestRollback {
  readonly rollback: RollbackProgress | null;
}

/**
 * Returns all rules to the state after an audit entry, or with 0 to the state before the first entry.
 * @param onProgress called while the rollback continues
 * @throws Error when another rollback has replaced this one
 */
export async function rollBack(
  to: number,
  note?: string,
  onProgress: (progress: RollbackProgress) => void = () => undefined,
): Promise<void> {
  const body = { to, ...(note !== undefined && { note }) };
  const { value } = await call<RollbackProgress>("POST", "rollback", { body });
  try {
    let progress = value;
    while (progress.state === "running") {
      onProgress(progress);
      // oxlint-disable-next-line no-await-in-loop -- until the rollback has ended
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      // oxlint-disable-next-line no-await-in-loop
      const { rollback } = await read<LatestRollback>("rollback");
      if (rollback?.startedAt !== value.startedAt) {
        throw new Error("Another rollback has replaced this one.");
      }
      progress = rollback;
    }
    if (progress.state === "failed") throw new Error("The rules of a policy would be too large.");
  } finally {
    readChanges();
  }
}
