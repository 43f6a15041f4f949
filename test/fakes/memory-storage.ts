/** The storage of an object, in memory. It counts what Cloudflare bills. */
import type { RowStorage } from "../../src/limiter/object/key-storage.ts";

type Options = Parameters<RowStorage["put"]>[1];

/** The writes to a storage. */
export interface WriteCounts {
  /** Rows put or deleted. */
  rows: number;
  /** Alarms set. */
  alarms: number;
  /** The number of rows of each put. */
  readonly puts: number[];
  confirmedPuts: number;
  deletedAll: number;
}

const noWrites = (): WriteCounts => ({
  rows: 0,
  alarms: 0,
  puts: [],
  confirmedPuts: 0,
  deletedAll: 0,
});

export class MemoryStorage implements RowStorage {
  readonly rows = new Map<string, string>();
  written = noWrites();
  rowsRead = 0;
  alarmAtMs: number | null = null;

  readonly kv = {
    get: (name: string): string | undefined => {
      this.rowsRead++;
      return this.rows.get(name);
    },
    list: ({
      prefix = "",
      startAfter = "",
      limit = Number.POSITIVE_INFINITY,
    }: {
      prefix?: string;
      startAfter?: string;
      limit?: number;
    }): [string, string][] => {
      // In the order of names. The names of an object's rows are ASCII.
      const found = [...this.rows]
        .filter(([name]) => name.startsWith(prefix) && name > startAfter)
        .toSorted(([name], [other]) => (name < other ? -1 : 1))
        .slice(0, limit);
      this.rowsRead += found.length;
      return found;
    },
  };

  /** Returns counts of the writes from now on. */
  countWrites(): WriteCounts {
    this.written = noWrites();
    return this.written;
  }

  async put(rows: Record<string, string>, { allowUnconfirmed }: Options): Promise<void> {
    const entries = Object.entries(rows);
    this.written.rows += entries.length;
    this.written.puts.push(entries.length);
    if (!allowUnconfirmed) this.written.confirmedPuts++;
    for (const [name, row] of entries) this.rows.set(name, row);
  }

  async delete(names: string[]): Promise<number> {
    this.written.rows += names.length;
    return names.filter((name) => this.rows.delete(name)).length;
  }

  /** Also deletes the alarm, as the platform does since the compatibility date 2026-02-24. */
  async deleteAll(): Promise<void> {
    this.written.deletedAll++;
    this.rows.clear();
    this.alarmAtMs = null;
  }

  async getAlarm(): Promise<number | null> {
    return this.alarmAtMs;
  }

  async setAlarm(atMs: number): Promise<void> {
    this.written.alarms++;
    this.alarmAtMs = atMs;
  }

  /** The platform does this before it calls the handler of an alarm that is due. */
  async deleteAlarm(): Promise<void> {
    this.alarmAtMs = null;
  }
}
