/** The reply to the calls `explain` and `explainTree`: the state that decides a call. The rules of protocol.ts hold. */
import type { RulesVersion } from "../policy/runtime-rules.ts";
import type { Limit, UsageBreakdown } from "../strategies/index.ts";
import type { ChargeShare, CheckReply, KeyRule } from "./protocol.ts";

/** Slices or reservations of one policy on a key. */
export interface OpenUnits {
  readonly count: number;
  /** The units of all of them. */
  readonly units: number;
  /** When the first of them ends; null when there is none. */
  readonly nextEndAtMs: number | null;
}

/** The state of a key that decides one charge. */
export interface ExplainedCharge {
  readonly policy: string;
  /** The limits in effect: those of a key rule, or of the charge. */
  readonly limits: readonly Limit[];
  /** How each of these limits arrives at its used units, lent units included. */
  readonly accounts: readonly UsageBreakdown[];
  /** More than 0 while a ban denies the key. */
  readonly bannedForMs: number;
  /** The live key rules, the newest first. */
  readonly keyRules: readonly KeyRule[];
  /** The version of the key rules; null when the object knows none. */
  readonly keyRulesVersion: RulesVersion | null;
  /** The version of the policy rules that is stored with the key; null for none. */
  readonly policyRulesVersion: RulesVersion | null;
  /** Units that are lent to isolates. They count as spent until they are returned. */
  readonly slices: OpenUnits;
  readonly reservations: OpenUnits;
  /** The share of a child in a limit of its parent. Default: the charge has none. */
  readonly share?: ExplainedShare;
  /** The limits of a parent that its children share. Default: none. */
  readonly sharedLimits?: readonly ExplainedSharedLimit[];
}

export interface ExplainedShare extends ChargeShare {
  /** The units that are guaranteed now. With "fair" they depend on the active children. */
  readonly guaranteedUnits: number;
  /** The child's part of the limit's used units. */
  readonly usedUnits: number;
  /** Whether the child has sent a request so recently that its guarantee is withheld from others. */
  readonly isActive: boolean;
}

export interface ExplainedSharedLimit {
  /** The index of the limit. */
  readonly limit: number;
  readonly activeChildren: number;
  /** The units that active children are guaranteed and have not used. */
  readonly withheldUnits: number;
}

export interface ExplainReply {
  /** The object's time, integer milliseconds since the Unix epoch. */
  readonly atMs: number;
  /** The reply to a look with the same charges. */
  readonly reply: CheckReply;
  /** One for each charge, in their order. */
  readonly charges: readonly ExplainedCharge[];
}
