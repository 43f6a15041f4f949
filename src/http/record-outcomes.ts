/**
 * Records outcomes in the statistics of the isolate and in its traffic sample, after they are decided. Only this module counts
 * decisions, and code that decides does not depend on statistics.
 */
import type { KeyDenial, KeyResolution } from "../policy/resolve-key.ts";
import type { IsolateStatistics } from "../control/isolate/statistics.ts";
import type { OutcomeName } from "../control/protocol.ts";
import {
  admits,
  allows,
  denialReason,
  type DenialReason,
  isByKeyRule,
  objectKeyOf,
  type Outcome,
  type Spend,
  type ChargeResult,
  violatedLimits,
} from "../limiter/isolate/outcome.ts";
import type { LoggedDenial } from "../limiter/isolate/denial-log.ts";
import type { WaitUntil } from "../limiter/isolate/object-caller.ts";
import { keyPseudonym } from "../observability/events.ts";
import type { Runtime } from "./runtime.ts";

/** A request with its spends, after the limits have decided. */
export interface DecidedRequest {
  readonly spends: readonly Spend[];
  readonly admission: ChargeResult;
  /** The key resolutions of all policies, of which the exempt ones are counted. Default: none. */
  readonly resolutions?: readonly KeyResolution[];
}

/** How a request counts that is decided more than once. Default: each decision is a request of its own. */
export interface RequestCounting {
  /** False for a call of `/check` that its own limits admit: the checks of the call count. Default: true. */
  readonly countsAdmitted?: boolean;
  /** Whether the request is counted as admitted. Only its denial counts then. */
  isCounted?: boolean;
  /** Whether a request goes on despite this denial. It counts as admitted if no other policy denies it. */
  readonly goesOn?: (denying: Outcome) => boolean;
}

/**
 * Records the outcomes of a request, or of its refusal. No policy charges a refused request, so only the policies that
 * deny the request count it.
 */
export function recordOutcomes(
  { spends, admission, resolutions = [] }: DecidedRequest,
  { statistics }: Pick<Runtime, "statistics">,
  counting?: RequestCounting,
): void {
  if (statistics === null) return;
  const { outcomes, isRefused, dryRuns } = admission;
  const refusal = isRefused ? denyingOf({ spends, admission }) : null;
  if (refusal !== null) {
    const final = refusal.full ?? refusal.denying.find((each) => counting?.goesOn?.(each) !== true);
    countRequest(statistics, final?.policy.name ?? null, counting);
  } else if (outcomes.some(isEnforced) || resolutions.some(isExempt)) countRequest(statistics, null, counting);
  for (const outcome of outcomes) {
    if (!isRefused || !allows(outcome)) recordOutcome(statistics, outcome, spends);
  }
  if (refusal !== null) {
    const { full } = refusal;
    if (full !== undefined) statistics.record(full.policy.name, "denied", full, null, full.plain ?? null);
    return;
  }
  for (const { kind, policy } of resolutions) {
    if (kind === "exempt" && !policy.isOff) statistics.count(policy.name, "exempt");
  }
  if (dryRuns !== null) void recordLater(statistics, dryRuns, spends);
}

const isEnforced = ({ policy }: Outcome): boolean => !policy.isDryRun;
const isExempt = ({ kind, policy }: KeyResolution): boolean => kind === "exempt" && !policy.isOff && !policy.isDryRun;

/** @param deniedBy the policy that denied the request; null for an admitted one */
function countRequest(statistics: IsolateStatistics, deniedBy: string | null, counting?: RequestCounting): void {
  if (deniedBy === null && counting?.countsAdmitted === false) return;
  if (counting?.isCounted !== true) statistics.countRequest(deniedBy);
  else if (deniedBy !== null) statistics.countDenied(deniedBy);
  if (counting !== undefined && deniedBy === null) counting.isCounted = true;
}

/** Records dry runs when they are decided in the background. */
async function recordLater(
  statistics: IsolateStatistics,
  dryRuns: NonNullable<ChargeResult["dryRuns"]>,
  spends: readonly Spend[],
): Promise<void> {
  // The failure of a decision is reported where its work is passed to `waitUntil`.
  const outcomes = await dryRuns.catch(() => []);
  for (const outcome of outcomes.flat()) recordOutcome(statistics, outcome, spends);
}

function recordOutcome(statistics: IsolateStatistics, outcome: Outcome, spends: readonly Spend[]): void {
  const { name, isDryRun } = outcome.policy;
  const spend = spends.find(({ policy }) => policy.name === name);
  if (spend !== undefined) recordSpend(statistics, { outcome, name: nameOf(outcome, isDryRun) }, spend, spends);
}

/** An outcome, and the name under which the statistics count it. */
interface NamedOutcome {
  readonly outcome: Outcome;
  readonly name: OutcomeName;
}

/** @param spends all spends of the same request */
function recordSpend(statistics: IsolateStatistics, named: NamedOutcome, spend: Spend, spends: readonly Spend[]): void {
  const { outcome, name } = named;
  statistics.record(spend.policy.name, name, spend, outcome.decision, spend.plain ?? null);
  sampleArrival(statistics, named, spend, spends);
}

interface Denying {
  readonly denying: readonly Outcome[];
  /**
   * Without a denying outcome: the spend whose key may have the maximum of open reservations, which denies the request
   * although its limits allow it.
   */
  readonly full: Spend | undefined;
}

const isReserving = ({ policy, ttlMs }: Spend): boolean => ttlMs !== undefined && !policy.isDryRun;

/** The outcomes or the spend that deny a refused request. */
export function denyingOf({ spends, admission }: DecidedRequest): Denying {
  const denying = admission.outcomes.filter((outcome) => !admits(outcome));
  return { denying, full: denying.length === 0 ? spends.find(isReserving) : undefined };
}

function nameOf(outcome: Outcome, isDryRun: boolean): OutcomeName {
  const { kind, policy, decision } = outcome;
  if (decision === null) return kind === "open" ? "fallback-open" : "fallback-closed";
  if (isByKeyRule(outcome, "allow")) return "exempt";
  if (isByKeyRule(outcome, "block")) return isDryRun ? "dry-run-denied" : "blocked";
  // Under eventual consistency, an isolate always decides by itself.
  if (kind === "local" && policy.consistency.kind !== "eventual") return "fallback-local";
  if (decision.allowed) return "allowed";
  if (isDryRun) return "dry-run-denied";
  return decision.bannedForMs > 0 ? "banned" : "denied";
}

interface KeyDenialContext {
  readonly runtime: Runtime;
  readonly tenant: string | null;
  readonly counting?: RequestCounting | undefined;
}

/**
 * Records denials because of the key alone, for which no limit was charged, and logs those of enforced policies.
 * @returns the instance for the problem response; null when denials are not logged
 */
export async function recordKeyDenials(
  denials: readonly KeyDenial[],
  { runtime: { statistics, partitions }, tenant, counting }: KeyDenialContext,
): Promise<string | null> {
  if (statistics === null) return null;
  const denying = denials.find(({ policy }) => !policy.isDryRun);
  if (denying !== undefined) countRequest(statistics, denying.policy.name, counting);
  const keys = await Promise.all(
    denials.map(async (denial) => {
      if (denial.kind !== "blocked") return null;
      const { parts, values, ancestorParts } = denial;
      const partitionKey = await partitions.partitionKey(parts, values, tenant, ancestorParts);
      return { partitionKey, plain: { parts, values, tenant } };
    }),
  );
  let instance: string | null = null;
  for (const [index, { policy }] of denials.entries()) {
    const { partitionKey = null, plain = null } = keys[index] ?? {};
    const outcome = policy.isDryRun ? "dry-run-denied" : "blocked";
    const key = partitionKey === null ? null : { partitionKey, cost: 0 };
    if (key === null) statistics.count(policy.name, outcome);
    else statistics.record(policy.name, outcome, key, null, plain);
    if (policy.isDryRun) continue;
    const reason = key === null ? "key-missing" : "deny";
    const logged = statistics.logDenial({ policy: policy.name, outcome, reason, key, decision: null, plain }, instance);
    instance ??= logged;
  }
  return instance;
}

/**
 * Logs a denial by limits, a ban, a rule, `onError` or too many reservations: as events, and in the log of denials.
 * @returns the instance for the problem response; null when the log of denials is off
 */
export function logDeniedRequest(
  denied: DecidedRequest,
  { statistics, denialLog }: Pick<Runtime, "statistics" | "denialLog">,
  waitUntil: WaitUntil,
): string | null {
  const events = denialLog === null ? [] : loggedDenials(denied);
  for (const each of events) denialLog?.note(() => each, waitUntil);
  if (statistics === null) return null;
  let instance: string | null = null;
  const { denying, full } = denyingOf(denied);
  for (const outcome of denying) {
    const spend = denied.spends.find(({ policy }) => policy.name === outcome.policy.name);
    if (spend === undefined) continue;
    const named = { outcome: nameOf(outcome, false), reason: denialReason([outcome]) };
    const logged = statistics.logDenial(denialOf(spend, named, outcome.decision), instance);
    instance ??= logged;
  }
  if (full === undefined) return instance;
  return statistics.logDenial(denialOf(full, { outcome: "denied", reason: "reservations" }, null), null);
}

/** The wait that the problem `in-flight-full` advises: a slot may become free long before its reservation expires. */
const fullRetryAfterMs = 1_000;

/** The denials of a request, one for each policy that denies it, as events. */
function loggedDenials(denied: DecidedRequest): LoggedDenial[] {
  const { denying, full } = denyingOf(denied);
  if (full === undefined) {
    // Outcomes without a decision are left out: the event `object-silent` reports them.
    return denying.flatMap((outcome) => loggedDenial(outcome, denied.spends) ?? []);
  }
  const key = keyPseudonym(full.partitionKey);
  return [{ policy: full.policy.name, reason: "reservations", violated: [], key, retryAfterMs: fullRetryAfterMs }];
}

function loggedDenial(outcome: Outcome, spends: readonly Spend[]): LoggedDenial | null {
  const { policy, decision } = outcome;
  if (decision === null) return null;
  const spend = spends.find((each) => each.policy.name === policy.name);
  return {
    policy: policy.name,
    reason: denialReason([outcome]),
    violated: isByKeyRule(outcome, "block") ? [] : violatedLimits([decision]),
    ...(spend !== undefined && { key: keyPseudonym(spend.partitionKey) }),
    retryAfterMs: decision.retryAfterMs,
  };
}

const denialOf = (
  { policy, partitionKey, cost, plain }: Spend,
  named: { readonly outcome: OutcomeName; readonly reason: DenialReason },
  decision: Outcome["decision"],
) => ({ policy: policy.name, key: { partitionKey, cost }, plain: plain ?? null, decision, ...named });

/** A check that the limits have decided, or that was answered without them. */
interface FinishedCheck {
  readonly resolved: {
    readonly spend: Spend;
    readonly uncharged: "allow" | "deny" | "off" | null;
    readonly isDryRun: boolean;
  };
  /** Null when the limits have not decided. */
  readonly outcome: Outcome | null;
}

/** Records a check, which counts as one request. Looks are not recorded. */
export function recordCheck({ resolved, outcome }: FinishedCheck, { statistics }: Pick<Runtime, "statistics">): void {
  const { spend, uncharged, isDryRun } = resolved;
  if (statistics === null || uncharged === "off") return;
  const isAllowed = uncharged === null ? outcome !== null && allows(outcome) : uncharged === "allow";
  if (!isDryRun) countRequest(statistics, isAllowed ? null : spend.policy.name);
  if (uncharged === null && outcome !== null) {
    recordSpend(statistics, { outcome, name: nameOf(outcome, isDryRun) }, spend, [spend]);
  } else {
    // Without an outcome, the key has the maximum of open reservations.
    const name = uncharged === null ? "denied" : unchargedName(uncharged, isDryRun);
    statistics.record(spend.policy.name, name, spend, null, spend.plain ?? null);
  }
}

/** Logs a denied check. Dry runs deny nothing. */
export function logCheckDenial(
  { resolved: { spend, isDryRun, uncharged }, outcome }: FinishedCheck,
  reason: DenialReason,
  { statistics }: Pick<Runtime, "statistics">,
): string | null {
  if (statistics === null || isDryRun) return null;
  const decided = uncharged === null ? outcome : null;
  const undecided = uncharged === null ? "denied" : "blocked";
  const name = decided === null ? undecided : nameOf(decided, false);
  return statistics.logDenial(denialOf(spend, { outcome: name, reason }, decided?.decision ?? null), null);
}

function unchargedName(uncharged: "allow" | "deny", isDryRun: boolean): OutcomeName {
  if (uncharged === "allow") return "exempt";
  return isDryRun ? "dry-run-denied" : "blocked";
}

/**
 * Records the arrival of a spend if its key is in the sample, and if limits, a ban or `onError` decided. Lists and key
 * rules that allow or block a key do not depend on limits.
 */
function sampleArrival(
  { traffic }: Pick<IsolateStatistics, "traffic">,
  { name, outcome }: NamedOutcome,
  spend: Spend,
  spends: readonly Spend[],
): void {
  const { policy, partitionKey, cost } = spend;
  if (traffic === null || !traffic.includes(partitionKey)) return;
  if (name === "exempt" || name === "blocked") return;
  const ttlMs = reservedForMs(spend, spends);
  if (cost === 0 && ttlMs === 0) return;
  if (isByKeyRule(outcome, "allow") || isByKeyRule(outcome, "block")) return;
  // The object gives no time for a key that a rule allows, even while a ban denies it.
  if (outcome.decidedAtMs === 0) return;
  traffic.add(policy.name, partitionKey, {
    kind: "arrival",
    atMs: outcome.decidedAtMs,
    cost,
    outcome: name,
    ttlMs,
    hasOtherLimits: hasOtherLimits(outcome.policy, spend),
  });
}

/** The object reserves all spends of a request on one key or tree equally long: for the longest `ttlMs` among them. */
function reservedForMs(spend: Spend, spends: readonly Spend[]): number {
  let longestMs = 0;
  for (const each of spends) {
    if (objectKeyOf(each) === objectKeyOf(spend)) longestMs = Math.max(longestMs, each.ttlMs ?? 0);
  }
  return longestMs;
}

/** Whether the limits of an override or of a key rule decided, and not those of the policy. */
function hasOtherLimits({ limits }: Outcome["policy"], { policy }: Spend): boolean {
  const { lists, ruleLists } = policy;
  return (
    limits !== policy.limits ||
    [lists, ruleLists].some(({ overrides }) => overrides.some((override) => override.limits === limits))
  );
}
