/** The last sync batch of each isolate on a key. A batch that is sent again because its answer was lost counts once. */
import { isCount } from "../../strategies/index.ts";

/** Isolates retry every few seconds. A batch sent again after this counts twice, which never admits too much. */
const rememberedMs = 60_000;
const mostIsolates = 1_000;
const bytesEach = 120;

interface LastBatch {
  /** An isolate sends its next batch only when it knows that this one is counted. */
  readonly batch: number;
  readonly atMs: number;
}

export class SyncDedup {
  /** By isolate, in the order of `atMs`. */
  readonly #last = new Map<string, LastBatch>();

  get sizeBytes(): number {
    return this.#last.size * bytesEach;
  }

  get isEmpty(): boolean {
    return this.#last.size === 0;
  }

  /** Notes a batch. Returns false when it was counted before. */
  note(isolate: string, batch: number, nowMs: number): boolean {
    const before = this.#last.get(isolate)?.batch ?? 0;
    this.#last.delete(isolate);
    this.#last.set(isolate, { batch: Math.max(batch, before), atMs: nowMs });
    for (const [oldest, { atMs }] of this.#last) {
      if (this.#last.size <= mostIsolates && nowMs - atMs < rememberedMs) break;
      this.#last.delete(oldest);
    }
    return batch > before;
  }

  snapshot(): unknown[] {
    return [...this.#last].map(([isolate, { batch, atMs }]) => [isolate, batch, atMs]);
  }

  /** Reads a `snapshot`. Leaves out entries that this version did not write. */
  static revived(stored: unknown): SyncDedup {
    const revived = new SyncDedup();
    const rows: unknown[] = Array.isArray(stored) ? stored : [];
    for (const row of rows) {
      if (!Array.isArray(row)) continue;
      const [isolate, batch, atMs]: unknown[] = row;
      if (typeof isolate !== "string" || !isCount(batch) || !isCount(atMs)) continue;
      revived.#last.set(isolate, { batch, atMs });
    }
    return revived;
  }
}
