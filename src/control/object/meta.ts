/** The schema of the database, and single values: the epoch and the number of the last change. */
import type { ControlStorage, Sql } from "./storage.ts";

/** Raise this with each change of the schema, and migrate older databases in `createSchema`. */
const schemaVersion = 1;

type Name = "schema" | "epoch" | "change";

export class Meta {
  readonly #sql: Sql;
  #epoch: number;

  /** Creates the schema and the epoch in an empty database. */
  constructor(storage: ControlStorage, nowMs: number) {
    this.#sql = storage.sql;
    storage.transactionSync(() => {
      createSchema(storage.sql);
      if (this.#read("epoch") === null) {
        this.#write("epoch", nowMs);
        this.#write("schema", schemaVersion);
      }
    });
    this.#epoch = this.#read("epoch") ?? nowMs;
  }

  /** When the control plane was created, or a later instant after its storage was restored. */
  get epoch(): number {
    return this.#epoch;
  }

  /** Begins an epoch above `known`, which isolates or objects know although this database does not. */
  beginEpochAbove(known: number, nowMs: number): void {
    const epoch = Math.max(nowMs, known + 1);
    this.#write("epoch", epoch);
    this.#epoch = epoch;
  }

  #read(name: Name): number | null {
    const [row] = this.#sql
      .exec<{ value: number }>("SELECT value FROM meta WHERE name = ?", name)
      .toArray();
    return row?.value ?? null;
  }

  #write(name: Name, value: number): void {
    this.#sql.exec("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", name, value);
  }
}

function createSchema(sql: Sql): void {
  sql.exec(
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
  );
}
