/** The denials that the view "Live" shows: the newest ones that match the filter, in bounded memory. */
import type { Outcome, TailEntry } from "../api/answers.ts";

export interface TailFilter {
  readonly policy: string | null;
  readonly outcome: Outcome | null;
  /** The beginning of the id of a key; empty for all keys. */
  readonly key: string;
}

export interface TailRow extends TailEntry {
  /** From 1, in the order of arrival. */
  readonly number: number;
}

export const mostDenials = 500;

export const isListed = (entry: TailEntry, { policy, outcome, key }: TailFilter): boolean =>
  (policy === null || entry.policy === policy) &&
  (outcome === null || entry.outcome === outcome) &&
  entry.key.startsWith(key);

export class TailLog {
  /** All denials that have arrived. */
  received = 0;
  /** The newest first. They stay as they are while paused. */
  rows: readonly TailRow[] = [];
  /** The newest first: those that arrived while paused. */
  waiting: readonly TailRow[] = [];
  /** The number of those that arrived while paused and match, also of those that are not kept. */
  waitingCount = 0;
  #filter: TailFilter;
  #isPaused = false;

  constructor(filter: TailFilter) {
    this.#filter = filter;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Keeps those that match, so that a flood of one policy does not remove the rows of another that is watched. */
  add(entries: readonly TailEntry[]): void {
    const numbered = entries.map((entry, index) => ({
      ...entry,
      number: this.received + index + 1,
    }));
    this.received += entries.length;
    const matching = numbered.filter((entry) => isListed(entry, this.#filter));
    if (this.#isPaused) {
      this.waitingCount += matching.length;
      this.waiting = newest(matching, this.waiting);
    } else {
      this.rows = newest(matching, this.rows);
    }
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.rows = [...this.waiting, ...this.rows].slice(0, mostDenials);
    this.waiting = [];
    this.waitingCount = 0;
  }

  /** Removes the rows that do not match. Those that a former filter removed do not come back. */
  filter(filter: TailFilter): void {
    this.#filter = filter;
    this.rows = this.rows.filter((row) => isListed(row, filter));
    this.waiting = this.waiting.filter((row) => isListed(row, filter));
    this.waitingCount = this.waiting.length;
  }
}

/** A message has denials of several moments, and messages of isolates overlap: rows have the order of arrival. */
const newest = (added: readonly TailRow[], rows: readonly TailRow[]): readonly TailRow[] =>
  added.length === 0 ? rows : [...added.toReversed(), ...rows].slice(0, mostDenials);
