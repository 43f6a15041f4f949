/**
 * The most denied keys and the greatest spenders of each policy, by hour. The lists of the current hour are part of the open state of
 * the statistics. Those of the 23 hours before it have a row for each hour and policy, which a day later is overwritten.
 */
import { isKeyWithin } from "../../policy/partition-key.ts";
import type { PolicyCounts, TopKey } from "../protocol.ts";
import type { TopQuery } from "../statistics-calls.ts";
import { type CountedKey, SpaceSaving, type TopList } from "../space-saving.ts";
import { dayMs, floorTo, hourMs } from "./statistics-rows.ts";
import { numberIn, numberOf, parsedRecord, recordIn, rowsIn, type Sql } from "./storage.ts";

/** The most keys in the merged list of an hour. */
const slots = 1_024;
/** The most sealed keys of an hour and policy, and the most characters of each: a row has at most 2 MB. */
const mostSealed = 512;
const longestSealed = 1_024;
const hoursADay = dayMs / hourMs;

type KeyRow = readonly [key: string, count: number, error: number];
type ListState = readonly [mostOther: number, ...keys: KeyRow[]];

interface PolicyTopState {
  readonly denied: ListState;
  readonly spenders: ListState;
  /** Absent in the state of an older version, and without refunds. */
  readonly refunded?: ListState;
  readonly sealed: readonly (readonly [key: string, sealed: string])[];
}

export interface TopKeysState {
  readonly atMs: number;
  readonly policies: Readonly<Record<string, PolicyTopState>>;
}

class PolicyTop {
  readonly denied = new SpaceSaving(slots);
  readonly spenders = new SpaceSaving(slots);
  /** The units that settlements gave back to spenders. Null until the first. */
  #refunded: SpaceSaving | null = null;
  /** The sealed keys by partition key, in the order in which they were last seen. */
  readonly #sealed = new Map<string, string>();

  get refunded(): TopList {
    return this.#refunded?.top(slots) ?? { keys: [], mostOther: 0 };
  }

  #addRefunds(refunds: TopList): void {
    if (refunds.keys.length > 0 || refunds.mostOther > 0) (this.#refunded ??= new SpaceSaving(slots)).merge(refunds);
  }

  add(counts: PolicyCounts): void {
    const { topDenied, mostOtherDenied, topSpenders, mostOtherSpent, topRefunded = [], mostOtherRefunded = 0 } = counts;
    this.#addRefunds({ keys: topRefunded, mostOther: mostOtherRefunded });
    this.denied.merge({ keys: topDenied, mostOther: mostOtherDenied ?? 0 });
    this.spenders.merge({ keys: topSpenders, mostOther: mostOtherSpent ?? 0 });
    for (const { key, sealed } of [...topDenied, ...topSpenders]) this.addSealed(key, sealed);
  }

  addSealed(key: string, sealed: string | undefined): void {
    if (sealed === undefined || sealed.length > longestSealed) return;
    this.#sealed.delete(key);
    this.#sealed.set(key, sealed);
    if (this.#sealed.size <= mostSealed) return;
    const [oldest = ""] = this.#sealed.keys();
    this.#sealed.delete(oldest);
  }

  sealed(key: string): string | undefined {
    return this.#sealed.get(key);
  }

  toJSON(): PolicyTopState {
    const lists = { denied: listJson(this.denied), spenders: listJson(this.spenders) };
    const refunded = this.#refunded === null ? {} : { refunded: listJson(this.#refunded) };
    return { ...lists, ...refunded, sealed: [...this.#sealed] };
  }

  /** Reads the JSON of `toJSON`. */
  static revived(stored: Partial<PolicyTopState> | undefined): PolicyTop {
    const revived = new PolicyTop();
    const { denied, spenders, refunded, sealed } = recordIn(stored);
    revived.denied.merge(topIn(denied));
    revived.spenders.merge(topIn(spenders));
    revived.#addRefunds(topIn(refunded));
    for (const [key, name] of rowsIn(sealed, "string", "string")) revived.addSealed(key, name);
    return revived;
  }
}

function listJson(sketch: SpaceSaving): ListState {
  const { keys, mostOther } = sketch.top(slots);
  return [mostOther, ...keys.map(({ key, count, error }): KeyRow => [key, count, error])];
}

function topIn(stored: ListState | undefined): TopList {
  const [mostOther, ...rows]: ListState = Array.isArray(stored) ? stored : [0];
  const keys = rowsIn(rows, "string", "number", "number").map(([key, count, error]) => ({ key, count, error }));
  return { keys, mostOther: numberIn(mostOther) };
}

interface Hour {
  readonly atMs: number;
  readonly policies: Map<string, PolicyTop>;
}

export class TopKeys {
  readonly #sql: Sql;
  #current: Hour;
  /** Ended hours whose rows are not written yet. */
  #ended: Hour[] = [];

  /** @param state the last `toJSON` that was stored */
  constructor(sql: Sql, state: TopKeysState | undefined) {
    this.#sql = sql;
    sql.exec(
      "CREATE TABLE IF NOT EXISTS top_keys (slot INTEGER NOT NULL, policy TEXT NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (slot, policy)) WITHOUT ROWID",
    );
    const { atMs, policies } = recordIn(state);
    const stored = Object.entries(recordIn(policies));
    this.#current = {
      atMs: numberIn(atMs),
      policies: new Map(stored.map(([policy, top]) => [policy, PolicyTop.revived(top)])),
    };
  }

  /** Whether an hour has ended whose rows must be written. */
  get hasEnded(): boolean {
    return this.#ended.length > 0;
  }

  add(policies: Readonly<Record<string, PolicyCounts>>, nowMs: number): void {
    this.endHour(nowMs);
    for (const [policy, counts] of Object.entries(policies)) this.#top(policy).add(counts);
  }

  /** Notes the sealed key of a partition key that may be in no list, such as one of the tail. */
  addSealed(policy: string, key: string, sealed: string | undefined, nowMs: number): void {
    if (sealed === undefined) return;
    this.endHour(nowMs);
    this.#top(policy).addSealed(key, sealed);
  }

  /** Ends the current hour if it is over. */
  endHour(nowMs: number): void {
    const atMs = floorTo(hourMs, nowMs);
    // An hour earlier than the current one comes from a clock that stepped back.
    if (atMs <= this.#current.atMs) return;
    if (this.#current.policies.size > 0) this.#ended.push(this.#current);
    this.#current = { atMs, policies: new Map() };
  }

  /** Writes the rows of ended hours. Call `markStored` when the transaction is committed. */
  write(): void {
    for (const { atMs, policies } of this.#ended) {
      for (const [policy, top] of policies) {
        this.#sql.exec(
          "INSERT OR REPLACE INTO top_keys (slot, policy, at, body) VALUES (?, ?, ?, ?)",
          (atMs / hourMs) % hoursADay,
          policy,
          atMs,
          JSON.stringify(top),
        );
      }
    }
  }

  markStored(): void {
    this.#ended = [];
  }

  /** The lists of the current hour. */
  toJSON(): TopKeysState {
    const policies = [...this.#current.policies].map(([policy, top]) => [policy, top.toJSON()] as const);
    return { atMs: this.#current.atMs, policies: Object.fromEntries(policies) };
  }

  /** The most frequent keys from an hour on. By default, of the last 24 hours: the current hour and the 23 before it. */
  top({ policy, by, limit, fromMs, within }: TopQuery, nowMs: number): readonly TopKey[] {
    const hours = this.#hours(policy, nowMs, fromMs);
    const keys = by === "denied" ? merged(hours.map((hour) => hour.denied.top(slots))).keys : netSpenders(hours);
    const listed = within === undefined ? keys : keys.filter(({ key }) => isKeyWithin(key, within));
    return listed.slice(0, limit).map((each) => {
      const sealed = sealedIn(hours, each.key);
      return sealed === null ? each : { ...each, sealed };
    });
  }

  sealedKeys(policy: string, keys: readonly string[], nowMs: number): readonly (string | null)[] {
    const hours = this.#hours(policy, nowMs);
    return keys.map((key) => sealedIn(hours, key));
  }

  /** Deletes rows of hours that began a day ago or earlier. */
  deleteOld(nowMs: number): void {
    this.#sql.exec("DELETE FROM top_keys WHERE at <= ?", nowMs - dayMs);
  }

  /** When the first row will be too old; null when there is none. */
  nextDeletionMs(): number | null {
    return numberOf(this.#sql, "SELECT min(at) + ? FROM top_keys", dayMs);
  }

  /** The hours of the policy that began less than a day ago, and not before `notBeforeMs`, the newest first. */
  #hours(policy: string, nowMs: number, notBeforeMs = 0): PolicyTop[] {
    const fromMs = Math.max(notBeforeMs, floorTo(hourMs, nowMs) - dayMs + 1);
    const select = "SELECT body FROM top_keys WHERE policy = ? AND at >= ? ORDER BY at DESC";
    const rows = this.#sql.exec<{ body: string }>(select, policy, fromMs).toArray();
    const open = [this.#current, ...this.#ended.toReversed()].filter(({ atMs }) => atMs >= fromMs);
    return [
      ...open.flatMap(({ policies }) => policies.get(policy) ?? []),
      ...rows.map(({ body }) => PolicyTop.revived(parsedRecord<PolicyTopState>(body))),
    ];
  }

  #top(policy: string): PolicyTop {
    const top = this.#current.policies.get(policy) ?? new PolicyTop();
    this.#current.policies.set(policy, top);
    return top;
  }
}

function merged(lists: readonly TopList[]): TopList {
  const sum = new SpaceSaving(slots);
  for (const list of lists) sum.merge(list);
  return sum.top(slots);
}

/** The spenders without what settlements gave back. The bounds of both lists hold for the difference. */
function netSpenders(hours: readonly PolicyTop[]): readonly CountedKey[] {
  const refunded = merged(hours.map((hour) => hour.refunded));
  const refunds = new Map(refunded.keys.map((each) => [each.key, each]));
  const unlisted = { count: refunded.mostOther, error: refunded.mostOther };
  return merged(hours.map((hour) => hour.spenders.top(slots)))
    .keys.map(({ key, count, error }) => {
      const back = refunds.get(key) ?? unlisted;
      const most = Math.max(0, count - (back.count - back.error));
      return { key, count: most, error: most - Math.max(0, count - error - back.count) };
    })
    .filter(({ count }) => count > 0)
    .toSorted((one, other) => other.count - one.count || one.error - other.error);
}

/** The newest sealed key of a partition key. */
const sealedIn = (hours: readonly PolicyTop[], key: string): string | null =>
  hours.map((hour) => hour.sealed(key)).find((sealed) => sealed !== undefined) ?? null;
