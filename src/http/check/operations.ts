/** The operations of `/check` and of the service binding: find the key, decide by the limits, and build the answer. */
import type { CheckToken } from "../../policy/vars/secrets.ts";
import { enforcedPolicy } from "../../policy/compiled-policy.ts";
import { type KeyValue, partName } from "../../policy/key.ts";
import type { Policy } from "../../policy/policy.ts";
import { callerLevels, contradictedPart, noAttributes, resolveCallerKey } from "../../policy/resolve-key.ts";
import { shownName } from "../../policy/within.ts";
import { decideByNewestRules, type RequestScope } from "../../limiter/isolate/newer-rules-retry.ts";
import { lastOutcome } from "../../limiter/isolate/client.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import { admits, type Spend } from "../../limiter/isolate/outcome.ts";
import { addressOf, reservationId } from "../../limiter/isolate/reservation.ts";
import {
  admittedCheck,
  answerOf,
  type CheckAnswer,
  type DecidedCheck,
  decidedCheck,
  reportCheck,
  type ResolvedCheck,
  withoutCharge,
} from "./answer.ts";
import type { Check, ForgetRequest, PolicyCheck, ReservationRequest, SettleInput } from "./input.ts";
import type { Runtime } from "../runtime.ts";
import { type Failure, isFailure } from "../wire/problems.ts";
import { decideTree, groupOf } from "./tree.ts";

/** `id` is null when the object has charged nothing: there is nothing to settle. */
export interface ReserveAnswer extends CheckAnswer {
  id: string | null;
}

export interface SettleAnswer {
  /** False when the reservation is unknown, expired or already settled. */
  settled: boolean;
}

const internal = { kind: "internal" } as const;

/** The caller of an operation, and the means to perform it. */
export interface CallerContext {
  readonly runtime: Runtime;
  /** The tenant whose keys are charged. Null: the keys of the proxy. */
  readonly tenant: CheckToken["tenant"];
  readonly waitUntil: WaitUntil;
}

/** Finds the key of a check and decides it, by the newest rules. A key that is not charged is only looked at. */
async function decideByKey<Decided extends DecidedCheck>(
  call: CallerContext,
  check: Check & { readonly ttlMs?: number },
  byLimits: (resolved: ResolvedCheck, scope: RequestScope) => Promise<Decided>,
  isLook = false,
): Promise<Decided | DecidedCheck | Failure> {
  return decideByNewestRules(call.runtime.control, call.waitUntil, async (scope) => {
    const resolved = await resolveCheck(call, check);
    if (isFailure(resolved)) return resolved;
    if (resolved.levels !== undefined) return decideTree(call.runtime, resolved.levels, scope, { ...check, isLook });
    if (resolved.uncharged === null) return byLimits(resolved, scope);
    return isOff(resolved)
      ? decidedCheck(resolved, null)
      : decidedCheck(resolved, await call.runtime.limiter.look(withoutCharge(resolved), scope));
  });
}

/** The answer of a policy that is off needs no object. */
const isOff = ({ uncharged }: ResolvedCheck): boolean => uncharged === "off";

const answered = (decided: DecidedCheck | Failure): CheckAnswer | Failure =>
  isFailure(decided) ? decided : answerOf(decided);

/** Spends the cost of a check if the limits allow it. A check without a cost is a look. */
export const decideCheck = async (call: CallerContext, check: Check): Promise<CheckAnswer | Failure> =>
  answered(await chargeCheck(call, check));

/** Like `decideCheck`, but returns the decided check, from which the text of an answer is built. */
export async function chargeCheck(call: CallerContext, check: Check): Promise<DecidedCheck | Failure> {
  if (check.cost === 0) return lookAtKey(call, check);
  const decided = await decideByKey(call, check, async (resolved, scope) =>
    admittedCheck(resolved, await call.runtime.limiter.admit([resolved.spend], scope)),
  );
  return isFailure(decided) ? decided : reportCheck(call.runtime, decided, call.waitUntil);
}

/** Decides without spending. */
export const look = async (call: CallerContext, check: Check): Promise<CheckAnswer | Failure> =>
  answered(await lookAtKey(call, check));

const lookAtKey = (call: CallerContext, check: Check): Promise<DecidedCheck | Failure> =>
  decideByKey(
    call,
    check,
    async (resolved, scope) => decidedCheck(resolved, await call.runtime.limiter.look(resolved.spend, scope)),
    true,
  );

/** Decides independent checks, with one call for each object. One denial does not affect the others. */
export async function decideBatch(call: CallerContext, checks: readonly Check[]): Promise<(CheckAnswer | Failure)[]> {
  const batch = checks.map((check): BatchedCheck => ({ check, decided: null }));
  await decideByNewestRules(call.runtime.control, call.waitUntil, async (scope) => {
    // A second attempt decides the checks that the first one has left out.
    const open = batch.filter(({ decided }) => decided === null);
    const resolutions = await Promise.all(
      open.map(async (each) => ({ each, resolved: await resolveCheck(call, each.check) })),
    );
    const charged = resolutions.flatMap(({ each, resolved }) => {
      if (!isFailure(resolved) && !(isOff(resolved) && resolved.levels === undefined)) return { each, resolved };
      each.decided = isFailure(resolved) ? resolved : decidedCheck(resolved, null);
      return [];
    });
    const results = await call.runtime.limiter.admitEach(
      charged.map(({ resolved }) => chargedGroup(resolved)),
      scope,
    );
    for (const [index, { each, resolved }] of charged.entries()) {
      const result = results[index];
      if (result !== undefined && !result.isStale) each.decided = admittedCheck(resolved, result);
    }
  });
  return batch.map(({ check, decided }) => {
    if (decided === null) return internal;
    if (isFailure(decided)) return decided;
    return answerOf(check.cost === 0 ? decided : reportCheck(call.runtime, decided, call.waitUntil));
  });
}

function chargedGroup(resolved: ResolvedCheck): readonly Spend[] {
  if (resolved.levels !== undefined) return groupOf(resolved.levels);
  return [resolved.uncharged === null ? resolved.spend : withoutCharge(resolved)];
}

interface BatchedCheck {
  readonly check: Check;
  decided: DecidedCheck | Failure | null;
}

/** @returns null on success */
export async function forgetKey(call: CallerContext, reference: ForgetRequest): Promise<Failure | null> {
  const resolved = await resolveCheck(call, { ...reference, cost: 0 });
  if (isFailure(resolved)) return resolved;
  const { runtime } = call;
  const { policy, partitionKey } = resolved.spend;
  runtime.bans.forget(policy, partitionKey);
  const isForgotten = await runtime.limiter.forget(policy, partitionKey);
  return isForgotten ? null : { kind: "undecided" };
}

/** Only the same tenant can settle the reservation. */
export async function openReservation(
  call: CallerContext,
  request: ReservationRequest,
): Promise<ReserveAnswer | Failure> {
  const { ttlMs } = request;
  const decided = await decideByKey(call, request, async (checked, scope) => {
    // The traffic sample needs to know that the spend is reserved.
    const resolved = { ...checked, spend: { ...checked.spend, ttlMs } };
    const result = await call.runtime.limiter.reserve([checked.spend], ttlMs, scope);
    const { address, fullForMs } = result;
    const outcome = lastOutcome(result.outcomes);
    // A denial takes precedence over too many open reservations: settling them would not end the denial.
    return fullForMs > 0 && admits(outcome)
      ? { resolved, outcome: null, fullForMs, address }
      : { ...decidedCheck(resolved, outcome), address };
  });
  if (isFailure(decided)) return decided;
  const answer = answerOf(reportCheck(call.runtime, decided, call.waitUntil));
  if (isFailure(answer)) return answer;
  const address = "address" in decided ? (decided.address ?? null) : null;
  return { ...answer, id: address === null ? null : await reservationId(address, call.tenant, call.runtime.sign) };
}

export async function settleReservation(
  { runtime, tenant }: CallerContext,
  { id, cost }: SettleInput,
): Promise<SettleAnswer | Failure> {
  const address = await addressOf(id, tenant, runtime.sign);
  if (address === null) return { settled: false };
  const settled = await runtime.limiter.settle(address, cost);
  return settled === null ? { kind: "undecided" } : { settled };
}

/** Finds the policy and the key of a check. */
export async function resolveCheck(
  context: Omit<CallerContext, "waitUntil">,
  check: Check,
): Promise<ResolvedCheck | Failure> {
  const { cost } = check;
  const {
    runtime: { policies, partitions },
    tenant,
  } = context;
  if ("adhoc" in check) {
    const { adhoc, key, name } = check;
    const partitionKey = await partitions.adhocPartitionKey(key, tenant, name);
    return { spend: { policy: adhoc, partitionKey, cost }, uncharged: null, isDryRun: false, adhocName: name };
  }
  const policy = policyNamed(check.policy, policies);
  if (isFailure(policy)) return policy;
  const isInTree = policy.ancestors.length > 0;
  const own = await resolvePolicyCheck(context, policy, check, isInTree);
  if (!isInTree || isFailure(own)) return own;
  const levels: ResolvedCheck[] = [];
  const attributes = wholeAttributes(policy, check);
  for (const level of callerLevels(policy, policies)) {
    const above = { cost, key: check.key?.slice(0, level.key.length), attributes };
    // oxlint-disable-next-line no-await-in-loop -- at most a few levels, whose keys are usually cached
    const resolved = level === policy ? own : await resolvePolicyCheck(context, level, above, isInTree);
    if (isFailure(resolved)) return resolved;
    levels.push(resolved);
  }
  return { ...own, levels };
}

/** The attributes of a caller and its key: as for a request, the entries of an ancestor are compared with all of them. */
export function wholeAttributes(
  { key: parts }: Policy,
  { key = [], attributes }: { readonly key?: readonly KeyValue[] | undefined } & Pick<PolicyCheck, "attributes">,
) {
  const ofKey = parts.flatMap((part, index): [string, readonly string[]][] => {
    const text = key[index] ?? null;
    return text === null || part.kind === "global" ? [] : [[partName(part), [text]]];
  });
  return new Map([...ofKey, ...(attributes ?? [])]);
}

async function resolvePolicyCheck(
  { runtime: { partitions, statistics }, tenant }: Omit<CallerContext, "waitUntil">,
  policy: Policy,
  { cost, key, attributes = noAttributes, withLimits }: Omit<PolicyCheck, "policy">,
  isInTree: boolean,
): Promise<ResolvedCheck | Failure> {
  const resolution = resolveCallerKey(policy, key, attributes, withLimits);
  if (resolution === null) return invalidKey(policy, key);
  const { values } = resolution;
  const contradicted = attributes.size === 0 ? null : contradictedPart(policy, values, attributes);
  if (contradicted !== null) return contradiction(contradicted);
  const { isDryRun } = policy;
  // The limits of a dry run also decide as if enforced, because the answer shows their decision. In a tree, they must not
  // deny the other levels.
  const decided = isDryRun && !isInTree ? enforcedPolicy(resolution.policy) : resolution.policy;
  const uncharged = policy.isOff ? "off" : reasons[resolution.kind];
  const plain = statistics?.revealsKeys === true ? { parts: policy.key, values, tenant } : null;
  const partitionKey = await partitions.keyOf(policy, values, tenant);
  return { spend: { policy: decided, partitionKey, cost, ...(plain !== null && { plain }) }, uncharged, isDryRun };
}

const reasons = { charge: null, exempt: "allow", blocked: "deny" } as const;

function policyNamed(name: string | undefined, policies: readonly Policy[]): Policy | Failure {
  if (name === undefined) {
    const [only] = policies;
    if (only !== undefined && policies.length === 1) return only;
    const accepted = `one of ${policies.map((policy) => `"${policy.name}"`).join(", ")}`;
    return { kind: "fields-invalid", errors: [{ field: "policy", accepted }] };
  }
  return policies.find((policy) => policy.name === name) ?? { kind: "unknown-policy" };
}

/** @param given the key of the caller, whose missing parts the error names */
export function invalidKey(policy: Policy, given?: readonly KeyValue[]): Failure {
  const parts = policy.key.map((part) => shownName(partName(part), policy));
  const texts = parts.length === 1 ? "a text" : `a list of ${parts.length} texts`;
  const addresses = parts.includes("ip") ? ", where ip is an IPv4 or IPv6 address" : "";
  const missing = policy.ancestors.length === 0 || given === undefined ? [] : parts.slice(given.length);
  const names = missing.length === 0 ? "" : `; ${missing.join(" and ")} ${missing.length === 1 ? "is" : "are"} missing`;
  const accepted = `${texts} for ${parts.join(", ")}${addresses}${names}`;
  return { kind: "fields-invalid", errors: [{ field: "key", accepted }] };
}

export function contradiction(part: string): Failure {
  const field = `attributes.${part}`;
  const accepted = `no value, or the value that key has for ${part}`;
  return { kind: "fields-invalid", errors: [{ field, accepted }] };
}
