/** One turn of an object: the states of the keys that a call names, and its charges with everything that decides them. */
import type { Durability } from "../../policy/policy.ts";
import type { Bounds, Limit, LimitsMeter, SharedPart } from "../../strategies/index.ts";
import type { Charge, KeyRule } from "../protocol.ts";
import type { KeyState } from "./key-state.ts";
import type { SharedLimit, SharedLimits } from "./shared-limits.ts";

/** The state of a key, and the one instant at which a call acts on it. */
export interface KeyTurn {
  /** The state of the key that the call names. */
  readonly keyState: KeyState;
  /** The states of the other keys of a tree, with their numbers of changes before the turn; null without others. */
  others: Map<string, { readonly keyState: KeyState; readonly changes: number }> | null;
  /** Loads the state of another key of the object. */
  readonly load: (key: string, nowMs: number) => KeyState;
  readonly nowMs: number;
  readonly sharedLimits: SharedLimits;
  /** The turn may set `confirmed`: the platform then holds the reply until the write is confirmed. */
  durability: Durability | undefined;
}

/** The state of a key that takes part in the turn. @param key default: the key that the call names */
export function stateOf(turn: KeyTurn, key: string | undefined): KeyState {
  if (key === undefined || key === turn.keyState.key) return turn.keyState;
  const known = turn.others?.get(key)?.keyState;
  if (known !== undefined) return known;
  const keyState = turn.load(key, turn.nowMs);
  turn.others ??= new Map();
  turn.others.set(key, { keyState, changes: keyState.changes });
  return keyState;
}

/** The states of all keys of the turn. */
export const statesOf = ({ keyState, others }: KeyTurn): readonly KeyState[] =>
  others === null ? [keyState] : [keyState, ...[...others.values()].map((each) => each.keyState)];

/** One charge of a call with its meter, and everything that takes precedence over its limits: bans and key rules. */
export interface RuledCharge {
  readonly charge: Charge;
  /** The state of the key that is charged. */
  readonly keyState: KeyState;
  /** The limits in effect: those of a key rule, or of the charge. The meter has them. */
  readonly limits: readonly Limit[];
  readonly meter: LimitsMeter;
  readonly heldUnits: number;
  /** Null without a class and without shares. */
  bounds: ChargeBounds | null;
  /** More than 0 while a ban denies the key. */
  readonly bannedForMs: number;
  /** The live key rules of the policy, the newest first. */
  readonly rules: readonly KeyRule[];
  /** The rule that decides the charge or gives its limits; null without one. */
  readonly rule: KeyRule | null;
}

/** The bounds of a charge by a class and by shares. */
export interface ChargeBounds extends Bounds {
  readonly parts: readonly BoundPart[];
}

/** A shared limit of a charge, with the child that sends the request. */
export interface BoundPart extends SharedPart {
  readonly shared: SharedLimit;
  /** The state and the policy of the child; null without one. */
  readonly childState: KeyState | null;
  readonly childPolicy: string;
  isLook: boolean;
}
