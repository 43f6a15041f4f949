/** The storage of the control plane object: the SQLite database and the alarm, as far as the object needs them. */

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
