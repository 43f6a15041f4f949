/** Which batches of which isolates a key has counted: one that is sent again, because its answer was lost, counts once. */
import { isCount } from "../../strategies/index.ts";

/** An isolate tries again every few seconds. What is sent again after this counts twice: too much, never too little. */
const rememberedMs = 60_000;
const mostIsolates = 1_000;
const bytesEach = 120;

interface Counted {
  /** Of an isolate's batches the last: it sends the next only when this is known to be counted. */
  readonly batch: number;
  readonly atMs: number;
}

export class SyncDedup {
  /** By the time of the last one. */
  readonly #ofIsolates = new Map<string, Counted>();

  get sizeBytes(): number {
    return this.#ofIsolates.size * bytesEach;
  }

  get isEmpty(): boolean {
    return this.#ofIsolates.size === 0;
  }

  /** Notes a batch. @returns whether it has not been counted before */
  note(isolate: string, batch: number, nowMs: number): boolean {
    const before = this.#ofIsolates.get(isolate);
    this.#ofIsolates.delete(isolate);
    this.#ofIsolates.set(isolate, { batch: Math.max(batch, before?.batch ?? 0), atMs: nowMs });
    for (const [each, { atMs }] of this.#ofIsolates) {
      if (this.#ofIsolates.size <= mostIsolates && nowMs - atMs < rememberedMs) break;
      this.#ofIsolates.delete(each);
    }
    return batch > (before?.batch ?? 0);
  }

  snapshot(): unknown[] {
    return [...this.#ofIsolates].map(([isolate, { batch, atMs }]) => [isolate, batch, atMs]);
  }

  /** What `snapshot` wrote; anything else is left out. */
  static revived(stored: unknown): SyncDedup {
    const revived = new SyncDedup();
    const written: unknown[] = Array.isArray(stored) ? stored : [];
    for (const each of written) {
      if (!Array.isArray(each)) continue;
      const [isolate, batch, atMs]: unknown[] = each;
      if (typeof isolate !== "string" || !isCount(batch) || !isCount(atMs)) continue;
      revived.#ofIsolates.set(isolate, { batch, atMs });
    }
    return revived;
  }
}
