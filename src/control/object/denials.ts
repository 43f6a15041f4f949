/**
 * The log of denials: those of the last 24 hours, for each policy at most as many entries as `DENIALS` says. New entries are a part of
 * the open state of the statistics, which is stored with the numbers of the counted batches: each denial is logged once.
 * Entries are moved to a chunk, a row of their own, when there are about 450 of a policy or when they are six hours old.
 *
 * A chunk costs two written rows: the row, and its deletion. A policy that denies from time to time writes four chunks a
 * day, so 240 rows a month: 0.2 % of the rows of the statistics.
 */
import {
  awayMs,
  type DenialBatch,
  type DenialKey,
  type DeniedKeys,
  type DeniedKeysQuery,
  type DenialsQuery,
  type LoggedDenials,
  type StoredDenial,
} from "../denial-calls.ts";
import {
  type DenialRow,
  entriesIn,
  filterOf,
  isOf,
  type LogOrder,
  newestFirst,
  oldestFirst,
  rowOf,
} from "./denial-entries.ts";
import { ownPartOf } from "../../policy/partition-key.ts";
import { CountedChunks, countedIn, deniedKeysOf } from "./denied-keys.ts";
import { dayMs, floorTo, hourMs, minuteMs, withinMinute } from "./statistics-rows.ts";
import { isNumber, numberIn, numberOf, parsedRecord, recordIn, rowsIn, type Sql } from "./storage.ts";

/** The most entries of a policy in the open state, about 80 KB, and of all policies together. */
const mostOpen = 450;
const mostOpenInAll = 3 * mostOpen;
/** Upper bound on the entries of a chunk: a batch has at most 48. */
const mostInChunk = 500;
const longestOpenMs = 6 * hourMs;
/** The length of a partition key: 256 bits in base64url. */
const keyLength = 43;
/** The most keys with the same beginning that an answer lists. */
const mostKeys = 20;

/** Entries of one policy. */
interface DenialChunk {
  readonly policy: string;
  readonly entries: readonly StoredDenial[];
}

type ChunkState = readonly [policy: string, ...rows: DenialRow[]];

/** Denials that are not in the log, by policy and hour, and when the last and the first of them were. */
type DroppedDenials = readonly [
  policy: string,
  hourAtMs: number,
  denials: number,
  lastAtMs: number,
  /** Absent in rows of earlier versions. */
  firstAtMs?: number,
];

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
  readonly fromMs: number;
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
  readonly #counted = new CountedChunks();

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
    this.#open = rowsIn(open, "string").map(([policy, ...rows]) => ({ policy, entries: entriesIn(policy, rows) }));
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

  /**
   * @param closedAtMs the end of the batch
   * @param openMinute the minute in which the statistics count an entry; null when it is not known
   */
  add(
    { entries, lost }: DenialBatch = { entries: [], lost: {} },
    closedAtMs: number,
    openMinute: (countedInMs: number | undefined) => number | null = () => null,
  ): void {
    if (this.#most === null) return;
    for (const [policy, added] of Map.groupBy(entries, (entry) => entry.policy)) {
      const stored = added.map(({ agoMs, lastAgoMs, countedInMs, sealed: _sealed, ...facts }): StoredDenial => {
        const minuteAtMs = openMinute(countedInMs);
        const atMs = withinMinute(minuteAtMs, closedAtMs - agoMs);
        const lastAtMs = withinMinute(minuteAtMs, closedAtMs - lastAgoMs);
        return { ...facts, seq: this.#nextSeq++, atMs, lastAtMs };
      });
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
      this.#dropped = withDropped(this.#dropped, policy, denials, [closedAtMs - minuteMs, closedAtMs]);
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
      this.#counted.forget(chunk.id);
      this.#nextDropped = withDropped(this.#nextDropped, policy, chunk.denials, [chunk.fromMs, chunk.toMs]);
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

  read({ keyPrefix, ...sought }: DenialsQuery, nowMs: number): LoggedDenials {
    const period = { ...sought, fromMs: Math.max(sought.fromMs, nowMs - dayMs) };
    if (keyPrefix === undefined) return this.#page(period, nowMs);
    const keys = this.#keysWith(keyPrefix, period);
    const isOne = new Set(keys.map(({ key }) => key)).size === 1;
    return { ...this.#page({ ...period, keys: isOne ? keys : [] }, nowMs), keys };
  }

  #page(query: DenialsQuery, nowMs: number): LoggedDenials {
    const { limit, nearMs = Infinity, fromMs, toMs } = query;
    // One more on each side shows whether the log continues there.
    const isNear = Number.isFinite(nearMs);
    const older = this.#nearest({ ...query, toMs: Math.min(toMs, nearMs + 1) }, limit + 1, newestFirst);
    const after = { ...query, fromMs: Math.max(fromMs, nearMs) };
    const newer = isNear ? this.#nearest(after, limit + 1, oldestFirst, (denial) => denial.atMs > nearMs) : [];
    const most = Math.max(Math.floor(limit / 2), limit - older.length);
    const shownNewer = newer.slice(0, most);
    const shownOlder = older.slice(0, limit - shownNewer.length);
    const last = shownOlder.at(-1);
    const dropped = this.#dropped.filter(([of, atMs]) => isOf(of, query) && atMs + hourMs > nowMs - dayMs);
    const items = [...shownNewer, ...shownOlder].toSorted(newestFirst.compare);
    return {
      items,
      cursor: older.length > shownOlder.length && last !== undefined ? `${last.lastAtMs}-${last.seq}` : null,
      dropped: droppedIn(dropped),
      completeSinceMs: Math.max(this.#sinceMs ?? nowMs, nowMs - dayMs, ...dropped.map(([, , , lastAtMs]) => lastAtMs)),
      isOn: this.#most !== null,
      ...(isNear && {
        hasNewer: newer.length > shownNewer.length,
        near: this.#near(nearMs, items, query, nowMs),
      }),
    };
  }

  /** The first entries in an order. */
  #nearest(
    query: DenialsQuery,
    most: number,
    { position, chunkPosition, compare }: LogOrder,
    isOnSide: (denial: StoredDenial) => boolean = () => true,
  ): StoredDenial[] {
    const { policy, fromMs, toMs } = query;
    const isInQuery = filterOf(query);
    const isFound = (denial: StoredDenial): boolean => isInQuery(denial) && isOnSide(denial);
    const open = [...this.#closed, ...this.#open].filter((chunk) => policy === undefined || chunk.policy === policy);
    const found = open.flatMap(({ entries }) => entries.filter(isFound));
    const chunks = this.#chunks(policy, fromMs, toMs).toSorted(
      (one, other) => chunkPosition(one) - chunkPosition(other),
    );
    for (const chunk of chunks) {
      // Every entry of this chunk and of the following ones comes after those that are returned.
      if (found.filter((denial) => position(denial) < chunkPosition(chunk)).length >= most) break;
      found.push(...this.#entries(chunk, query).filter(isFound));
    }
    return found.toSorted(compare).slice(0, most);
  }

  #near(nearMs: number, items: readonly StoredDenial[], query: DenialsQuery, nowMs: number) {
    const [nearest] = items.toSorted((one, other) => awayMs(one, nearMs) - awayMs(other, nearMs));
    const fromMs = nearest === undefined ? query.fromMs : Math.min(nearMs, nearest.atMs);
    const toMs = nearest === undefined ? nowMs : Math.max(nearMs, nearest.lastAtMs);
    const dropped = droppedIn(
      this.#dropped.filter(
        ([of, , , lastAtMs, firstAtMs = 0]) => isOf(of, query) && lastAtMs >= fromMs && firstAtMs <= toMs,
      ),
    );
    const beganMs = Math.max(this.#sinceMs ?? nowMs, nowMs - dayMs);
    return { dropped, isComplete: this.#most !== null && dropped === 0 && fromMs >= beganMs };
  }

  /** The keys that begin with a text, by the texts of chunks, which is cheaper than parsing them. */
  #keysWith(prefix: string, query: DenialsQuery): DenialKey[] {
    const isFound = filterOf(query);
    const keys = new Map<string, DenialKey>();
    const add = (policy: string, key: string): unknown => keys.set(`${policy} ${key}`, { policy, key });
    for (const { entries } of [...this.#closed, ...this.#open]) {
      for (const denial of entries) {
        const { policy, key } = denial;
        if (key !== null && ownPartOf(key).startsWith(prefix) && isFound(denial)) add(policy, key);
      }
    }
    const pattern = new RegExp(`"((?:[\\w-]+\\.)*${prefix}[\\w-]{${keyLength - prefix.length}})"`, "g");
    for (const { id, policy } of this.#chunks(query.policy, query.fromMs, query.toMs)) {
      for (const [, key = ""] of this.#body(id).matchAll(pattern)) add(policy, key);
      if (keys.size >= mostKeys) break;
    }
    return [...keys.values()].slice(0, mostKeys);
  }

  /** Since when denials are logged; null while `DENIALS` is off. */
  get sinceMs(): number | null {
    return this.#sinceMs;
  }

  /** `isComplete` leaves out whether there were denials before `sinceMs`. */
  keys(query: DeniedKeysQuery, nowMs: number): DeniedKeys {
    const { policy, fromMs, toMs } = query;
    const open = [...this.#closed, ...this.#open].filter((chunk) => chunk.policy === policy);
    const stored = this.#chunks(policy, Math.max(fromMs, nowMs - dayMs), toMs);
    const counted = [
      ...this.#counted.of(policy, stored, (chunk) => this.#entries(chunk, query)),
      ...open.flatMap(({ entries }) => countedIn(entries)),
    ];
    const isDropped = this.#dropped.some(([of, , , lastAtMs]) => of === policy && lastAtMs >= fromMs);
    const isComplete = this.#most !== null && !isDropped && fromMs > nowMs - dayMs;
    return { ...deniedKeysOf(counted, query), isComplete };
  }

  /** The chunks of a period. */
  #chunks(policy: string | undefined, fromMs: number, toMs: number): DenialChunkRow[] {
    return this.#sql
      .exec<DenialChunkRow>(
        `SELECT id, policy, from_ms AS fromMs, to_ms AS toMs, entries, denials FROM denials
          WHERE to_ms >= ? AND from_ms < ? AND (? IS NULL OR policy = ?)`,
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
    const body = this.#body(id);
    const mayHave =
      (instance === undefined || body.includes(instance)) && own?.some((key) => body.includes(key)) !== false;
    return mayHave ? entriesIn(policy, parsedRecord<{ rows: readonly DenialRow[] }>(body).rows) : [];
  }

  #body(id: number): string {
    return this.#sql.exec<{ body: string }>("SELECT body FROM denials WHERE id = ?", id).toArray()[0]?.body ?? "";
  }

  /** Deletes what is older than a day, and chunks of a clock that was set back by more than a day since. */
  deleteOld(nowMs: number): void {
    this.#sql.exec("DELETE FROM denials WHERE to_ms <= ? OR from_ms > ?", nowMs - dayMs, nowMs + dayMs);
    this.#counted.forget();
    this.#dropped = this.#dropped.filter(([, atMs]) => Math.abs(nowMs - atMs - hourMs) < dayMs);
  }

  /** When the first row will be too old; null when there is none. */
  nextDeletionMs(): number | null {
    return numberOf(this.#sql, "SELECT min(to_ms) + ? FROM denials", dayMs);
  }
}

const droppedIn = (dropped: readonly DroppedDenials[]): number =>
  dropped.reduce((sum, [, , denials]) => sum + denials, 0);

function withDropped(
  dropped: readonly DroppedDenials[],
  policy: string,
  denials: number,
  [firstAtMs, lastAtMs]: readonly [firstAtMs: number, lastAtMs: number],
): readonly DroppedDenials[] {
  const hourAtMs = floorTo(hourMs, lastAtMs);
  const isSame = ([of, hour]: DroppedDenials): boolean => of === policy && hour === hourAtMs;
  const [, , before, knownLastMs, knownFirstMs = 0] = dropped.find(isSame) ?? [
    policy,
    hourAtMs,
    0,
    lastAtMs,
    firstAtMs,
  ];
  const others = dropped.filter((each) => !isSame(each));
  const [firstMs, lastMs] = [Math.min(knownFirstMs, firstAtMs), Math.max(knownLastMs, lastAtMs)];
  return [...others, [policy, hourAtMs, before + denials, lastMs, firstMs]];
}
