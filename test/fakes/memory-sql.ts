/** The storage of the control plane object, in memory: a SQLite database and an alarm. */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { ControlStorage, Sql, SqlRow, SqlValue } from "../../src/control/object/storage.ts";

/** Blobs are an ArrayBuffer on the platform, and a Uint8Array in Node. */
const bound = (value: SqlValue) => (value instanceof ArrayBuffer ? new Uint8Array(value) : value);
const readRow = (row: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(row).map(([column, value]) => [column, value instanceof Uint8Array ? value.slice().buffer : value]),
  );

export class MemorySql implements ControlStorage {
  #database = new DatabaseSync(":memory:");
  readonly #statements = new Map<string, StatementSync>();
  alarmAtMs: number | null = null;
  /** Rows inserted, updated or deleted, without those of indexes. */
  rowsWritten = 0;
  /** Called before each statement; a test makes it throw. */
  before: (query: string) => void = () => undefined;

  readonly sql: Sql = {
    exec: <Row extends SqlRow>(query: string, ...bindings: readonly SqlValue[]) => {
      this.before(query);
      const statement = this.#prepared(query);
      const isRead = statement.columns().length > 0;
      if (isRead) {
        const rows = statement.all(...bindings.map(bound)).map(readRow) as Row[];
        return { toArray: () => rows, rowsWritten: 0 };
      }
      const rowsWritten = Number(statement.run(...bindings.map(bound)).changes);
      this.rowsWritten += rowsWritten;
      return { toArray: () => [], rowsWritten };
    },
  };

  #prepared(query: string): StatementSync {
    const known = this.#statements.get(query);
    if (known !== undefined) return known;
    const statement = this.#database.prepare(query);
    this.#statements.set(query, statement);
    return statement;
  }

  transactionSync<Result>(act: () => Result): Result {
    this.#database.exec("SAVEPOINT change");
    try {
      const result = act();
      this.#database.exec("RELEASE change");
      return result;
    } catch (error) {
      this.#database.exec("ROLLBACK TO change; RELEASE change");
      throw error;
    }
  }

  getAlarm(): Promise<number | null> {
    return Promise.resolve(this.alarmAtMs);
  }

  setAlarm(atMs: number): Promise<void> {
    this.alarmAtMs = atMs;
    return Promise.resolve();
  }

  /** A copy of the database, like a bookmark for point-in-time recovery. */
  copy(): MemorySql {
    const copy = new MemorySql();
    copy.alarmAtMs = this.alarmAtMs;
    for (const { sql } of this.#database.prepare("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").all())
      copy.#database.exec(String(sql));
    for (const { name } of this.#database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all()) {
      for (const row of this.#database.prepare(`SELECT * FROM ${String(name)}`).all()) {
        const columns = Object.keys(row);
        const values = columns.map(() => "?").join(", ");
        copy.#database
          .prepare(`INSERT INTO ${String(name)} (${columns.join(", ")}) VALUES (${values})`)
          .run(...Object.values(row));
      }
    }
    return copy;
  }
}
