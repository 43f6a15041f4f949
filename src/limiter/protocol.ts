/**
 * What crosses between Worker and object: plain data, for two versions of either are deployed at once for a while. So
 * fields are only ever added; what a caller of an older version leaves out has a default, what an object of an older
 * version does not know it ignores. A call whose meaning changes gets a new name.
 */
import type { Ban, Durability } from "../config/index.ts";
import type { Decision, Limit } from "../strategies/index.ts";

/** What one policy is to spend on a key. */
export interface Charge {
  policy: string;
  limits: readonly Limit[];
  cost: number;
  /** What follows denials by these limits; nothing when left out. */
  ban?: Ban;
  /** Spent if its own limits allow it, and without a say in the others; false when left out. */
  isDryRun?: boolean;
}

interface KeyCall {
  /** The partition key: an object may hold many. */
  key: string;
  /** `relaxed` when left out. */
  durability?: Durability;
}

/** A charge for each policy that charges the key: allowed by all that are no dry runs, or spent by none. */
export interface CheckCall extends KeyCall {
  charges: readonly Charge[];
  /**
   * For how long what is spent may be given back as if it had never been, in milliseconds: another object may still deny
   * the same request. It is spent for good when left out.
   */
  provisionalMs?: number;
}

export interface CheckReply {
  /** One for each charge, in their order. */
  decisions: Decision[];
  /** For each charge the instant that it is booked to: what to give it back with. */
  spentAtMs: number[];
  /** Whether it is a denial that nothing but time and a DELETE can change; false when left out. */
  isFirm?: boolean;
  /**
   * For how long a firm denial may be remembered, in milliseconds: spends that are provisional may be given back. A
   * second when left out.
   */
  firmForMs?: number;
}

/** Checks that have nothing to do with one another, one after the other; a cost of 0 looks. */
export interface BatchCall {
  calls: readonly CheckCall[];
}

/** What an isolate has spent by itself, on one key or on several. */
export interface SyncCall extends KeySync {
  /** Who sends it: 128 random bits, as text. */
  isolate: string;
  /** None when left out. */
  others?: readonly KeySync[];
}

/** What was spent on a key, and when; the answer is how things stand. */
export interface KeySync extends KeyCall {
  /** Its number among the isolate's, from 1 on, which counts once; 0 of one without spends. */
  batch: number;
  charges: readonly SyncedCharge[];
}

export interface SyncedCharge extends Pick<Charge, "policy" | "limits"> {
  /** How many milliseconds ago so many units were spent, the longest first. */
  spends: readonly (readonly [agoMs: number, units: number])[];
}

export interface SyncReply {
  /** Of the first of the others, as far as there was room for them; none when left out. */
  others?: SyncReply[];
  /** Of each charge's meter, as JSON, in their order. */
  snapshots: string[];
  /** The object's time, integer milliseconds since the Unix epoch. */
  atMs: number;
}

/** Gives back what a check has spent. */
export interface RefundCall extends KeyCall {
  charges: readonly (Charge & { spentAtMs: number })[];
  /** What the check was made with; left out when its spend was not provisional. */
  provisionalMs?: number;
}

/** Forgets what a policy has counted for the key. */
export interface ForgetCall extends KeyCall {
  policy: string;
}

/** A check whose cost `settle` corrects, within `ttlMs` or as often as it is renewed by then. */
export interface ReserveCall extends CheckCall {
  /** 128 random bits, as text. */
  id: string;
  ttlMs: number;
  /** Whether only dry runs have something to correct: it makes room for others; false when left out. */
  isDryRun?: boolean;
}

export interface ReserveReply extends CheckReply {
  /** Whether the reservation is open: the request is allowed, and what is allowed is spent. */
  isOpen: boolean;
  /** More than 0 when nothing was spent because the key has as many open as it may: until the next of them expires. */
  fullForMs: number;
}

/** The work that a reservation is for goes on: it may be corrected for its ttl from now, and holds its slots as long. */
export interface RenewCall {
  key: string;
  id: string;
}

export interface RenewReply {
  isOpen: boolean;
}

/** Corrects a reservation to what it cost after all. */
export interface SettleCall {
  key: string;
  id: string;
  /** Of each charge. */
  cost: number;
  /** One for each charge that was spent, in their order, where they differ; `cost` when left out. */
  costs?: readonly number[];
}

export interface SettleReply {
  /** Whether this call settled it; not when it is unknown, expired or settled already. */
  settled: boolean;
}

/** A check that may lend the caller units of what is left, to be spent by itself for a while. */
export interface LeaseCall extends CheckCall {
  /** Null where it is to lend nothing. */
  wanted: SliceWanted | null;
  /** Slices that are settled before it is decided; none when left out. */
  returned?: readonly SliceReturned[];
}

/** A slice of the quota: so many units of each of the charges' policies. */
export interface SliceWanted {
  /** 128 random bits, as text. */
  id: string;
  /** Fewer may be lent. */
  units: number;
  /** What is less is not lent; 1 when left out. */
  leastUnits?: number;
  /** For how long from the decision on they may be spent; then all of them stand as spent. */
  ttlMs: number;
}

export interface SliceReturned {
  id: string;
  /** Units spent of each policy; the rest goes back. */
  used: number;
}

/**
 * Of a slice that was returned: the instants that what was used of it is booked to, by policy. Where one is missing its
 * time was up before, and all that was lent is booked to that instant.
 */
export type Settlement = readonly { policy: string; atMs: number }[];

/** One for each slice that was returned, in their order; nobody knows when left out. */
export interface ReturnReply {
  settled?: readonly Settlement[];
}

/** A slice's time is up its `ttlMs` after `spentAtMs`. */
export interface LeaseReply extends CheckReply, ReturnReply {
  /** 0 when no slice was opened. Beside them the charges are spent, as by a check. */
  lentUnits: number;
}

/** Settles slices: what is unknown, settled or over changes nothing. */
export interface ReturnCall {
  key: string;
  returned: readonly SliceReturned[];
}
