/** The storage of a Durable Object of the limiter, in memory. */
import type { RowStorage } from "../../limiter/object/key-storage.ts";

type RowRange = Parameters<RowStorage["kv"]["list"]>[0];

export class MemoryStorage implements RowStorage {
  readonly rows = new Map<string, string>();
  /** When the alarm is due; null without an alarm. */
  alarmAtMs: number | null = null;
  readonly #alarmChanged: (atMs: number | null) => void;

  /** @param alarmChanged is called when the alarm is set and when it is deleted */
  constructor(alarmChanged: (atMs: number | null) => void = () => undefined) {
    this.#alarmChanged = alarmChanged;
  }

  readonly kv = {
    get: (name: string): string | undefined => this.readRow(name),
    list: (range: RowRange): [string, string][] => this.listRows(range),
  };

  async put(rows: Record<string, string>, _options?: object): Promise<void> {
    for (const [name, row] of Object.entries(rows)) this.rows.set(name, row);
  }

  async delete(names: string[]): Promise<number> {
    return names.filter((name) => this.rows.delete(name)).length;
  }

  /** Also deletes the alarm, as the platform does since the compatibility date 2026-02-24. */
  async deleteAll(): Promise<void> {
    this.rows.clear();
    this.#changeAlarm(null);
  }

  async getAlarm(): Promise<number | null> {
    return this.alarmAtMs;
  }

  async setAlarm(atMs: number): Promise<void> {
    this.#changeAlarm(atMs);
  }

  /** The platform deletes a due alarm before it calls the alarm handler. */
  async deleteAlarm(): Promise<void> {
    this.#changeAlarm(null);
  }

  protected readRow(name: string): string | undefined {
    return this.rows.get(name);
  }

  /** Sorted by name. The names of an object's rows are ASCII. */
  protected listRows({ prefix = "", startAfter = "", limit = Number.POSITIVE_INFINITY }: RowRange): [string, string][] {
    return [...this.rows]
      .filter(([name]) => name.startsWith(prefix) && name > startAfter)
      .toSorted(([name], [other]) => (name < other ? -1 : 1))
      .slice(0, limit);
  }

  #changeAlarm(atMs: number | null): void {
    this.alarmAtMs = atMs;
    this.#alarmChanged(atMs);
  }
}
