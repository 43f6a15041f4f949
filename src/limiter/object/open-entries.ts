/**
 * Entries of one key that a later call ends: `settle` ends a reservation, a return ends a slice. An entry has one part for
 * each policy. A part names the limits by which its units were spent or lent.
 */
import { isCount, type Limit, strategies } from "../../strategies/index.ts";
import { isRecord } from "../../validation/problems.ts";

export interface OpenPart {
  readonly policy: string;
  readonly limits: readonly Limit[];
}

export interface OpenEntry {
  readonly id: string;
  readonly parts: readonly OpenPart[];
}

export type PartOf<Entry extends OpenEntry> = Entry["parts"][number];

/** Reservations and slices share this bookkeeping and this form of storage. */
export abstract class OpenEntries<Entry extends OpenEntry> {
  protected readonly entries = new Map<string, Entry>();
  /** No entry ends earlier. May be too early once an entry is taken or renewed. */
  protected earliestEndMs = Number.POSITIVE_INFINITY;
  /** Number of stored entries that this version did not write. */
  refusedCount = 0;

  /** How many fields of a stored entry stand between its id and its parts. */
  protected abstract readonly fieldCount: number;
  protected abstract fieldsOf(entry: Entry): unknown[];
  protected abstract partFieldsOf(part: PartOf<Entry>): unknown[];
  /** Null for fields that this version did not write; the same holds for `partFrom`. */
  protected abstract entryFrom(id: string, fields: readonly unknown[], parts: readonly PartOf<Entry>[]): Entry | null;
  protected abstract partFrom(part: OpenPart, fields: readonly unknown[]): PartOf<Entry> | null;

  /** When the first part of an entry ends. */
  protected abstract endOf(entry: Entry): number;
  /** Keeps sums up to date: `sign` is 1 when an entry was opened, -1 when it was taken. */
  protected abstract count(entry: Entry, sign: 1 | -1): void;

  get isEmpty(): boolean {
    return this.entries.size === 0;
  }

  get(id: string): Entry | null {
    return this.entries.get(id) ?? null;
  }

  open(entry: Entry): void {
    this.entries.set(entry.id, entry);
    this.earliestEndMs = Math.min(this.earliestEndMs, this.endOf(entry));
    this.count(entry, 1);
  }

  /** Removes an entry and returns it, even when its time is up; null if it is not open. */
  take(id: string): Entry | null {
    const entry = this.get(id);
    if (entry === null) return null;
    this.entries.delete(id);
    this.count(entry, -1);
    return entry;
  }

  /** Changes all entries. Removes those for which `change` returns null. */
  protected replace(change: (entry: Entry) => Entry | null): void {
    const before = [...this.entries.values()];
    for (const { id } of before) this.take(id);
    this.earliestEndMs = Number.POSITIVE_INFINITY;
    for (const entry of before) {
      const changed = change(entry);
      if (changed !== null) this.open(changed);
    }
  }

  /**
   * `[lists of limits, …entries]`. An entry is `[id, …fields, …parts]`. A part is `[policy, index of its list, …fields]`,
   * because most entries of a key share their limits.
   */
  snapshot(): unknown[] {
    const lists: (readonly Limit[])[] = [];
    const indexes = new Map<readonly Limit[], number>();
    const indexOf = (limits: readonly Limit[]): number => {
      const index = indexes.get(limits) ?? lists.push(limits) - 1;
      indexes.set(limits, index);
      return index;
    };
    const written = [...this.entries.values()].map((entry) => [
      entry.id,
      ...this.fieldsOf(entry),
      ...entry.parts.map((part) => [part.policy, indexOf(part.limits), ...this.partFieldsOf(part)]),
    ]);
    return [lists, ...written];
  }

  /**
   * Opens the entries in a result of `snapshot`; undefined stands for no entries. Counts and leaves out the entries
   * that are not in the form of `snapshot`.
   */
  read(stored: unknown): this {
    if (stored === undefined) return this;
    const [lists, ...rows]: unknown[] = Array.isArray(stored) ? stored : [null, stored];
    for (const row of rows) {
      const entry = this.#readEntry(row, lists);
      if (entry === null) this.refusedCount++;
      else this.open(entry);
    }
    return this;
  }

  #readEntry(row: unknown, lists: unknown): Entry | null {
    if (!Array.isArray(row)) return null;
    const [id, ...rest]: unknown[] = row;
    const rows = rest.slice(this.fieldCount);
    const parts = rows.flatMap((part) => this.#readPart(part, lists) ?? []);
    if (typeof id !== "string" || parts.length !== rows.length) return null;
    return this.entryFrom(id, rest.slice(0, this.fieldCount), parts);
  }

  #readPart(row: unknown, lists: unknown): PartOf<Entry> | null {
    if (!Array.isArray(row)) return null;
    const [policy, index, ...fields]: unknown[] = row;
    const limits: unknown = Array.isArray(lists) && isCount(index) ? lists[index] : undefined;
    if (typeof policy !== "string" || !isLimits(limits)) return null;
    return this.partFrom({ policy, limits }, fields);
  }
}

export const isLimits = (value: unknown): value is readonly Limit[] =>
  Array.isArray(value) &&
  value.every(
    (limit) =>
      isRecord(limit) &&
      typeof limit["strategy"] === "string" &&
      strategies.has(limit["strategy"]) &&
      isCount(limit["limit"]) &&
      isCount(limit["windowMs"]),
  );
