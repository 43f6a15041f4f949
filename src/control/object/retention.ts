/** Deletes old audit entries and idempotency keys once a day. */
import type { Meta } from "./meta.ts";
import type { RuleBook } from "./rule-book.ts";
import type { Task } from "./scheduler.ts";

const dayMs = 86_400_000;
/** When a sweep leaves entries for the next one. */
const soonMs = 1_000;

export class Retention implements Task {
  readonly #book: RuleBook;
  readonly #meta: Meta;
  #nextAtMs: number;

  constructor(book: RuleBook, meta: Meta) {
    this.#book = book;
    this.#meta = meta;
    this.#nextAtMs = Number(meta.read("swept") ?? meta.epoch) + dayMs;
  }

  dueAtMs(): number | null {
    // Each change writes an audit entry, so without entries there is nothing to delete.
    return this.#book.audit.lastSeq === 0 ? null : this.#nextAtMs;
  }

  run(nowMs: number): void {
    this.#book.idempotency.sweep(nowMs);
    const isMore = this.#book.audit.sweep(nowMs);
    this.#meta.write("swept", String(nowMs));
    this.#nextAtMs = nowMs + (isMore ? soonMs : dayMs);
  }
}
