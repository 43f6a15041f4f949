/** The explanation of a charge. */
import type { ExplainedCharge, ExplainedSharedLimit, ExplainedShare, OpenUnits } from "../explanation.ts";
import type { KeyTurn, RuledCharge } from "./key-turn.ts";

const nothingOpen: OpenUnits = { count: 0, units: 0, nextEndAtMs: null };

/** Everything that decides a charge. @param all the charges of the call */
export function explained(turn: KeyTurn, charged: RuledCharge, all: readonly RuledCharge[]): ExplainedCharge {
  const { nowMs } = turn;
  const { policy } = charged.charge;
  const { keyState, limits, meter, heldUnits, bannedForMs, rules } = charged;
  const policyRules = keyState.policyRules?.get(policy);
  const share = explainedShare(charged, all, nowMs);
  const sharedLimits = explainedSharedLimits(charged, nowMs);
  return {
    policy,
    limits,
    accounts: meter.account(nowMs, heldUnits),
    bannedForMs,
    keyRules: rules,
    keyRulesVersion: keyState.rulesVersionOf(policy),
    policyRulesVersion: policyRules === undefined ? null : { epoch: policyRules.epoch, version: policyRules.version },
    slices: keyState.slices?.openOf(policy) ?? nothingOpen,
    reservations: keyState.reservations?.openOf(policy, nowMs) ?? nothingOpen,
    ...(share !== null && { share }),
    ...(sharedLimits.length > 0 && { sharedLimits }),
  };
}

function explainedShare(
  { charge, keyState }: RuledCharge,
  all: readonly RuledCharge[],
  nowMs: number,
): ExplainedShare | null {
  const { share } = charge;
  const parent = all.find((each) => each.charge.policy === share?.parent);
  const part = parent?.bounds?.parts.find((each) => each.childState === keyState && each.childPolicy === charge.policy);
  if (share === undefined || part === undefined) return null;
  const { key } = keyState;
  const { guaranteed: guaranteedUnits, used: usedUnits } = part.shares.look(key, part.weight, 0, nowMs);
  return { ...share, guaranteedUnits, usedUnits, isActive: part.shares.isActive(key, nowMs) };
}

const explainedSharedLimits = ({ bounds }: RuledCharge, nowMs: number): ExplainedSharedLimit[] =>
  (bounds?.parts ?? []).map(({ index, shares }) => {
    const withheldUnits = shares.withheldAt(nowMs);
    return { limit: index, activeChildren: shares.activeCount, withheldUnits };
  });
