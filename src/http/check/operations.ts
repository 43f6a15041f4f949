/** The operations of `/check` and of the service binding: resolve the key, decide, and build the answer. */
import { type Attempt, decideByNewestRules } from "../../limiter/isolate/attempt.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import { admits } from "../../limiter/isolate/outcome.ts";
import { addressOf, reservationId } from "../../limiter/isolate/reservation-id.ts";
import {
  admittedCheck,
  type CheckAnswer,
  type DecidedCheck,
  decidedCheck,
  reportCheck,
  unchargedCheck,
} from "./answers.ts";
import type { Check, ForgetRequest, ReservationRequest, SettleInput } from "./input.ts";
import { resolveCheck, type ResolvedCheck, type Tenant, type Uncharged } from "./resolve-check.ts";
import type { Runtime } from "../runtime.ts";
import type { Failure } from "../wire/problems.ts";

/** `id` is null when the object has charged nothing: there is nothing to settle. */
export interface ReserveAnswer extends CheckAnswer {
  id: string | null;
}

export interface SettleAnswer {
  /** False when the reservation is unknown, expired or already settled. */
  settled: boolean;
}

const internal = { kind: "internal" } as const;

/**
 * Decides a check, counts it, and logs a denial.
 * @returns no promise when the isolate can decide without an object
 */
export function decideCheck(
  runtime: Runtime,
  check: Check,
  tenant: Tenant,
  waitUntil: WaitUntil,
): DecidedCheck | Failure | Promise<DecidedCheck | Failure> {
  if (check.cost === 0) return decideLook(runtime, check, tenant, waitUntil);
  const decided = decideByNewestRules(runtime.control, waitUntil, (attempt) => {
    const charge = (resolved: ResolvedCheck | Failure) => chargeCheck(runtime, resolved, waitUntil, attempt);
    const resolved = resolveCheck(runtime, check, tenant);
    return resolved instanceof Promise ? resolved.then(charge) : charge(resolved);
  });
  const reported = (result: DecidedCheck | Failure): DecidedCheck | Failure => {
    if (!("kind" in result)) reportCheck(runtime, result, waitUntil);
    return result;
  };
  return decided instanceof Promise ? decided.then(reported) : reported(decided);
}

function chargeCheck(
  runtime: Runtime,
  resolved: ResolvedCheck | Failure,
  waitUntil: WaitUntil,
  attempt: Attempt | null,
): DecidedCheck | Failure | Promise<DecidedCheck> {
  if ("kind" in resolved) return resolved;
  if (isUncharged(resolved)) return lookAtUncharged(runtime, resolved, attempt);
  const admitting = runtime.limiter.admit([resolved.spend], waitUntil, attempt);
  return admitting instanceof Promise
    ? admitting.then((admission) => admittedCheck(resolved, admission))
    : admittedCheck(resolved, admitting);
}

/** Decides without spending. */
export async function look(
  runtime: Runtime,
  check: Check,
  tenant: Tenant,
  waitUntil: WaitUntil,
): Promise<CheckAnswer | Failure> {
  return answerIn(await decideLook(runtime, check, tenant, waitUntil));
}

/** The answer of a check that was decided. */
export const answerIn = (decided: DecidedCheck | Failure): CheckAnswer | Failure =>
  "kind" in decided ? decided : decided.answer;

async function decideLook(
  runtime: Runtime,
  check: Check,
  tenant: Tenant,
  waitUntil: WaitUntil,
): Promise<DecidedCheck | Failure> {
  return decideByNewestRules(runtime.control, waitUntil, async (attempt) => {
    const resolved = await resolveCheck(runtime, check, tenant);
    if ("kind" in resolved) return resolved;
    if (isUncharged(resolved)) return lookAtUncharged(runtime, resolved, attempt);
    return decidedCheck(resolved, await runtime.limiter.look(resolved.spend, attempt));
  });
}

/** Checks are independent: one denial does not affect the others. */
export async function decideBatch(
  runtime: Runtime,
  checks: readonly Check[],
  tenant: Tenant,
  waitUntil: WaitUntil,
): Promise<(CheckAnswer | Failure)[]> {
  const batch: BatchedCheck[] = checks.map((check) => ({ check, decided: null }));
  await decideByNewestRules(runtime.control, waitUntil, (attempt) =>
    decideOpen(runtime, batch, { tenant, waitUntil, attempt }),
  );
  return batch.map(({ check, decided }) => {
    if (decided === null) return internal;
    if ("kind" in decided) return decided;
    if (check.cost !== 0) reportCheck(runtime, decided, waitUntil);
    return decided.answer;
  });
}

interface BatchedCheck {
  readonly check: Check;
  decided: DecidedCheck | Failure | null;
}

interface BatchContext {
  readonly tenant: Tenant;
  readonly waitUntil: WaitUntil;
  readonly attempt: Attempt | null;
}

/** Decides the checks of a batch that are not decided yet. Leaves out those that a second attempt must decide. */
async function decideOpen(
  runtime: Runtime,
  batch: readonly BatchedCheck[],
  { tenant, waitUntil, attempt }: BatchContext,
): Promise<void> {
  const open = batch.filter(({ decided }) => decided === null);
  const resolutions = await Promise.all(open.map(async ({ check }) => resolveCheck(runtime, check, tenant)));
  const charged = open.flatMap((each, index) => {
    const resolved = resolutions[index] ?? internal;
    if ("kind" in resolved) each.decided = resolved;
    else if (isUncharged(resolved) && resolved.uncharged === "off") {
      each.decided = unchargedCheck(resolved, null);
    } else {
      const { spend, uncharged } = resolved;
      return { each, resolved, spend: uncharged === null ? spend : { ...spend, cost: 0 } };
    }
    return [];
  });
  const spends = charged.map(({ spend }) => spend);
  const outcomes = await runtime.limiter.admitEach(spends, waitUntil, attempt);
  for (const [index, { each, resolved, spend }] of charged.entries()) {
    const outcome = outcomes[index];
    if (outcome === undefined || attempt?.stale.includes(spend) === true) continue;
    each.decided = decidedCheck(resolved, outcome);
  }
}

/** @returns null on success */
export async function forgetKey(runtime: Runtime, reference: ForgetRequest, tenant: Tenant): Promise<Failure | null> {
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
  const decided = await decideByNewestRules(runtime.control, waitUntil, async (attempt) => {
    const checked = await resolveCheck(runtime, request, tenant);
    if ("kind" in checked) return checked;
    if (isUncharged(checked)) {
      return { ...(await lookAtUncharged(runtime, checked, attempt)), address: null };
    }
    const { ttlMs } = request;
    const { spend } = checked;
    // The traffic sample needs to know that the spend is reserved.
    const resolved = { ...checked, spend: { ...spend, ttlMs } };
    const result = await runtime.limiter.reserve(spend, ttlMs, waitUntil, attempt);
    const { outcome, address, fullForMs } = result;
    // A denial takes precedence over too many open reservations: settling them would not end the denial.
    if (fullForMs > 0 && admits(outcome)) {
      const answer = { kind: "reservations-full", retryAfterMs: fullForMs } as const;
      return { resolved, answer, outcome: null, address };
    }
    return { ...decidedCheck(resolved, outcome), address };
  });
  if ("kind" in decided) return decided;
  reportCheck(runtime, decided, waitUntil);
  const { answer } = decided;
  if ("kind" in answer) return answer;
  const { address } = decided;
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

type UnchargedCheck = ResolvedCheck & { readonly uncharged: Uncharged };

const isUncharged = (resolved: ResolvedCheck): resolved is UnchargedCheck => resolved.uncharged !== null;

/** The answer for a key that is not charged, with the state of its limits. A policy that is off calls no object. */
async function lookAtUncharged(
  runtime: Runtime,
  resolved: UnchargedCheck,
  attempt: Attempt | null,
): Promise<DecidedCheck> {
  if (resolved.uncharged === "off") return unchargedCheck(resolved, null);
  const outcome = await runtime.limiter.look({ ...resolved.spend, cost: 0 }, attempt);
  return decidedCheck(resolved, outcome);
}
