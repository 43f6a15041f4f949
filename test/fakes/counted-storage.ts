/** A storage in memory that counts the operations for which Cloudflare bills. */
import { MemoryStorage } from "../../src/sdk/testing/memory-storage.ts";

/** The writes to a storage. */
export interface WriteCounts {
  /** Rows put or deleted. */
  rows: number;
  /** How often an alarm was set. */
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

export class CountedStorage extends MemoryStorage {
  written = noWrites();
  rowsRead = 0;

  /** Starts new counts of the writes, and returns them. */
  countWrites(): WriteCounts {
    this.written = noWrites();
    return this.written;
  }

  override put(
    rows: Record<string, string>,
    { allowUnconfirmed }: { readonly allowUnconfirmed: boolean },
  ): Promise<void> {
    const { length } = Object.keys(rows);
    this.written.rows += length;
    this.written.puts.push(length);
    if (!allowUnconfirmed) this.written.confirmedPuts++;
    return super.put(rows);
  }

  override delete(names: string[]): Promise<number> {
    this.written.rows += names.length;
    return super.delete(names);
  }

  override deleteAll(): Promise<void> {
    this.written.deletedAll++;
    return super.deleteAll();
  }

  override setAlarm(atMs: number): Promise<void> {
    this.written.alarms++;
    return super.setAlarm(atMs);
  }

  protected override readRow(name: string): string | undefined {
    this.rowsRead++;
    return super.readRow(name);
  }

  protected override listRows(range: object): [string, string][] {
    const found = super.listRows(range);
    this.rowsRead += found.length;
    return found;
  }
}
