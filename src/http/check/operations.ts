/** The operations of `/check` and of the service binding: resolve the key, decide, and build the answer. */
import { type CheckToken, partName, type Policy } from "../../config/index.ts";
import type { WaitUntil } from "../../limiter/client/object-caller.ts";
import {
  admits,
  denialReason,
  type DenialReason,
  type Outcome,
  type Spend,
  violatedLimits,
} from "../../limiter/client/outcome.ts";
import { addressOf, reservationId } from "../../limiter/client/reservation-id.ts";
import { keyPseudonym, report } from "../../observability/events.ts";
import { contradictedPart, noAttributes } from "../../policies/caller-attributes.ts";
import { resolveCallerKey } from "../../policies/resolve-key.ts";
import { createMeter, type Decision } from "../../strategies/index.ts";
import type { Check, KeyReference, ReservationRequest, SettleInput } from "./input.ts";
import type { Runtime } from "../runtime.ts";
import {
  rateLimitFields,
  type RateLimitFields,
  retryAfterFieldOf,
} from "../wire/rate-limit-fields.ts";
import type { Failure } from "../wire/problems.ts";

/** The tenant whose keys are charged. Null: the keys of the proxy. */
type Tenant = CheckToken["tenant"];

export interface CheckAnswer extends Decision {
  policy: string;
  /** Why the check is denied; if allowed, whether by the limits, the `allow` list or dry run. */
  reason: DenialReason | "allow" | "dry-run";
  /** The names of the limits that deny; empty when a ban or a `deny` list denies. */
  violated: string[];
  headers: RateLimitFields;
}

/** `id` is null when the object has charged nothing: there is nothing to settle. */
export interface ReserveAnswer extends CheckAnswer {
  id: string | null;
}

export interface SettleAnswer {
  /** False when the reservation is unknown, expired or already settled. */
  settled: boolean;
}

export async function decideCheck(
  runtime: Runtime,
  check: Check,
  tenant: Tenant,
  waitUntil: WaitUntil,
): Promise<CheckAnswer | Failure> {
  if (check.cost === 0) return look(runtime, check, tenant);
  const resolved = await resolveCheck(runtime, check, tenant);
  if ("kind" in resolved) return resolved;
  const decide = async (): Promise<CheckAnswer | Failure> => {
    if (resolved.list !== null) return lookAtListedKey(runtime, resolved);
    const { outcomes } = await runtime.limiter.admit([resolved.spend], waitUntil);
    const [outcome] = outcomes;
    return outcome === undefined ? internal : answerOf(outcome, resolved);
  };
  return logDenial(runtime, await decide(), resolved, waitUntil);
}

/** Decides without spending. */
export async function look(
  runtime: Runtime,
  check: Check,
  tenant: Tenant,
): Promise<CheckAnswer | Failure> {
  const resolved = await resolveCheck(runtime, check, tenant);
  if ("kind" in resolved) return resolved;
  if (resolved.list !== null) return lookAtListedKey(runtime, resolved);
  return answerOf(await runtime.limiter.look(resolved.spend), resolved);
}

/** Checks are independent: one denial does not affect the others. */
export async function decideBatch(
  runtime: Runtime,
  checks: readonly Check[],
  tenant: Tenant,
  waitUntil: WaitUntil,
): Promise<(CheckAnswer | Failure)[]> {
  const resolved = await Promise.all(checks.map((check) => resolveCheck(runtime, check, tenant)));
  const spends = resolved.flatMap((each) => {
    if ("kind" in each) return [];
    return [each.list === null ? each.spend : { ...each.spend, cost: 0 }];
  });
  const outcomes = await runtime.limiter.admitEach(spends, waitUntil);
  return resolved.map((each) => {
    if ("kind" in each) return each;
    const outcome = outcomes.shift();
    if (outcome === undefined) return internal;
    const answer = each.list === null ? answerOf(outcome, each) : listedAnswer(outcome, each);
    return each.spend.cost === 0 ? answer : logDenial(runtime, answer, each, waitUntil);
  });
}

/** @returns null on success */
export async function forgetKey(
  runtime: Runtime,
  reference: KeyReference,
  tenant: Tenant,
): Promise<Failure | null> {
  const resolved = await resolveCheck(runtime, { ...reference, cost: 0 }, tenant);
  if ("kind" in resolved) return resolved;
  const { policy, partitionKey } = resolved.spend;
  runtime.bans.forget(policy, partitionKey);
  const isForgotten = await runtime.limiter.forget(policy, partitionKey);
  return isForgotten ? null : { kind: "undecided" };
}

/** Only the same tenant can settle the reservation. */
export async function openReservation(
  runtime: Runtime,
  request: ReservationRequest,
  tenant: Tenant,
  waitUntil: WaitUntil,
): Promise<ReserveAnswer | Failure> {
  const resolved = await resolveCheck(runtime, request, tenant);
  if ("kind" in resolved) return resolved;
  const { spend, list } = resolved;
  if (list !== null) {
    const answer = await lookAtListedKey(runtime, resolved);
    return { ...logDenial(runtime, answer, resolved, waitUntil), id: null };
  }
  const { ttlMs } = request;
  const { outcome, address, fullForMs } = await runtime.limiter.reserve(spend, ttlMs, waitUntil);
  // If too many reservations are open on a key that is denied anyway, the answer is that denial: settling would not
  // help.
  if (fullForMs > 0 && admits(outcome)) {
    const full = { kind: "reservations-full", retryAfterMs: fullForMs } as const;
    return logDenial(runtime, full, resolved, waitUntil);
  }
  const answer = logDenial(runtime, answerOf(outcome, resolved), resolved, waitUntil);
  if ("kind" in answer) return answer;
  return {
    ...answer,
    id: address === null ? null : await reservationId(address, tenant, runtime.sign),
  };
}

export async function settleReservation(
  runtime: Runtime,
  { id, cost }: SettleInput,
  tenant: Tenant,
): Promise<SettleAnswer | Failure> {
  const address = await addressOf(id, tenant, runtime.sign);
  if (address === null) return { settled: false };
  const settled = await runtime.limiter.settle(address, cost);
  return settled === null ? { kind: "undecided" } : { settled };
}

interface ResolvedCheck {
  readonly spend: Spend;
  /** The policy's list that the key is on. Such a key is never charged. */
  readonly list: "allow" | "deny" | null;
  readonly isDryRun: boolean;
}

async function resolveCheck(
  { policies, partitions }: Runtime,
  check: Check,
  tenant: Tenant,
): Promise<ResolvedCheck | Failure> {
  const { cost } = check;
  if ("adhoc" in check) {
    const { adhoc, key } = check;
    const partitionKey = await partitions.adhocPartitionKey(key, tenant);
    return { spend: { policy: adhoc, partitionKey, cost }, list: null, isDryRun: false };
  }
  const policy = policyNamed(check.policy, policies);
  if ("kind" in policy) return policy;
  const { key, attributes = noAttributes } = check;
  const resolution = resolveCallerKey(policy, key, attributes);
  if (resolution === null) return invalidKey(policy);
  const contradicted = contradictedPart(policy, resolution.values, attributes);
  if (contradicted !== null) return contradiction(contradicted);
  const partitionKey = await partitions.partitionKey(policy.key, resolution.values, tenant);
  const { isDryRun } = policy;
  // In a dry run too, the limits decide as if enforced, because the answer shows their decision.
  const decided = isDryRun
    ? { ...resolution.policy, isDryRun: false, ban: null }
    : resolution.policy;
  return {
    spend: { policy: decided, partitionKey, cost },
    list: lists[resolution.kind],
    isDryRun,
  };
}

const lists = { charge: null, exempt: "allow", blocked: "deny" } as const;

function policyNamed(name: string | undefined, policies: readonly Policy[]): Policy | Failure {
  const [only, ...others] = policies;
  if (name === undefined && only !== undefined && others.length === 0) return only;
  if (name === undefined) {
    const accepted = `one of ${policies.map((policy) => `"${policy.name}"`).join(", ")}`;
    return { kind: "fields-invalid", errors: [{ field: "policy", accepted }] };
  }
  return policies.find((policy) => policy.name === name) ?? { kind: "unknown-policy" };
}

function invalidKey(policy: Policy): Failure {
  const parts = policy.key.map(partName);
  const texts = parts.length === 1 ? "a text" : `a list of ${parts.length} texts`;
  const addresses = parts.includes("ip") ? ", where ip is an IPv4 or IPv6 address" : "";
  const accepted = `${texts} for ${parts.join(", ")}${addresses}`;
  return { kind: "fields-invalid", errors: [{ field: "key", accepted }] };
}

function contradiction(part: string): Failure {
  const field = `attributes.${part}`;
  const accepted = `no value, or the value that key has for ${part}`;
  return { kind: "fields-invalid", errors: [{ field, accepted }] };
}

/** Logs the answer if it is a denial. @returns the same answer */
function logDenial<Answer extends CheckAnswer | Failure>(
  { denialLog }: Runtime,
  answer: Answer,
  { spend, list }: ResolvedCheck,
  waitUntil: WaitUntil,
): Answer {
  const key = keyPseudonym(spend.partitionKey);
  const policy = spend.policy.name;
  if ("kind" in answer) {
    if (answer.kind !== "reservations-full") return answer;
    const { retryAfterMs } = answer;
    denialLog?.note({ policy, reason: "reservations", violated: [], key, retryAfterMs }, waitUntil);
    return answer;
  }
  const { allowed, reason, violated, retryAfterMs } = answer;
  if (reason === "dry-run") {
    const listing = list === null ? {} : ({ reason: "listed" } as const);
    report({ event: "dry-run-denied", policy, violated, ...listing, key });
  } else if (!allowed && reason !== "allow") {
    denialLog?.note({ policy, reason, violated, key, retryAfterMs }, waitUntil);
  }
  return answer;
}

const internal = { kind: "internal" } as const;

function answerOf(outcome: Outcome, { isDryRun }: ResolvedCheck): CheckAnswer | Failure {
  // The failure modes `open` and `closed` are for the proxy: callers of `/check` choose their own.
  if (!("decision" in outcome)) return { kind: "undecided" };
  const { kind, policy, decision } = outcome;
  const violated = violatedLimits([decision]);
  if (isDryRun) {
    const reason = decision.allowed ? "limit" : "dry-run";
    return { ...decision, ...allowedNow, policy: policy.name, reason, violated, headers: {} };
  }
  const reason = decision.allowed ? "limit" : denialReason([outcome]);
  const headers =
    kind === "decided" ? rateLimitFields(policy.limits, [decision]) : retryAfterFieldOf([decision]);
  return { ...decision, policy: policy.name, reason, violated, headers };
}

const allowedNow = { allowed: true, delayMs: 0, retryAfterMs: 0, bannedForMs: 0 } as const;

async function lookAtListedKey(runtime: Runtime, resolved: ResolvedCheck): Promise<CheckAnswer> {
  return listedAnswer(await runtime.limiter.look({ ...resolved.spend, cost: 0 }), resolved);
}

/** The state of the limits is included, but only the list decides. */
function listedAnswer(outcome: Outcome, { spend, list, isDryRun }: ResolvedCheck): CheckAnswer {
  const { policy } = spend;
  // Without the object's decision, the state of an unused key is shown.
  const decision = "decision" in outcome ? outcome.decision : createMeter(policy.limits).look(0, 0);
  const isAllowed = list === "allow" || isDryRun;
  return {
    ...decision,
    ...allowedNow,
    ...(!isAllowed && { allowed: false, retryAfterMs: null }),
    cost: spend.cost,
    policy: policy.name,
    reason: list === "deny" && isDryRun ? "dry-run" : (list ?? "limit"),
    violated: [],
    headers: {},
  };
}
