/** A naive sliding log, which has an entry for each spend. It decides charges whose first limit is a sliding log. */
import type { CheckCall, CheckReply, RefundCall } from "../../../src/limiter/protocol.ts";

interface Entry {
  readonly atMs: number;
  readonly cost: number;
}

export class NaiveLog {
  /** Whether the log is complete: a crash of the object can lose spends. */
  isComplete = true;
  readonly #entries = new Map<string, Entry[]>();

  /**
   * Decides whether each charge is allowed. For charges of other strategies, copies the decision in the reply.
   * @returns null after a crash
   */
  decide({ key, charges }: CheckCall, reply: CheckReply, nowMs: number): readonly boolean[] | null {
    if (!this.isComplete) return null;
    const allowed = charges.map(({ policy, limits, cost }, index) => {
      const [{ limit, windowMs, strategy } = { limit: 0, windowMs: 0, strategy: "" }] = limits;
      if (strategy !== "sliding-log") return reply.decisions[index]?.allowed === true;
      const used = this.#of(key, policy)
        .filter(({ atMs }) => nowMs - atMs < windowMs)
        .reduce((sum, each) => sum + each.cost, 0);
      return used + cost <= limit;
    });
    const isAdmitted = charges.every(({ isDryRun }, index) => isDryRun === true || allowed[index]);
    for (const [index, { policy, cost }] of charges.entries()) {
      if (!isAdmitted || allowed[index] !== true) continue;
      // After the clock steps back, the object books spends at the latest time seen.
      this.#of(key, policy).push({ atMs: reply.spentAtMs[index] ?? nowMs, cost });
    }
    return allowed;
  }

  refund({ key, charges }: RefundCall): void {
    for (const { policy, cost, spentAtMs } of charges) {
      const entries = this.#of(key, policy);
      const index = entries.findIndex((each) => each.atMs === spentAtMs && each.cost === cost);
      if (index >= 0) entries.splice(index, 1);
    }
  }

  #of(key: string, policy: string): Entry[] {
    const name = `${policy} ${key}`;
    const entries = this.#entries.get(name) ?? [];
    this.#entries.set(name, entries);
    return entries;
  }
}
