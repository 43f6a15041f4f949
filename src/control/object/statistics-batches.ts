/**
 * The numbers of the batches that were counted, by isolate. A batch counts once: isolates send it again until they know that it is
 * stored, and the network may repeat or reorder calls.
 */
import { isNumber, listIn, numberIn, rowsIn } from "./storage.ts";

interface Sender {
  /** The highest number that was counted. */
  newest: number;
  /** Lower numbers that were not counted, as far as they are remembered. */
  missing: readonly number[];
  lastSeenMs: number;
  /** Batches that were closed up to this instant may have been counted before the isolate was forgotten. */
  doubtfulUntilMs: number;
  /** The lowest batch number that is counted but not yet stored; null when every counted batch is stored. */
  firstUnstored: number | null;
}

type SenderRow = readonly [
  isolate: string,
  newest: number,
  lastSeenMs: number,
  doubtfulUntilMs: number,
  missing: readonly number[],
];
export type BatchesState = readonly [forgottenMs: number, senders: readonly SenderRow[]];

/** Isolates that were seen within this time are always remembered. */
const rememberedMs = 600_000;
/** Further isolates are remembered for a day, up to this number in all. */
const mostIdle = 256;
const longestMs = 86_400_000;
const mostMissing = 64;
/** Upper bound on the difference between the transit times of two calls, which shifts the times computed from ages. */
const transitMs = 10_000;

export class CountedBatches {
  /** In the order of `lastSeenMs`. */
  readonly #senders = new Map<string, Sender>();
  /** When the last isolate that was forgotten was last seen. */
  #forgottenMs = Number.NEGATIVE_INFINITY;

  /** @param state the last `toJSON` that was stored */
  constructor(state: BatchesState | undefined) {
    const [forgottenMs, senders] = Array.isArray(state) ? state : [];
    if (numberIn(forgottenMs) > 0) this.#forgottenMs = numberIn(forgottenMs);
    const rows = rowsIn(senders, "string", "number", "number");
    for (const [isolate, newest, lastSeenMs, doubtfulUntilMs, missing] of rows) {
      this.#senders.set(isolate, {
        newest,
        missing: listIn(missing).filter(isNumber),
        lastSeenMs,
        doubtfulUntilMs: numberIn(doubtfulUntilMs),
        firstUnstored: null,
      });
    }
  }

  /** Notes the calls of an isolate. Call this before `count`. */
  see(isolate: string, nowMs: number): void {
    const sender = this.#senders.get(isolate) ?? {
      newest: 0,
      missing: [],
      lastSeenMs: nowMs,
      doubtfulUntilMs: this.#forgottenMs + transitMs,
      firstUnstored: null,
    };
    sender.lastSeenMs = nowMs;
    this.#senders.delete(isolate);
    this.#senders.set(isolate, sender);
    this.#forget(nowMs);
  }

  /**
   * Notes a batch.
   * @param closedAtMs when the isolate closed it
   * @returns whether it must be counted: false when it was, or may have been, counted before
   */
  count(isolate: string, seq: number, closedAtMs: number): boolean {
    const sender = this.#senders.get(isolate);
    if (sender === undefined) return false;
    if (seq > sender.newest) {
      const skipped = Math.min(seq - sender.newest - 1, mostMissing);
      const missing = Array.from({ length: skipped }, (_, index) => seq - skipped + index);
      sender.missing = [...sender.missing, ...missing].slice(-mostMissing);
      sender.newest = seq;
    } else if (sender.missing.includes(seq)) {
      sender.missing = sender.missing.filter((each) => each !== seq);
    } else return false;
    sender.firstUnstored = Math.min(seq, sender.firstUnstored ?? seq);
    return closedAtMs > sender.doubtfulUntilMs;
  }

  /**
   * The isolate's batches up to this number are stored, or no longer exist: each beat has all batches that the isolate
   * still keeps, the oldest first.
   */
  storedSeq(isolate: string): number {
    const sender = this.#senders.get(isolate);
    if (sender === undefined) return 0;
    return sender.firstUnstored === null ? sender.newest : sender.firstUnstored - 1;
  }

  /** Notes that the last `toJSON` was stored. */
  markStored(): void {
    for (const sender of this.#senders.values()) sender.firstUnstored = null;
  }

  toJSON(): BatchesState {
    const senders = [...this.#senders].map(([isolate, each]): SenderRow => {
      const doubtfulUntilMs = Math.max(0, each.doubtfulUntilMs);
      return [isolate, each.newest, each.lastSeenMs, doubtfulUntilMs, each.missing];
    });
    return [Math.max(0, this.#forgottenMs), senders];
  }

  #forget(nowMs: number): void {
    for (const [isolate, { lastSeenMs }] of this.#senders) {
      const idleMs = nowMs - lastSeenMs;
      if (idleMs <= rememberedMs || (this.#senders.size <= mostIdle && idleMs <= longestMs)) break;
      this.#senders.delete(isolate);
      this.#forgottenMs = Math.max(this.#forgottenMs, lastSeenMs);
    }
  }
}
