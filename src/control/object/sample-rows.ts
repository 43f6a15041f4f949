/** The stored chunks of sampled traffic. */
import type { SampleChunk } from "../statistics-calls.ts";
import { dayMs } from "./statistics-rows.ts";
import type { Sql } from "./storage.ts";

/** The most bytes of the chunks of a policy: 8 MB, less the room that its open samples may take as text. */
const mostBytes = 7_800_000;

export interface ClosedChunk extends Omit<SampleChunk, "id" | "bytes"> {
  readonly policy: string;
  readonly body: Uint8Array<ArrayBuffer>;
}

export class SampleRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
    // The body is last, so that other columns are read without its pages.
    sql.exec(
      `CREATE TABLE IF NOT EXISTS samples (
        id INTEGER PRIMARY KEY, policy TEXT NOT NULL, one_key_in INTEGER NOT NULL, from_ms INTEGER NOT NULL,
        to_ms INTEGER NOT NULL, arrivals INTEGER NOT NULL, lost INTEGER NOT NULL, body BLOB NOT NULL
      )`,
    );
  }

  /** The chunks of a policy, in the order in which they were added. */
  chunks(policy: string): SampleChunk[] {
    const rows = this.#sql.exec<{
      id: number;
      oneKeyIn: number;
      fromMs: number;
      toMs: number;
      arrivals: number;
      lost: number;
      bytes: number;
    }>(
      `SELECT id, one_key_in AS oneKeyIn, from_ms AS fromMs, to_ms AS toMs, arrivals, lost, length(body) AS bytes
      FROM samples WHERE policy = ? ORDER BY id`,
      policy,
    );
    return rows.toArray();
  }

  bodies(policy: string, ids: readonly number[]): ArrayBuffer[] {
    return ids.flatMap((id) =>
      this.#sql
        .exec<{
          body: ArrayBuffer;
        }>("SELECT body FROM samples WHERE id = ? AND policy = ?", id, policy)
        .toArray()
        .map(({ body }) => body),
    );
  }

  /**
   * Adds a chunk.
   * @returns the oldest chunks of the policy, which it drops to make room
   */
  add({ policy, oneKeyIn, fromMs, toMs, arrivals, lost, body }: ClosedChunk): SampleChunk[] {
    const chunks = this.chunks(policy);
    let bytes = chunks.reduce((sum, each) => sum + each.bytes, body.byteLength);
    const dropped: SampleChunk[] = [];
    for (const chunk of chunks) {
      if (bytes <= mostBytes) break;
      bytes -= chunk.bytes;
      dropped.push(chunk);
      this.#sql.exec("DELETE FROM samples WHERE id = ?", chunk.id);
    }
    this.#sql.exec(
      "INSERT INTO samples (policy, one_key_in, from_ms, to_ms, arrivals, lost, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
      policy,
      oneKeyIn,
      fromMs,
      toMs,
      arrivals,
      lost,
      body.buffer,
    );
    return dropped;
  }

  /** Deletes chunks that ended a day ago, and chunks of a clock that was set back by more than a day since. */
  deleteOld(nowMs: number): void {
    const [fromMs, toMs] = [nowMs - dayMs, nowMs + dayMs];
    this.#sql.exec("DELETE FROM samples WHERE to_ms <= ? OR from_ms > ?", fromMs, toMs);
  }

  /** When the first chunk will be too old; null when there is none. */
  nextDeletionMs(): number | null {
    const [first] = this.#sql.exec<{ toMs: number | null }>("SELECT min(to_ms) AS toMs FROM samples").toArray();
    return first?.toMs == null ? null : first.toMs + dayMs;
  }
}
