/**
 * The calls from an isolate (limiter/isolate) to an object (limiter/object), and their replies: plain data. Also which object
 * has a key.
 *
 * Two versions of both halves run at once during a deploy. Therefore fields are only added, never renamed or removed. A
 * field that an older caller leaves out has a default. An older object ignores fields that it does not know. A call whose
 * meaning changes gets a new name.
 *
 * The values of flat calls (flat-calls.ts) have no names, so their number and order never change. Fields can be added to a
 * `Charge`, which is sent as a text, and to a `CheckReply`, which is sent as a text when it has them. Everything else,
 * such as a new value of a check, needs a method with a new name.
 */
import type { Ban } from "../policy/denials.ts";
import { rootOfKey } from "../policy/partition-key.ts";
import type { Jurisdiction, LocationHint, ObjectSettings } from "../policy/placement.ts";
import type { Durability } from "../policy/policy.ts";
import type { PolicyRules, RulesVersion } from "../policy/runtime-rules.ts";
import type { Decision, Guarantee, Limit } from "../strategies/index.ts";

/**
 * The object sends this text in place of a reply when its storage can never work. The text must not change, because
 * other versions compare it.
 */
export const noSqliteStorage = "headgate: the storage of this Durable Object is not SQLite";

/**
 * The platform's default is five attempts in up to ten seconds, longer than a request should wait. 500 ms is the shortest
 * timeout it accepts; the deadline of a call is enforced here.
 */
export const platformRetries = { maxRetries: 1, timeoutMs: 500 };

export interface ObjectLocation {
  readonly name: string;
  /** Where a new object is created. An existing object does not move. */
  readonly locationHint: LocationHint | null;
  /** The same name in another jurisdiction is another object. */
  readonly jurisdiction: Jurisdiction | null;
}

/**
 * An object for one key has the partition key as its name; a shard is named `<shard>-of-<shards>`. A location hint adds
 * `@<hint>`. These names must never change: what is stored under the old names would be lost. A key within others is in the
 * object of its root's key.
 */
export function objectLocation(settings: ObjectSettings, partitionKey: string): ObjectLocation {
  const { shards, locationHint, jurisdiction } = settings;
  const rootKey = rootOfKey(partitionKey);
  const base = shards === null ? rootKey : `${shardOf(rootKey, shards)}-of-${shards}`;
  const name = locationHint === null ? base : `${base}@${locationHint}`;
  return { name, locationHint, jurisdiction };
}

/** Identifies an object among those of all jurisdictions. */
export const objectId = ({ name, jurisdiction }: ObjectLocation): string => `${jurisdiction ?? ""} ${name}`;

/** 48 bits in base64. */
const hashedCharacters = 8;

/**
 * The shard of a key, from 0: the first 48 bits of its partition key modulo the number of shards. The partition key is an
 * HMAC-SHA-256 in base64url.
 */
export function shardOf(partitionKey: string, shards: number): number {
  const base64 = partitionKey
    .slice(0, hashedCharacters)
    .replaceAll("-", "+")
    .replaceAll("_", "/")
    .padEnd(hashedCharacters, "A");
  let hash = 0;
  for (const character of atob(base64)) hash = hash * 256 + character.charCodeAt(0);
  return hash % shards;
}

/** The cost that one policy charges to a key. */
export interface Charge {
  policy: string;
  /** The partition key that is charged. Default: that of the call. */
  key?: string;
  limits: readonly Limit[];
  cost: number;
  /** The ban that denials by these limits bring. Default: none. */
  ban?: Ban;
  /** A dry run spends if its own limits allow it, and never denies the request. Default: false. */
  isDryRun?: boolean;
  /**
   * The runtime rules of the policy that the isolate applied to this charge. Default: the isolate has no control plane,
   * or is of a version without runtime rules. Such a charge is never stale.
   */
  rules?: PolicyRules;
  /** The guaranteed share of a child in a limit of its parent. Default: none. */
  share?: ChargeShare;
  /**
   * The request is of a class that may use every limit of this charge only up to this percentage of the capacity, from 1 to
   * 99. Default: no class.
   */
  upTo?: number;
}

/** A part of a limit of the parent: see strategies/shares.ts. It has no effect in a call that does not charge the parent. */
export interface ChargeShare {
  /** The parent's policy. At most one child policy of it has shares of the same limit. */
  readonly parent: string;
  /** The index of the limit among the parent's configured limits. */
  readonly limit: number;
  /**
   * The window of the limit, which rules and overrides may put in another place. Default: that of the limit with this index in
   * the parent's charge.
   */
  readonly windowMs?: number;
  readonly guaranteed: Guarantee;
  readonly weight: number;
}

/**
 * Why a charge is denied although its limits alone would allow it, or would have a shorter wait. `share`: other children are
 * guaranteed the rest. `class`: the request's class may not use the rest. `keys`: the root has too many live keys.
 */
export type BoundReason = "share" | "class" | "keys";

export interface ChargeDecision extends Decision {
  /** Default: the limits, a ban or a key rule decided. */
  reason?: BoundReason;
}

/**
 * Charges a key under several policies: all of them if every enforced policy allows, otherwise none. Isolates send it in the
 * flat form of flat-calls.ts.
 */
export interface CheckCall {
  /** The partition key. An object may hold many. */
  key: string;
  charges: readonly Charge[];
  /** Default: `relaxed`. */
  durability?: Durability | undefined;
  /**
   * How long the spend is provisional, in milliseconds: another object may still deny the same request. Default: 0, the
   * spend is final.
   */
  provisionalMs?: number;
}

/** How long a denial is firm if its reply does not state a duration, in milliseconds. */
export const defaultFirmMs = 1_000;

export interface CheckReply {
  /** One for each charge, in their order. */
  decisions: ChargeDecision[];
  /**
   * For each charge, the instant to which it is booked. A refund names it. 0 for a charge that a key rule allows: nothing is
   * spent, and a refund of it has no effect.
   */
  spentAtMs: number[];
  /** Whether the denial lasts until its wait is over or the key is forgotten. Default: false. */
  isFirm?: boolean;
  /**
   * How long a firm denial may be cached, in milliseconds. It is shorter while a provisional spend may be given back.
   * Default: `defaultFirmMs`.
   */
  firmForMs?: number;
  /**
   * Not empty when a charge was made under older policy rules than the object has seen: the newer rules, one entry for
   * each such policy. Nothing was decided or spent then, and the other fields are empty. Default: none.
   */
  stale?: readonly StaleRules[];
  /** For each charge, the key rule that decided it or gave its limits; null without one. Default: null for all. */
  keyRules?: readonly (KeyRule | null)[];
}

export interface StaleRules extends PolicyRules {
  readonly policy: string;
}

/** A runtime rule for one policy and one key. The object enforces it until it expires by the object's clock. */
export type KeyRule = {
  /** The id in the control plane. */
  readonly id: string;
  /** Milliseconds since the Unix epoch. Default: the rule does not expire. */
  readonly expiresAtMs?: number;
} & (
  | { readonly kind: "limits"; readonly limits: readonly Limit[] }
  /** The key is allowed and not charged. */
  | { readonly kind: "allow" }
  /** The key is denied, as by the policy's `deny` list. */
  | { readonly kind: "block" }
);

/** Whether a rule has not expired. `nowMs` is the time of the object, or an estimate of it. */
export const isLive = ({ expiresAtMs }: KeyRule, nowMs: number): boolean =>
  expiresAtMs === undefined || nowMs < expiresAtMs;

/** The most rules of one policy and one key. `setRules` takes them with the newest first. */
export const mostKeyRules = 16;

/**
 * The version of the key rules that the object has after `setRules`: the given one, or a newer one that it had before. The
 * given rules also replace rules of the same version, so that repeating a call restores what an older version has dropped.
 */
export interface SetRulesReply {
  readonly version: RulesVersion;
}

/** The spends of an isolate under `eventual` consistency, on one or several keys of the object. */
export interface SyncCall extends KeySync {
  /** The sender: 128 random bits as text. */
  isolate: string;
  /** Further keys. Default: none. */
  others?: readonly KeySync[];
}

/** The spends of an isolate on one key. */
export interface KeySync extends Pick<CheckCall, "key" | "durability"> {
  /** The isolate's number of this batch, from 1. A batch counts once. 0 for a batch without spends. */
  batch: number;
  charges: readonly SyncedCharge[];
}

export interface SyncedCharge extends Pick<Charge, "policy" | "limits"> {
  /** Units and how many milliseconds ago they were spent, the oldest first. */
  spends: readonly (readonly [agoMs: number, units: number])[];
}

export interface SyncReply {
  /**
   * The replies for the other keys, in their order. The last ones are missing if they do not fit in one reply.
   * Default: none.
   */
  others?: SyncReply[];
  /** A snapshot of each charge's meter as JSON, in their order. */
  snapshots: string[];
  /** For each charge, the key rule that decides it or gives its limits now; null without one. Default: null for all. */
  keyRules?: readonly (KeyRule | null)[];
  /** The object's time, integer milliseconds since the Unix epoch. */
  atMs: number;
}

/** Gives back what a check spent. `provisionalMs` has the value from the check. */
export interface RefundCall extends CheckCall {
  charges: readonly (Charge & { spentAtMs: number })[];
  /**
   * Whether the charges have the limits that were in effect for the key when they were spent. Default: false, the key's
   * current rules give the limits.
   */
  hasLimitsInEffect?: boolean;
}

export interface ForgetCall {
  key: string;
  policy: string;
}

/** A check whose cost `settle` corrects within `ttlMs`. Each renewal extends that by another `ttlMs`. */
export interface ReserveCall extends CheckCall {
  /** 128 random bits as text. */
  id: string;
  ttlMs: number;
  /**
   * Whether only dry-run policies need the settlement. Such a reservation ends early when others need room. Default:
   * false.
   */
  isDryRun?: boolean;
}

export interface ReserveReply extends CheckReply {
  /** Whether the reservation is open: every enforced policy allowed, and something was spent. */
  isOpen: boolean;
  /**
   * When nothing was spent because the key has the maximum of open reservations: milliseconds until one of them
   * expires; else 0.
   */
  fullForMs: number;
}

/** Extends a reservation and its concurrency slots by its ttl from now. */
export interface RenewCall {
  key: string;
  id: string;
}

export interface RenewReply {
  isOpen: boolean;
}

/** Ends a reservation and corrects it to its actual cost. */
export interface SettleCall {
  key: string;
  id: string;
  /** The actual cost of each charge. */
  cost: number;
  /**
   * The actual costs where they differ: one for each charge that was spent, in their order; in a tree first those of the
   * call's key, then those of each other key. Default: `cost` for each.
   */
  costs?: readonly number[];
  /** Whether the reply names what was settled. Default: false. */
  wantsCharges?: boolean;
}

export interface SettleReply {
  /** False for a reservation that is unknown, expired or already settled. */
  settled: boolean;
  /** Absent if the call did not ask for them, or if nothing was settled. */
  charges?: readonly SettledCharge[];
}

/** A reserved charge that was corrected to its actual cost. Times are milliseconds since the Unix epoch by the object's clock. */
export interface SettledCharge {
  policy: string;
  /** The partition key that was charged. Default: that of the call. */
  key?: string;
  cost: number;
  actualCost: number;
  spentAtMs: number;
  settledAtMs: number;
}

/** A check under `leased` consistency. It may lend the isolate units of what remains. */
export interface LeaseCall extends CheckCall {
  /** Null to lend nothing. */
  wanted: SliceWanted | null;
  /** Slices to settle before the check is decided. Default: none. */
  returned?: readonly SliceReturned[];
}

/** A slice of the quota: the same number of units of each charged policy. */
export interface SliceWanted {
  /** 128 random bits as text. */
  id: string;
  /** The most units to lend. */
  units: number;
  /** The fewest units to lend; nothing is lent instead of fewer. Default: 1. */
  leastUnits?: number;
  /**
   * How long the isolate may spend the units, in milliseconds from the decision. After that, all of them count as
   * spent.
   */
  ttlMs: number;
}

export interface SliceReturned {
  id: string;
  /** Units spent of each policy. The rest goes back. */
  used: number;
}

/**
 * The instants to which the used units of a returned slice are booked, one for each policy. There is none for a
 * policy whose part of the slice had already ended: that whole part was booked at its end.
 */
export type Settlement = readonly { policy: string; atMs: number }[];

export interface ReturnReply {
  /** One for each returned slice, in their order. */
  settled: readonly Settlement[];
}

/**
 * A slice ends when its `ttlMs` has passed since `spentAtMs`. A stale call settles the returned slices, but lends none.
 */
export interface LeaseReply extends CheckReply, ReturnReply {
  /** Units lent in addition to the charges that are spent; 0 when no slice was opened. */
  lentUnits: number;
}

/** Settles slices. No-op for a slice that is unknown, settled or expired. */
export interface ReturnCall {
  key: string;
  returned: readonly SliceReturned[];
}

/**
 * Why a request is denied. `deny`: the key is on the policy's `deny` list, blocked by a key rule, or lacks a required part.
 * `cost`: the cost exceeds the capacity. `reservations`: too many are open. `delay`: the request would wait longer than
 * `maxDelay`.
 */
export type DenialReason = "limit" | "ban" | "deny" | "cost" | "reservations" | "delay" | BoundReason;
