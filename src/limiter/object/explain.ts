/** Everything that decides a call on a key, for the admin API. Changes nothing. */
import type { Charge, CheckReply, ExplainedCharge, ExplainReply } from "../protocol.ts";
import type { KeyTurn } from "./charged-meter.ts";
import { limitsUnder } from "./key-rule-sets.ts";

/** @param reply that of a look for the same charges */
export const explain = (turn: KeyTurn, charges: readonly Charge[], reply: CheckReply): ExplainReply => ({
  atMs: turn.nowMs,
  reply,
  charges: charges.map((charge) => explained(turn, charge)),
});

function explained({ keyState, nowMs }: KeyTurn, charge: Charge): ExplainedCharge {
  const { policy, ban } = charge;
  const keyRules = keyState.rulesOf(policy);
  const limits = limitsUnder(keyRules, charge.limits);
  return {
    policy,
    limits,
    accounts: keyState.meterOf({ policy, limits }).account(nowMs, keyState.heldUnits(policy)),
    bannedForMs: ban === undefined ? 0 : keyState.meters.bannedForMs(policy, ban, nowMs),
    keyRules,
    keyRulesVersion: keyState.rulesVersionOf(policy),
    policyRulesVersion: versionOf(keyState.policyRules.get(policy)),
    slices: keyState.slicesOf(policy),
    reservations: keyState.reservationsOf(policy, nowMs),
  };
}

const versionOf = (
  rules: { readonly epoch: number; readonly version: number } | undefined,
): ExplainedCharge["policyRulesVersion"] =>
  rules === undefined ? null : { epoch: rules.epoch, version: rules.version };
