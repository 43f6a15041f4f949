/** An object's storage in memory, as the ledger uses it, that counts what Cloudflare bills. */
import type { RowStorage } from "../../src/limiter/object/key-storage.ts";

type Options = Parameters<RowStorage["put"]>[1];

/** As the tests of the limiter count it on storage of the platform. */
interface Written {
  /** Rows put or deleted. */
  rows: number;
  /** Alarms set. */
  alarms: number;
  /** Rows of each put. */
  readonly puts: number[];
  confirmedPuts: number;
  deletedAll: number;
}

export class MemoryStorage implements RowStorage {
  readonly rows = new Map<string, string>();
  readonly written: Written = {
    rows: 0,
    alarms: 0,
    puts: [],
    confirmedPuts: 0,
    deletedAll: 0,
  };
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
      // In the order of their names; those of objects are ASCII.
      const found = [...this.rows]
        .filter(([name]) => name.startsWith(prefix) && name > startAfter)
        .toSorted(([name], [other]) => (name < other ? -1 : 1))
        .slice(0, limit);
      this.rowsRead += found.length;
      return found;
    },
  };

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

  /** The alarm goes too, as it does since the compatibility date 2026-02-24. */
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

  /** The platform's, before it calls the handler of one that has come. */
  async deleteAlarm(): Promise<void> {
    this.alarmAtMs = null;
  }
}
