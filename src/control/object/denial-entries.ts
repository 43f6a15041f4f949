/** Entries of the log of denials: how they are ordered, selected and stored. */
import type { DenialsQuery, LoggedLimit, LoggedReason, StoredDenial } from "../denial-calls.ts";
import type { OutcomeName } from "../protocol.ts";
import { isNumber, listIn, numberIn, rowsIn } from "./storage.ts";

/** An order in which the log is read. No entry of a chunk has a lower position than the chunk. */
export interface LogOrder {
  readonly position: (denial: StoredDenial) => number;
  readonly chunkPosition: (chunk: { readonly fromMs: number; readonly toMs: number }) => number;
  readonly compare: (one: StoredDenial, other: StoredDenial) => number;
}

export const newestFirst: LogOrder = {
  position: ({ lastAtMs }) => -lastAtMs,
  chunkPosition: ({ toMs }) => -toMs,
  compare: (one, other) => other.lastAtMs - one.lastAtMs || other.seq - one.seq,
};

export const oldestFirst: LogOrder = {
  position: ({ atMs }) => atMs,
  chunkPosition: ({ fromMs }) => fromMs,
  compare: (one, other) => one.atMs - other.atMs || one.seq - other.seq,
};

export const isOf = (policy: string, { policy: queried, keys }: DenialsQuery): boolean =>
  (queried === undefined || queried === policy) && keys?.some((key) => key.policy === policy) !== false;

export function filterOf(query: DenialsQuery): (denial: StoredDenial) => boolean {
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

type LimitRow = readonly [name: string, used: number, capacity: number, windowMs: number];
export type DenialRow = readonly [
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

export const rowOf = (denial: StoredDenial): DenialRow => [
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

export const entriesIn = (policy: string, rows: readonly DenialRow[] | undefined): StoredDenial[] =>
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
