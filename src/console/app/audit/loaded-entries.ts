/** The audit entries that the page has loaded: the newest ones, without gaps. */
import { batch, computed, signal } from "@preact/signals";
import type { AuditEntryView, AuditPage } from "../../../admin/wire.ts";
import { errorOf } from "../api/client.ts";
import { History } from "./history.ts";

/** Reads a page of the log; null is the cursor of the newest entries. */
export type ReadPage = (cursor: string | null, limit: number) => Promise<AuditPage>;

/**
 * To reach an older entry, the page reads back by at most this many. To reach one that is even older, the operator
 * clicks for each page.
 */
export const mostReached = 5_000;
const pageSize = 100;
/** The longest page that the admin API returns. */
const longPageSize = 200;

export class LoadedEntries {
  /** The newest first; null before the first answer. */
  readonly all = signal<readonly AuditEntryView[] | null>(null);
  readonly history = computed(() => new History(this.all.value ?? []));
  /** The entries around an old one that is out of reach; null while no such entry is shown. */
  readonly excerpt = signal<readonly AuditEntryView[] | null>(null);
  readonly problem = signal<Error | null>(null);
  readonly isLoading = signal(false);
  readonly newest = computed(() => this.all.value?.[0]?.seq ?? 0);
  readonly hasOlder = computed(() => this.#next.value !== null);
  readonly #next = signal<string | null>(null);
  readonly #read: ReadPage;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(reader: ReadPage) {
    this.#read = reader;
  }

  readonly loadNewer = (): Promise<void> => this.#run(() => this.#loadNewer());

  readonly loadOlder = (): Promise<void> => this.#run(() => this.#loadOlderTo(this.#oldest - 1, pageSize));

  /**
   * Reads older entries until an entry is loaded, and the state after it is therefore known.
   * @returns false when the entry is out of reach
   */
  readonly loadTo = (seq: number): Promise<boolean> =>
    this.#run(async () => {
      if (this.all.value === null) await this.#loadNewer();
      if (seq < this.#oldest && this.newest.value - seq > mostReached) return false;
      await this.#loadOlderTo(seq, longPageSize);
      return true;
    });

  /** Loads down to an entry, or reads the entries around it when it is out of reach. */
  readonly show = async (seq: number): Promise<void> => {
    const isReached = await this.loadTo(seq);
    if (isReached) this.excerpt.value = null;
    else await this.#run(() => this.#readAround(seq));
  };

  get #oldest(): number {
    return this.all.value?.at(-1)?.seq ?? 0;
  }

  /** One reading at a time, in the order of the calls. A failure is also kept in `problem`. */
  #run<Value>(act: () => Promise<Value>): Promise<Value> {
    const done = this.#queue.then(async () => {
      this.isLoading.value = true;
      try {
        const value = await act();
        this.problem.value = null;
        return value;
      } catch (error) {
        this.problem.value = errorOf(error);
        throw error;
      } finally {
        this.isLoading.value = false;
      }
    });
    this.#queue = done.catch(() => null);
    return done;
  }

  async #loadNewer(): Promise<void> {
    const known = this.all.value ?? [];
    const newest = known[0]?.seq ?? null;
    const found: AuditEntryView[] = [];
    let cursor: string | null = null;
    do {
      // oxlint-disable-next-line no-await-in-loop -- each page has the cursor of the next one
      const { entries, next } = await this.#read(cursor, pageSize);
      const isFirst = newest === null || (entries[0]?.seq ?? 0) - newest > mostReached;
      if (isFirst) return this.#set(entries, next);
      found.push(...entries.filter(({ seq }) => seq > newest));
      const isJoined = entries.some(({ seq }) => seq <= newest);
      cursor = isJoined ? null : next;
    } while (cursor !== null);
    if (found.length > 0) this.all.value = [...found, ...known];
    return undefined;
  }

  /** Reads older entries down to this one. After a failure, those already read are kept. */
  async #loadOlderTo(seq: number, limit: number): Promise<void> {
    const found = [...(this.all.value ?? [])];
    let next = this.#next.value;
    try {
      while (next !== null && (found.at(-1)?.seq ?? 0) > seq) {
        // oxlint-disable-next-line no-await-in-loop -- each page has the cursor of the next one
        const page = await this.#read(next, limit);
        found.push(...page.entries);
        ({ next } = page);
      }
    } finally {
      if (next !== this.#next.value) this.#set(found, next);
    }
  }

  async #readAround(seq: number): Promise<void> {
    const { entries } = await this.#read(String(seq + pageSize / 2), pageSize);
    this.excerpt.value = entries;
  }

  #set(entries: readonly AuditEntryView[], next: string | null): void {
    batch(() => {
      this.all.value = entries;
      this.#next.value = next;
    });
  }
}
