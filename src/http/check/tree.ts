/** Checks of a tree: a key of a policy with `within` charges every level, all or none. */
import type { RequestScope } from "../../limiter/isolate/newer-rules-retry.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import {
  ChargeResult,
  denialReason,
  isByKeyRule,
  type Outcome,
  type Spend,
  violatedLimits,
} from "../../limiter/isolate/outcome.ts";
import { longestWaitMs } from "../../strategies/index.ts";
import { logDeniedRequest, recordOutcomes } from "../record-outcomes.ts";
import type { Runtime } from "../runtime.ts";
import { rateLimitFields, retryAfterFieldOf } from "../wire/rate-limit-fields.ts";
import type { Failure } from "../wire/problems.ts";
import type { CheckAnswer, ResolvedCheck } from "./answer.ts";

/** The levels of a key, the root first and the level that the caller names last. */
export type Levels = readonly ResolvedCheck[];

export interface DecidedTree {
  readonly levels: Levels;
  readonly admission: ChargeResult;
  /** The UUID of a denial in the log of denials. Default: it is not logged. */
  readonly instance?: string;
}

/**
 * The spends of the levels that are charged. A level that is off, or exempts the key, has none. A `deny` list of any level makes
 * all of them looks.
 */
export function groupOf(levels: Levels): readonly Spend[] {
  const isBlocked = blockingLevel(levels) !== undefined;
  return levels.flatMap(({ spend, uncharged }) => {
    if (uncharged !== null) return [];
    return isBlocked ? { ...spend, cost: 0 } : spend;
  });
}

/** The level whose `deny` list denies the check. */
export const blockingLevel = (levels: Levels): ResolvedCheck | undefined =>
  levels.find(({ uncharged, isDryRun }) => uncharged === "deny" && !isDryRun);

/**
 * Charges all levels, or looks at them.
 * @param ttlMs of a reservation; without it the charge is final
 */
export async function decideTree(
  { limiter }: Pick<Runtime, "limiter">,
  levels: Levels,
  scope: RequestScope,
  { isLook, ttlMs }: { readonly isLook: boolean; readonly ttlMs?: number },
): Promise<DecidedTree & { readonly address: ChargeResult["address"] }> {
  const spends = groupOf(levels);
  if (spends.length === 0) return { levels, admission: new ChargeResult(), address: null };
  if (isLook || blockingLevel(levels) !== undefined) {
    return { levels, admission: await limiter.lookAll(spends, scope), address: null };
  }
  if (ttlMs !== undefined) {
    const admission = await limiter.reserve(spends, ttlMs, scope);
    // The statistics need to know that the spends are reserved.
    const reserved = levels.map((level) => ({ ...level, spend: { ...level.spend, ttlMs } }));
    return { levels: reserved, admission, address: admission.address };
  }
  const [admission = new ChargeResult()] = await limiter.admitEach([spends], scope);
  return { levels, admission, address: null };
}

/** The answer names the policy of the caller, and lists the limits of every level. */
export function treeAnswer({ levels, admission }: DecidedTree): CheckAnswer | Failure {
  const { outcomes, fullForMs } = admission;
  const enforced = outcomes.filter(({ policy }) => !policy.isDryRun);
  const isDecided = outcomes.every(({ decision }) => decision !== null);
  if (!isDecided) return { kind: "undecided" };
  const denying = enforced.filter(isDenying);
  const isBlocked = blockingLevel(levels) !== undefined;
  if (fullForMs > 0 && denying.length === 0) return { kind: "reservations-full", retryAfterMs: fullForMs };
  const own = levels.at(-1);
  if (own === undefined) return { kind: "internal" };
  const { policy, cost } = own.spend;
  const refused = decisionsOf(denying);
  const decided = decisionsOf(enforced);
  const isAllowed = denying.length === 0 && !isBlocked;
  const isByObject = enforced.length > 0 && !isBlocked && enforced.every(({ kind }) => kind === "decided");
  const limits = enforced.flatMap((outcome) => outcome.policy.limits);
  return {
    allowed: isAllowed,
    cost,
    delayMs: isAllowed ? Math.max(0, ...decided.map(({ delayMs }) => delayMs)) : 0,
    retryAfterMs: isBlocked ? null : longestWaitMs(refused),
    bannedForMs: Math.max(0, ...refused.map(({ bannedForMs }) => bannedForMs)),
    limits: decisionsOf(outcomes).flatMap((decision) => decision.limits),
    policy: policy.name,
    reason: isAllowed ? allowedReason(own, outcomes) : isBlocked ? "deny" : denialReason(denying),
    violated: isBlocked ? [] : violatedLimits(isAllowed ? decisionsOf(outcomes.filter(isDenying)) : refused),
    headers: isByObject ? rateLimitFields(limits, decided) : retryAfterFieldOf(isBlocked ? [] : decided),
  };
}

const decisionsOf = (outcomes: readonly Outcome[]) => outcomes.flatMap(({ decision }) => decision ?? []);

const isDenying = ({ decision }: Outcome): boolean => decision?.allowed === false;

/** Why a check is allowed: what the level of the caller says. */
function allowedReason(
  { spend, uncharged, isDryRun }: ResolvedCheck,
  outcomes: readonly Outcome[],
): CheckAnswer["reason"] {
  if (uncharged !== null) return uncharged === "deny" ? "dry-run" : uncharged;
  const own = outcomes.find(({ policy }) => policy.name === spend.policy.name);
  if (own === undefined) return "limit";
  if (isByKeyRule(own, "allow")) return "allow";
  return isDryRun && isDenying(own) ? "dry-run" : "limit";
}

/**
 * Counts a check that no `deny` list denies as one request, and logs it if it is a denial.
 * @returns the instance of a denial that the control plane will log; null for other checks
 */
export function reportTree(runtime: Runtime, { levels, admission }: DecidedTree, waitUntil: WaitUntil): string | null {
  const { statistics } = runtime;
  const request = { spends: groupOf(levels), admission };
  recordOutcomes(request, runtime);
  const exempt = admission.isRefused ? [] : levels.filter(({ uncharged }) => uncharged === "allow");
  for (const { spend } of exempt) statistics?.count(spend.policy.name, "exempt");
  // The outcomes of enforced policies count the request already.
  const isCounted = admission.isRefused || admission.outcomes.some(({ policy }) => !policy.isDryRun);
  if (!isCounted && exempt.some(({ isDryRun }) => !isDryRun)) statistics?.countRequest(null);
  return admission.isRefused ? logDeniedRequest(request, runtime, waitUntil) : null;
}
