/**
 * Charges on one key, decided together: allowed by all, or spent by none. A ban refuses beside the limits; a dry run has
 * no say in what is decided for the others.
 */
import {
  changesByDenial,
  type Decision,
  longestWaitMs,
  type Meter,
  releases,
} from "../strategies/index.ts";
import type { Account } from "./account.ts";
import type { Charge, Verdict } from "./protocol.ts";

export type MeterOf = (account: Account, charge: Pick<Charge, "policy" | "limits">) => Meter;
export type Spending = (meter: Meter, cost: number, nowMs: number) => Decision;

/** A charge, and what is counted for it. */
interface Asked {
  readonly charge: Charge;
  readonly meter: Meter;
  /** More than 0 while a ban refuses the key. */
  readonly bannedForMs: number;
}

/** What `decide` would answer to each charge by itself. */
export function lookAt(
  account: Account,
  charges: readonly Charge[],
  nowMs: number,
  meterOf: MeterOf,
): Verdict {
  const asked = askedOf(account, charges, nowMs, meterOf);
  const decisions = asked.map(({ charge, meter, bannedForMs }) =>
    refusedFor(bannedForMs, meter.look(charge.cost, nowMs)),
  );
  return { decisions, spentAtMs: asked.map(({ meter }) => meter.seenMs) };
}

/** @param spend by which each is spent */
export function decide(
  account: Account,
  charges: readonly Charge[],
  nowMs: number,
  meterOf: MeterOf,
  spend: Spending,
): Verdict {
  const asked = askedOf(account, charges, nowMs, meterOf);
  const enforced = asked.filter(({ charge }) => charge.isDryRun !== true);
  const isBanned = enforced.some(({ bannedForMs }) => bannedForMs > 0);
  const decided = new Map<Asked, Decision>();
  // One alone need not be asked before.
  const isAllowed =
    !isBanned &&
    (enforced.length === 1 ||
      enforced.every(({ charge, meter }) => meter.look(charge.cost, nowMs).allowed));
  for (const each of enforced) {
    const { charge, meter } = each;
    if (isAllowed) decided.set(each, spend(meter, charge.cost, nowMs));
    else {
      // Whichever of them denies, the request is denied to all.
      meter.deny(nowMs);
      decided.set(each, meter.look(charge.cost, nowMs));
    }
  }
  const isAdmitted = isAllowed && enforced.every((each) => decided.get(each)?.allowed === true);
  for (const each of asked) {
    if (decided.has(each)) continue;
    const { charge, meter } = each;
    decided.set(
      each,
      isAdmitted ? spend(meter, charge.cost, nowMs) : meter.look(charge.cost, nowMs),
    );
  }
  const decisions = asked.flatMap((each) => {
    const decision = decided.get(each);
    return decision === undefined ? [] : banned(account, each, decision, nowMs);
  });
  const isFirm = !isAdmitted && account.isSettled(nowMs) && enforced.every(isFirmFor);
  return {
    decisions,
    spentAtMs: asked.map(({ meter }) => Math.max(nowMs, meter.seenMs)),
    ...(isFirm && { isFirm }),
  };
}

/** Slots come free at any time; an elastic window, and what is not banned yet, are changed by each denial. */
const isFirmFor = ({ charge: { ban, limits }, bannedForMs }: Asked): boolean =>
  (ban === undefined || bannedForMs > 0) &&
  !limits.some((limit) => releases(limit) || changesByDenial(limit));

const askedOf = (
  account: Account,
  charges: readonly Charge[],
  nowMs: number,
  meterOf: MeterOf,
): Asked[] =>
  charges.map((charge) => ({
    charge,
    meter: meterOf(account, charge),
    bannedForMs:
      charge.ban === undefined ? 0 : account.bannedForMs(charge.policy, charge.ban, nowMs),
  }));

/** The decision with the ban that refuses it, or that it is the last strike for. */
function banned(
  account: Account,
  { charge: { policy, ban }, bannedForMs }: Asked,
  decision: Decision,
  nowMs: number,
): Decision {
  const isStrike = ban !== undefined && bannedForMs === 0 && !decision.allowed;
  return refusedFor(isStrike ? account.strike(policy, ban, nowMs) : bannedForMs, decision);
}

function refusedFor(bannedForMs: number, decision: Decision): Decision {
  if (bannedForMs === 0) return decision;
  const retryAfterMs = longestWaitMs([decision, { retryAfterMs: bannedForMs }]);
  return { ...decision, allowed: false, delayMs: 0, retryAfterMs, bannedForMs };
}
