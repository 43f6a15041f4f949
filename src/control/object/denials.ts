/**
 * The log of denials: those of the last 24 hours, for each policy at most as many entries as `DENIALS` says. New entries are a part of
 * the open state of the statistics, which is stored with the numbers of the counted batches: each denial is logged once.
 * Entries are moved to a chunk, a row of their own, when there are about 450 of a policy or when they are six hours old.
 *
 * A chunk costs two written rows: the row, and its deletion. A policy that denies from time to time writes four chunks a
 * day, so 240 rows a month: 0.2 % of the rows of the statistics.
 */
import type {
  DenialBatch,
  DeniedKeys,
  DeniedKeysQuery,
  DenialsQuery,
  LoggedDenials,
  LoggedLimit,
  LoggedReason,
  StoredDenial,
} from "../denial-calls.ts";
import type { OutcomeName } from "../protocol.ts";
import { dayMs, floorTo, hourMs } from "./statistics-rows.ts";
import { isNumber, listIn, numberIn, numberOf, parsedRecord, recordIn, rowsIn, type Sql } from "./storage.ts";

/** The most entries of a policy in the open state, about 80 KB, and of all policies together. */
const mostOpen = 450;
const mostOpenInAll = 3 * mostOpen;
/** Upper bound on the entries of a chunk: a batch has at most 48. */
const mostInChunk = 500;
const longestOpenMs = 6 * hourMs;

type LimitRow = readonly [name: string, used: number, capacity: number, windowMs: number];
type DenialRow = readonly [
  seq: number,
  atMs: number,
  lastAtMs: number,
  count: number,
  instance: string,
  outcome: OutcomeName,
  reason: LoggedReason,
  key: string | null,
  retryAfterMs: number | null,
  bannedForMs: number,
  cost: number,
  colo: string,
  ...limits: LimitRow[],
];

/** Entries of one policy. */
interface DenialChunk {
  readonly policy: string;
  readonly entries: readonly StoredDenial[];
}

type ChunkState = readonly [policy: string, ...rows: DenialRow[]];

/** Denials that are not in the log, by policy and hour, and when the last of them was. */
type DroppedDenials = readonly [policy: string, hourAtMs: number, denials: number, lastAtMs: number];

export interface DenialsState {
  readonly open: readonly ChunkState[];
  readonly dropped: readonly DroppedDenials[];
  readonly nextSeq: number;
  /** Since when denials are logged; null while `DENIALS` is off. */
  readonly sinceMs: number | null;
}

interface DenialChunkRow {
  readonly id: number;
  readonly policy: string;
  readonly toMs: number;
  readonly entries: number;
  readonly denials: number;
  readonly [column: string]: string | number;
}

export class StoredDenials {
  readonly #sql: Sql;
  readonly #most: number | null;
  /** At most one for each policy. */
  #open: DenialChunk[];
  /** Chunks whose rows are not written yet. */
  #closed: DenialChunk[] = [];
  #dropped: readonly DroppedDenials[];
  /** `#dropped` after the transaction that is under way. */
  #nextDropped: readonly DroppedDenials[];
  #nextSeq: number;
  #sinceMs: number | null;

  /**
   * @param state the last `toJSON` that was stored
   * @param most the most entries of each policy; null when no denials are logged
   */
  constructor(sql: Sql, state: DenialsState | undefined, most: number | null, nowMs: number) {
    this.#sql = sql;
    this.#most = most;
    // The body is last, so that other columns are read without its pages.
    sql.exec(
      `CREATE TABLE IF NOT EXISTS denials (
        id INTEGER PRIMARY KEY, policy TEXT NOT NULL, from_ms INTEGER NOT NULL, to_ms INTEGER NOT NULL,
        entries INTEGER NOT NULL, denials INTEGER NOT NULL, body TEXT NOT NULL
      )`,
    );
    const { open, dropped, nextSeq, sinceMs } = recordIn(state);
    this.#open = rowsIn(open, "string").map(([policy, ...rows]) => ({ policy, entries: denialsIn(policy, rows) }));
    this.#dropped = rowsIn(dropped, "string", "number", "number", "number");
    this.#nextDropped = this.#dropped;
    this.#nextSeq = Math.max(1, numberIn(nextSeq));
    const startMs = isNumber(sinceMs) ? sinceMs : nowMs;
    this.#sinceMs = most === null ? null : startMs;
  }

  /** Whether there are denials that must be written. */
  get hasClosed(): boolean {
    return this.#closed.length > 0;
  }

  get isEmpty(): boolean {
    return this.#open.length === 0 && this.#closed.length === 0;
  }

  /** @param closedAtMs the end of the batch */
  add({ entries, lost }: DenialBatch = { entries: [], lost: {} }, closedAtMs: number): void {
    if (this.#most === null) return;
    for (const [policy, added] of Map.groupBy(entries, (entry) => entry.policy)) {
      const stored = added.map(({ agoMs, lastAgoMs, sealed: _sealed, ...facts }): StoredDenial => ({
        ...facts,
        seq: this.#nextSeq++,
        atMs: closedAtMs - agoMs,
        lastAtMs: closedAtMs - lastAgoMs,
      }));
      // Isolates may have logged denials before this object first ran.
      this.#sinceMs = Math.min(this.#sinceMs ?? closedAtMs, ...stored.map(({ atMs }) => atMs));
      const [known] = this.#take((chunk) => chunk.policy === policy);
      const chunk = { policy, entries: [...(known?.entries ?? []), ...stored] };
      (chunk.entries.length >= mostOpen ? this.#closed : this.#open).push(chunk);
    }
    while (this.#open.reduce((sum, chunk) => sum + chunk.entries.length, 0) >= mostOpenInAll) {
      const [largest] = this.#open.toSorted((one, other) => other.entries.length - one.entries.length);
      this.#closed.push(...this.#take((chunk) => chunk === largest));
    }
    for (const [policy, denials] of Object.entries(lost)) {
      this.#dropped = withDropped(this.#dropped, policy, denials, closedAtMs);
    }
    this.#nextDropped = this.#dropped;
  }

  /** Ends the chunks that are old enough, also those of a clock that was set back since. */
  closeOld(nowMs: number): void {
    const isOld = ({ entries: [first] }: DenialChunk): boolean =>
      first !== undefined && Math.abs(nowMs - first.atMs) >= longestOpenMs;
    this.#closed.push(...this.#take(isOld));
  }

  #take(isTaken: (chunk: DenialChunk) => boolean): DenialChunk[] {
    const taken = this.#open.filter(isTaken);
    this.#open = this.#open.filter((chunk) => !isTaken(chunk));
    return taken;
  }

  /** Writes the chunks that are closed. Call `markStored` when the transaction is committed. */
  write(): void {
    this.#nextDropped = this.#dropped;
    for (const { policy, entries } of this.#closed) {
      this.#makeRoom(policy, entries.length);
      this.#sql.exec(
        "INSERT INTO denials (policy, from_ms, to_ms, entries, denials, body) VALUES (?, ?, ?, ?, ?, ?)",
        policy,
        Math.min(...entries.map(({ atMs }) => atMs)),
        Math.max(...entries.map(({ lastAtMs }) => lastAtMs)),
        entries.length,
        entries.reduce((sum, { count }) => sum + count, 0),
        JSON.stringify({ rows: entries.map(rowOf) }),
      );
    }
  }

  /** Drops the oldest chunks of a policy whose entries would be too many, with those that may still be open. */
  #makeRoom(policy: string, added: number): void {
    const chunks = this.#chunks(policy, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER).toSorted(
      (one, other) => one.id - other.id,
    );
    let entries = chunks.reduce((sum, chunk) => sum + chunk.entries, added);
    for (const chunk of chunks) {
      if (entries <= Math.max(mostInChunk, (this.#most ?? 0) - mostInChunk)) break;
      entries -= chunk.entries;
      this.#sql.exec("DELETE FROM denials WHERE id = ?", chunk.id);
      this.#nextDropped = withDropped(this.#nextDropped, policy, chunk.denials, chunk.toMs);
    }
  }

  markStored(): void {
    this.#dropped = this.#nextDropped;
    this.#closed = [];
  }

  /** The denials that are not in rows. Call `write` before. */
  toJSON(): DenialsState {
    return {
      open: this.#open.map(({ policy, entries }): ChunkState => [policy, ...entries.map(rowOf)]),
      dropped: this.#nextDropped,
      nextSeq: this.#nextSeq,
      sinceMs: this.#sinceMs,
    };
  }

  read(query: DenialsQuery, nowMs: number): LoggedDenials {
    const { policy, limit, toMs } = query;
    const fromMs = Math.max(query.fromMs, nowMs - dayMs);
    const isFound = filterOf({ ...query, fromMs });
    const open = [...this.#closed, ...this.#open].filter((chunk) => policy === undefined || chunk.policy === policy);
    const found = open.flatMap(({ entries }) => entries.filter(isFound));
    for (const chunk of this.#chunks(policy, fromMs, toMs)) {
      // Every entry of this chunk and of the following ones is older than the page.
      if (found.filter(({ lastAtMs }) => lastAtMs > chunk.toMs).length > limit) break;
      found.push(...this.#entries(chunk, query).filter(isFound));
    }
    found.sort(newestFirst);
    const items = found.slice(0, limit);
    const last = items.at(-1);
    const dropped = this.#dropped.filter(([of, atMs]) => isOf(of, query) && atMs + hourMs > nowMs - dayMs);
    return {
      items,
      cursor: found.length > limit && last !== undefined ? `${last.lastAtMs}-${last.seq}` : null,
      dropped: dropped.reduce((sum, [, , denials]) => sum + denials, 0),
      completeSinceMs: Math.max(this.#sinceMs ?? nowMs, nowMs - dayMs, ...dropped.map(([, , , lastAtMs]) => lastAtMs)),
      isOn: this.#most !== null,
    };
  }

  /** Since when denials are logged; null while `DENIALS` is off. */
  get sinceMs(): number | null {
    return this.#sinceMs;
  }

  /**
   * An entry counts at the time of its last denial: it has at most those of one batch. `isComplete` leaves out whether
   * there were denials before `sinceMs`.
   */
  keys({ limit, steps, ...query }: DeniedKeysQuery, nowMs: number): DeniedKeys {
    const { fromMs, toMs } = query;
    const { items } = this.read({ ...query, limit: Number.MAX_SAFE_INTEGER }, nowMs);
    const counted = new Map<string, { count: number; steps: number[] }>();
    let denials = 0;
    for (const { key, count, outcome, lastAtMs } of items) {
      if (outcome === "fallback-closed" || lastAtMs >= toMs) continue;
      denials += count;
      if (key === null) continue;
      const own = counted.get(key) ?? { count: 0, steps: Array.from<number>({ length: steps }).fill(0) };
      const step = Math.floor((steps * (lastAtMs - fromMs)) / (toMs - fromMs));
      own.count += count;
      own.steps[step] = (own.steps[step] ?? 0) + count;
      counted.set(key, own);
    }
    const keys = [...counted].map(([key, own]) => ({ key, ...own })).toSorted((one, other) => other.count - one.count);
    const isDropped = this.#dropped.some(([of, , , lastAtMs]) => of === query.policy && lastAtMs >= fromMs);
    const isComplete = this.#most !== null && !isDropped && fromMs > nowMs - dayMs;
    return { denials, isComplete, keys: keys.slice(0, limit) };
  }

  /** The chunks of a period, that with the newest denial first. */
  #chunks(policy: string | undefined, fromMs: number, toMs: number): DenialChunkRow[] {
    return this.#sql
      .exec<DenialChunkRow>(
        `SELECT id, policy, to_ms AS toMs, entries, denials FROM denials
          WHERE to_ms >= ? AND from_ms < ? AND (? IS NULL OR policy = ?) ORDER BY to_ms DESC`,
        fromMs,
        toMs,
        policy ?? null,
        policy ?? null,
      )
      .toArray();
  }

  /** The entries of a chunk; none if its text shows that the query has none there, which is cheaper than parsing it. */
  #entries({ id, policy }: DenialChunkRow, { keys, instance }: DenialsQuery): readonly StoredDenial[] {
    const own = keys?.filter((key) => key.policy === policy).map(({ key }) => key);
    const [row] = this.#sql.exec<{ body: string }>("SELECT body FROM denials WHERE id = ?", id).toArray();
    const body = row?.body ?? "";
    const mayHave =
      (instance === undefined || body.includes(instance)) && own?.some((key) => body.includes(key)) !== false;
    return mayHave ? denialsIn(policy, parsedRecord<{ rows: readonly DenialRow[] }>(body).rows) : [];
  }

  /** Deletes what is older than a day, and chunks of a clock that was set back by more than a day since. */
  deleteOld(nowMs: number): void {
    this.#sql.exec("DELETE FROM denials WHERE to_ms <= ? OR from_ms > ?", nowMs - dayMs, nowMs + dayMs);
    this.#dropped = this.#dropped.filter(([, atMs]) => Math.abs(nowMs - atMs - hourMs) < dayMs);
  }

  /** When the first row will be too old; null when there is none. */
  nextDeletionMs(): number | null {
    return numberOf(this.#sql, "SELECT min(to_ms) + ? FROM denials", dayMs);
  }
}

const newestFirst = (one: StoredDenial, other: StoredDenial): number =>
  other.lastAtMs - one.lastAtMs || other.seq - one.seq;

const isOf = (policy: string, { policy: queried, keys }: DenialsQuery): boolean =>
  (queried === undefined || queried === policy) && keys?.some((key) => key.policy === policy) !== false;

function filterOf(query: DenialsQuery): (denial: StoredDenial) => boolean {
  const { keys, instance, fromMs, toMs, cursor } = query;
  const [beforeMs = Infinity, beforeSeq = Infinity] = cursor?.split("-").map(Number) ?? [];
  return (denial) => {
    const { policy, key, atMs, lastAtMs, seq } = denial;
    if (lastAtMs < fromMs || atMs >= toMs) return false;
    if (lastAtMs > beforeMs || (lastAtMs === beforeMs && seq >= beforeSeq)) return false;
    if (instance !== undefined && denial.instance !== instance) return false;
    return isOf(policy, query) && keys?.some((each) => each.policy === policy && each.key === key) !== false;
  };
}

function withDropped(
  dropped: readonly DroppedDenials[],
  policy: string,
  denials: number,
  atMs: number,
): readonly DroppedDenials[] {
  const hourAtMs = floorTo(hourMs, atMs);
  const isSame = ([of, hour]: DroppedDenials): boolean => of === policy && hour === hourAtMs;
  const [, , before, lastAtMs] = dropped.find(isSame) ?? [policy, hourAtMs, 0, atMs];
  const others = dropped.filter((each) => !isSame(each));
  return [...others, [policy, hourAtMs, before + denials, Math.max(lastAtMs, atMs)]];
}

const rowOf = (denial: StoredDenial): DenialRow => [
  denial.seq,
  denial.atMs,
  denial.lastAtMs,
  denial.count,
  denial.instance,
  denial.outcome,
  denial.reason,
  denial.key,
  denial.retryAfterMs,
  denial.bannedForMs,
  denial.cost,
  denial.colo,
  ...denial.limits.map(({ name, used, capacity, windowMs }): LimitRow => [name, used, capacity, windowMs]),
];

const denialsIn = (policy: string, rows: readonly DenialRow[] | undefined): StoredDenial[] =>
  rowsIn(rows, "number", "number", "number", "number", "string", "string", "string").map(
    ([seq, atMs, lastAtMs, count, instance, outcome, reason, ...rest]) => {
      const [key, retryAfterMs, bannedForMs, cost, colo, ...limits] = rest;
      return {
        policy,
        seq,
        atMs,
        lastAtMs,
        count,
        instance,
        outcome,
        reason,
        key: typeof key === "string" ? key : null,
        retryAfterMs: isNumber(retryAfterMs) ? retryAfterMs : null,
        bannedForMs: numberIn(bannedForMs),
        cost: numberIn(cost),
        colo: typeof colo === "string" ? colo : "",
        limits: rowsIn(listIn(limits), "string", "number", "number", "number").map(
          ([name, used, capacity, windowMs]): LoggedLimit => ({ name, used, capacity, windowMs }),
        ),
      };
    },
  );
