/** The audit entries that the page has loaded: the newest ones, without gaps. */
import { computed, signal } from "@preact/signals";
import type { AuditEntry, AuditPage } from "../api/answers.ts";

/** Reads a page of the log; null is the cursor of the newest entries. */
export type ReadPage = (cursor: string | null) => Promise<AuditPage>;

export class LoadedEntries {
  /** The newest first; null before the first answer. */
  readonly all = signal<readonly AuditEntry[] | null>(null);
  readonly problem = signal<Error | null>(null);
  readonly isLoading = signal(false);
  readonly newest = computed(() => this.all.value?.[0]?.seq ?? 0);
  /** Whether the log has older entries. */
  readonly hasOlder = computed(() => this.#next.value !== null);
  readonly #next = signal<string | null>(null);
  readonly #read: ReadPage;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(reader: ReadPage) {
    this.#read = reader;
  }

  /** Reads entries that are newer than those loaded. */
  readonly loadNewer = (): Promise<void> => this.#run(() => this.#loadNewer());

  readonly loadOlder = (): Promise<void> => this.#run(() => this.#loadOlder());

  /** Reads older entries until an entry is loaded, and the state after it is therefore known. */
  readonly loadTo = (seq: number): Promise<void> =>
    this.#run(async () => {
      if (this.all.value === null) await this.#loadNewer();
      // oxlint-disable-next-line no-await-in-loop -- each page has the cursor of the next one
      while (this.#next.value !== null && this.#oldest > seq) await this.#loadOlder();
    });

  get #oldest(): number {
    return this.all.value?.at(-1)?.seq ?? 0;
  }

  /** One reading at a time, in the order of the calls. A failure is also kept in `problem`. */
  #run(act: () => Promise<void>): Promise<void> {
    const done = this.#queue.then(async () => {
      this.isLoading.value = true;
      try {
        await act();
        this.problem.value = null;
      } catch (error) {
        this.problem.value = error instanceof Error ? error : new Error(String(error));
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
    const found: AuditEntry[] = [];
    let cursor: string | null = null;
    do {
      // oxlint-disable-next-line no-await-in-loop -- each page has the cursor of the next one
      const { entries, next } = await this.#read(cursor);
      found.push(...entries.filter(({ seq }) => newest === null || seq > newest));
      const isJoined = newest === null || entries.some(({ seq }) => seq <= newest);
      if (newest === null) this.#next.value = next;
      cursor = isJoined ? null : next;
    } while (cursor !== null);
    if (found.length > 0 || this.all.value === null) this.all.value = [...found, ...known];
  }

  async #loadOlder(): Promise<void> {
    if (this.#next.value === null) return;
    const { entries, next } = await this.#read(this.#next.value);
    this.all.value = [...(this.all.value ?? []), ...entries];
    this.#next.value = next;
  }
}
