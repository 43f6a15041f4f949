/** The results of changes by `Idempotency-Key`: a repeated request changes nothing a second time. */
import type { Actor, RuleCreation } from "../protocol.ts";
import type { Sql } from "./storage.ts";

const keptMs = 24 * 3_600_000;

type Idempotency = NonNullable<RuleCreation["idempotency"]>;

export class IdempotencyKeys<Result> {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** The result of the same request before; `key-reused` when another request had the key; null when none had. */
  find(actor: Actor, { key, requestHash }: Idempotency, nowMs: number): Result | "key-reused" | null {
    const [row] = this.#sql
      .exec<{ at: number; request_hash: string; rule: string }>(
        "SELECT at, request_hash, rule FROM idempotency WHERE key = ?",
        scoped(actor, key),
      )
      .toArray();
    if (row === undefined || row.at <= nowMs - keptMs) return null;
    const result: Result = JSON.parse(row.rule);
    return row.request_hash === requestHash ? result : "key-reused";
  }

  add(actor: Actor, { key, requestHash }: Idempotency, result: Result, nowMs: number): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO idempotency (key, at, request_hash, rule) VALUES (?, ?, ?, ?)",
      scoped(actor, key),
      nowMs,
      requestHash,
      JSON.stringify(result),
    );
  }

  sweep(nowMs: number): void {
    this.#sql.exec("DELETE FROM idempotency WHERE at <= ?", nowMs - keptMs);
  }
}

/** Actors choose their keys independently. */
const scoped = ({ via, name }: Actor, key: string): string => JSON.stringify([via, name, key]);
