/** The storage of the control plane object: the database with its schema, single values, pages, and the alarm. */
import { isRecord } from "../../validation/json.ts";
import type { Page } from "../protocol.ts";

export type SqlValue = string | number | ArrayBuffer | null;
export type SqlRow = Record<string, SqlValue>;

/** The methods of `SqlStorage`. Each row that is written costs. */
export interface Sql {
  exec<Row extends SqlRow>(
    query: string,
    ...bindings: readonly SqlValue[]
  ): { toArray(): Row[]; readonly rowsWritten: number };
}

/** The methods of `DurableObjectStorage`. */
export interface ControlStorage {
  readonly sql: Sql;
  /** Rolls the writes of `act` back when it throws. */
  transactionSync<Result>(act: () => Result): Result;
  getAlarm(): Promise<number | null>;
  setAlarm(atMs: number): Promise<void>;
}

/** Raise this with each change of the schema, and migrate older databases in the constructor of `Meta`. */
const schemaVersion = 1;

/** Tables without a rowid have no hidden index, so a row costs one write. */
const schema = [
  "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
  // `key` is empty for a policy rule. `body` is the rule as JSON without `appliedAtMs` and `state`.
  `CREATE TABLE IF NOT EXISTS rules (
    id TEXT PRIMARY KEY, policy TEXT NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL, version INTEGER NOT NULL,
    expires_at INTEGER, applied_at INTEGER, body TEXT NOT NULL
  ) WITHOUT ROWID`,
  "CREATE INDEX IF NOT EXISTS rules_of_set ON rules (key, policy)",
  // All rules of one policy and key, or of a policy alone. `confirmed` is the newest version that the key's object confirmed,
  // and `placements` is where it may have rules.
  `CREATE TABLE IF NOT EXISTS rule_sets (
    key TEXT NOT NULL, policy TEXT NOT NULL, version INTEGER NOT NULL, confirmed INTEGER NOT NULL,
    placements TEXT NOT NULL, PRIMARY KEY (key, policy)
  ) WITHOUT ROWID`,
  `CREATE TABLE IF NOT EXISTS audit (
    seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, rule TEXT, body TEXT NOT NULL
  )`,
  // `nth` counts all reveals, and `subject` names the operator and the key.
  `CREATE TABLE IF NOT EXISTS reveals (
    seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, nth INTEGER NOT NULL, subject TEXT NOT NULL, body TEXT NOT NULL
  )`,
  "CREATE INDEX IF NOT EXISTS reveals_of_subject ON reveals (subject, at)",
  "CREATE INDEX IF NOT EXISTS reveals_by_count ON reveals (nth)",
  `CREATE TABLE IF NOT EXISTS idempotency (
    key TEXT PRIMARY KEY, at INTEGER NOT NULL, request_hash TEXT NOT NULL, rule TEXT NOT NULL
  ) WITHOUT ROWID`,
  `CREATE TABLE IF NOT EXISTS deployments (
    id TEXT PRIMARY KEY, seen_at INTEGER NOT NULL, body TEXT NOT NULL
  ) WITHOUT ROWID`,
];

/** The only number of a query; null when it has no row. */
export function numberOf(sql: Sql, query: string, ...bindings: readonly SqlValue[]): number | null {
  const [row = {}] = sql.exec<Record<string, number | null>>(query, ...bindings).toArray();
  return Object.values(row)[0] ?? null;
}

/** The parsed JSON of the column `body`, which must be the only column of the query. */
export const bodiesOf = <Body>(sql: Sql, query: string, ...bindings: readonly SqlValue[]): Body[] =>
  sql
    .exec<{ body: string }>(query, ...bindings)
    .toArray()
    .map(({ body }): Body => JSON.parse(body));

type MetaName = "schema" | "epoch" | "resend" | "swept" | "audit" | "rollback";

export function readMeta(sql: Sql, name: MetaName): string | null {
  const [row] = sql.exec<{ value: string }>("SELECT value FROM meta WHERE name = ?", name).toArray();
  return row?.value ?? null;
}

export function writeMeta(sql: Sql, name: MetaName, value: string): void {
  sql.exec("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", name, value);
}

export class Meta {
  readonly #sql: Sql;
  #epoch = 0;

  /** Creates the schema and the epoch in an empty database. */
  constructor(storage: ControlStorage, nowMs: number) {
    this.#sql = storage.sql;
    storage.transactionSync(() => {
      for (const statement of schema) this.#sql.exec(statement);
      const epoch = this.read("epoch");
      this.#epoch = epoch === null ? nowMs : Number(epoch);
      if (epoch !== null) return;
      this.write("epoch", String(nowMs));
      this.write("schema", String(schemaVersion));
    });
  }

  /** When the control plane was created, or a later instant if its storage has been restored since. */
  get epoch(): number {
    return this.#epoch;
  }

  set epoch(epoch: number) {
    this.write("epoch", String(epoch));
    this.#epoch = epoch;
  }

  read(name: MetaName): string | null {
    return readMeta(this.#sql, name);
  }

  write(name: MetaName, value: string): void {
    writeMeta(this.#sql, name, value);
  }
}

const mostPerPage = 500;

export const pageSize = (limit: number): number => Math.min(mostPerPage, Math.max(1, Math.trunc(limit) || 1));

/** @param found the items of the page, and one more unless it is the last page */
export function pageOf<Item>(found: readonly Item[], size: number, cursorOf: (item: Item) => string): Page<Item> {
  const items = found.slice(0, size);
  const last = items.at(-1);
  return { items, cursor: found.length > size && last !== undefined ? cursorOf(last) : null };
}

/* Readers of stored JSON. A value of an unexpected form, which another version wrote, is read as empty. */

export const isNumber = (stored: unknown): stored is number => Number.isFinite(stored);
export const numberIn = (stored: number | undefined): number => (isNumber(stored) ? stored : 0);
export const recordIn = <Stored extends object>(stored: Stored | undefined): Partial<Stored> =>
  isRecord(stored) ? stored : {};
export const listIn = <Item>(stored: readonly Item[] | undefined): readonly Item[] =>
  Array.isArray(stored) ? stored : [];

/** The rows of a list whose first fields have these types. */
export const rowsIn = <Row extends readonly unknown[]>(
  stored: readonly Row[] | undefined,
  ...types: readonly ("string" | "number")[]
): readonly Row[] =>
  listIn(stored).filter((row) => Array.isArray(row) && types.every((type, field) => typeof row[field] === type));

/** The entries of a record that are numbers. */
export const numbersIn = (stored: object | undefined): readonly (readonly [name: string, value: number])[] =>
  rowsIn(Object.entries(recordIn(stored)), "string", "number");

/** The record of a JSON text. */
export function parsedRecord<Stored extends object>(text: string): Partial<Stored> {
  try {
    const stored: Stored = JSON.parse(text);
    return recordIn(stored);
  } catch {
    return {};
  }
}
