/**
 * What crosses between Worker and object: plain data, for two versions of either are deployed at once for a while. So
 * fields are only ever added; what a caller of an older version leaves out has a default, what an object of an older
 * version does not know it ignores. A call whose meaning changes gets a new name.
 */
import type { Durability } from "../config/index.ts";
import type { Decision, Limit } from "../strategies/index.ts";

/** What one policy is to spend on a key. */
export interface Charge {
  policy: string;
  limits: readonly Limit[];
  cost: number;
}

interface KeyCall {
  /** The partition key: an object may hold many. */
  key: string;
  /** `relaxed` when left out. */
  durability?: Durability;
}

/** A charge for each policy that charges the key: allowed by all, or spent by none. */
export interface CheckCall extends KeyCall {
  charges: readonly Charge[];
}

export interface Verdict {
  /** One for each charge, in their order. */
  decisions: Decision[];
  /** For each charge the instant that it is booked to: what to give it back with. */
  spentAtMs: number[];
}

/** Gives back what a check has spent. */
export interface RefundCall extends KeyCall {
  charges: readonly (Charge & { spentAtMs: number })[];
}

/** Forgets what a policy has counted for the key. */
export interface ForgetCall extends KeyCall {
  policy: string;
}

/** A check whose cost `settle` corrects, within `ttlMs`. */
export interface ReserveCall extends CheckCall {
  /** 128 random bits, as text. */
  id: string;
  ttlMs: number;
}

export interface Reserved extends Verdict {
  /** Whether the reservation is open: all charges are allowed, and spent. */
  isOpen: boolean;
  /** More than 0 when nothing was spent because the key has as many open as it may: until the next of them expires. */
  fullForMs: number;
}

/** Corrects a reservation to what it cost after all. */
export interface SettleCall {
  key: string;
  id: string;
  cost: number;
}

export interface Settled {
  /** Whether this call settled it; not when it is unknown, expired or settled already. */
  settled: boolean;
}
