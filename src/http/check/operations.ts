/** What `/check` and the service for other Workers do alike: from what a caller asks for to what it is answered. */
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
import { type AdhocCheck, type Check, type Reserve, type Settle } from "./input.ts";
import type { Runtime } from "../runtime.ts";
import {
  rateLimitFields,
  type RateLimitFields,
  retryAfterField,
} from "../wire/rate-limit-fields.ts";
import type { Failure } from "../wire/problems.ts";

type Tenant = CheckToken["tenant"];

/** A decision, and what a caller needs to pass it on. */
export interface Answer extends Decision {
  policy: string;
  /** What decided: the limits, a list of the policy, or why the check is denied. */
  reason: DenialReason | "allow" | "dry-run";
  /** The names of the limits that deny; none where a ban or a list denies. */
  violated: string[];
  headers: RateLimitFields;
}

/** A decision whose cost can be corrected by its id; null where nothing was spent, or not by the object. */
export interface ReserveAnswer extends Answer {
  id: string | null;
}

export interface SettleAnswer {
  /** Whether this call settled it: not when it is unknown, expired or settled already. */
  settled: boolean;
}

/** @param tenant whose keys are spoken of; null: the proxy's */
export async function check(
  runtime: Runtime,
  asked: Check | AdhocCheck,
  tenant: Tenant,
  waitUntil: WaitUntil,
): Promise<Answer | Failure> {
  if (asked.cost === 0) return look(runtime, asked, tenant);
  const ruled = await ruledOf(runtime, asked, tenant);
  if ("kind" in ruled) return ruled;
  if (ruled.listed !== null)
    return logged(runtime, await lookedUp(runtime, ruled), ruled, waitUntil);
  const { outcomes } = await runtime.limiter.admit([ruled.spend], waitUntil);
  const [outcome] = outcomes;
  const answer = outcome === undefined ? internal : answerTo(outcome, ruled);
  return logged(runtime, answer, ruled, waitUntil);
}

export async function look(
  runtime: Runtime,
  asked: Check | AdhocCheck,
  tenant: Tenant,
): Promise<Answer | Failure> {
  const ruled = await ruledOf(runtime, asked, tenant);
  if ("kind" in ruled) return ruled;
  if (ruled.listed !== null) return lookedUp(runtime, ruled);
  return answerTo(await runtime.limiter.look(ruled.spend), ruled);
}

/** Each by itself: what one comes to is nothing to the others. */
export async function checkEach(
  runtime: Runtime,
  checks: readonly (Check | AdhocCheck)[],
  tenant: Tenant,
  waitUntil: WaitUntil,
): Promise<(Answer | Failure)[]> {
  const ruled = await Promise.all(checks.map((asked) => ruledOf(runtime, asked, tenant)));
  const spends = ruled.map((each) => {
    if ("kind" in each) return null;
    return each.listed === null ? each.spend : { ...each.spend, cost: 0 };
  });
  const outcomes = await runtime.limiter.admitEach(
    spends.filter((spend) => spend !== null),
    waitUntil,
  );
  return ruled.map((each) => {
    if ("kind" in each) return each;
    const outcome = outcomes.shift();
    if (outcome === undefined) return internal;
    const answer = each.listed === null ? answerTo(outcome, each) : listedAnswer(outcome, each);
    return each.spend.cost === 0 ? answer : logged(runtime, answer, each, waitUntil);
  });
}

/** @returns null when it is forgotten */
export async function forget(
  runtime: Runtime,
  asked: Check,
  tenant: Tenant,
): Promise<Failure | null> {
  const ruled = await ruledOf(runtime, asked, tenant);
  if ("kind" in ruled) return ruled;
  const { policy, partitionKey } = ruled.spend;
  runtime.bans.forget(policy, partitionKey);
  const isForgotten = await runtime.limiter.forget(policy, partitionKey);
  return isForgotten ? null : { kind: "undecided" };
}

/** @param tenant whose key it is, and who alone may settle it */
export async function reserve(
  runtime: Runtime,
  asked: Reserve,
  tenant: Tenant,
  waitUntil: WaitUntil,
): Promise<ReserveAnswer | Failure> {
  const ruled = await ruledOf(runtime, asked, tenant);
  if ("kind" in ruled) return ruled;
  if (ruled.listed !== null) {
    return { ...logged(runtime, await lookedUp(runtime, ruled), ruled, waitUntil), id: null };
  }
  const { spend } = ruled;
  const { outcome, address, fullForMs } = await runtime.limiter.reserve(
    spend,
    asked.ttlMs,
    waitUntil,
  );
  // A key that is denied anyway must not be advised to settle reservations.
  if (fullForMs > 0 && admits(outcome)) {
    const full = { kind: "reservations-full", retryAfterMs: fullForMs } as const;
    return logged(runtime, full, ruled, waitUntil);
  }
  const answer = logged(runtime, answerTo(outcome, ruled), ruled, waitUntil);
  if ("kind" in answer) return answer;
  return {
    ...answer,
    id: address === null ? null : await reservationId(address, tenant, runtime.sign),
  };
}

export async function settle(
  runtime: Runtime,
  { id, cost }: Settle,
  tenant: Tenant,
): Promise<SettleAnswer | Failure> {
  const address = await addressOf(id, tenant, runtime.sign);
  if (address === null) return { settled: false };
  const settled = await runtime.limiter.settle(address, cost);
  return settled === null ? { kind: "undecided" } : { settled };
}

/** What a check comes down to. */
interface Ruled {
  readonly spend: Spend;
  /** Whether the key is on a list of the policy's, and on which; it is charged for nothing then. */
  readonly listed: "allow" | "deny" | null;
  readonly isDryRun: boolean;
}

/** The spend that a check asks for, or why it cannot be made. */
async function ruledOf(
  { policies, partitions }: Runtime,
  asked: Check | AdhocCheck,
  tenant: Tenant,
): Promise<Ruled | Failure> {
  const { cost } = asked;
  if ("adhoc" in asked) {
    const { adhoc, key } = asked;
    const partitionKey = await partitions.adhocPartitionKey(key, tenant);
    return { spend: { policy: adhoc, partitionKey, cost }, listed: null, isDryRun: false };
  }
  const policy = policyOf(policies, asked.policy);
  if ("kind" in policy) return policy;
  const { key, attributes = noAttributes } = asked;
  const resolution = resolveCallerKey(policy, key, attributes);
  if (resolution === null) return invalidKey(policy);
  const contradicted = contradictedPart(policy, resolution.values, attributes);
  if (contradicted !== null) return contradiction(contradicted);
  const partitionKey = await partitions.partitionKey(policy.key, resolution.values, tenant);
  const { isDryRun } = policy;
  // The caller waits for the decision, whatever is made of it.
  const decided = isDryRun
    ? { ...resolution.policy, isDryRun: false, ban: null }
    : resolution.policy;
  return {
    spend: { policy: decided, partitionKey, cost },
    listed: lists[resolution.kind],
    isDryRun,
  };
}

const lists = { charge: null, exempt: "allow", blocked: "deny" } as const;

function policyOf(policies: readonly Policy[], name: string | undefined): Policy | Failure {
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
  const addresses = parts.includes("ip") ? "; ip is an IPv4 or IPv6 address" : "";
  const accepted = `${texts} for ${parts.join(", ")}${addresses}`;
  return { kind: "fields-invalid", errors: [{ field: "key", accepted }] };
}

function contradiction(part: string): Failure {
  const field = `attributes.${part}`;
  const accepted = `nothing, or the value that key has for ${part}`;
  return { kind: "fields-invalid", errors: [{ field, accepted }] };
}

/** The same answer, once a denial is in the log; a look is not logged. */
function logged<Given extends Answer | Failure>(
  { denialLog }: Runtime,
  answer: Given,
  { spend, listed }: Ruled,
  waitUntil: WaitUntil,
): Given {
  const key = keyPseudonym(spend.partitionKey);
  const { name } = spend.policy;
  if ("kind" in answer) {
    if (answer.kind !== "reservations-full") return answer;
    const { retryAfterMs } = answer;
    denialLog?.note(
      { policy: name, reason: "reservations", violated: [], key, retryAfterMs },
      waitUntil,
    );
    return answer;
  }
  const { allowed, reason, violated, retryAfterMs } = answer;
  if (reason === "dry-run") {
    const listing = listed === null ? {} : ({ reason: "listed" } as const);
    report({ event: "dry-run-denied", policy: name, violated, ...listing, key });
  } else if (!allowed && reason !== "allow") {
    denialLog?.note({ policy: name, reason, violated, key, retryAfterMs }, waitUntil);
  }
  return answer;
}

const internal = { kind: "internal" } as const;

function answerTo(outcome: Outcome, { isDryRun }: Ruled): Answer | Failure {
  // `open` and `closed` are for the proxy: a caller without a decision has a failure mode of its own.
  if (!("decision" in outcome)) return { kind: "undecided" };
  const { kind, policy, decision } = outcome;
  const violated = violatedLimits([decision]);
  if (isDryRun) {
    const reason = decision.allowed ? "limit" : "dry-run";
    return { ...decision, ...letIn, policy: policy.name, reason, violated, headers: {} };
  }
  const reason = decision.allowed ? "limit" : denialReason([outcome]);
  const headers =
    kind === "decided" ? rateLimitFields(policy.limits, [decision]) : retryAfterField([decision]);
  return { ...decision, policy: policy.name, reason, violated, headers };
}

const letIn = { allowed: true, delayMs: 0, retryAfterMs: 0, bannedForMs: 0 } as const;

async function lookedUp(runtime: Runtime, ruled: Ruled): Promise<Answer> {
  return listedAnswer(await runtime.limiter.look({ ...ruled.spend, cost: 0 }), ruled);
}

/** The limits as they stand; whoever is on a list is let in or refused whatever they say. */
function listedAnswer(outcome: Outcome, { spend, listed, isDryRun }: Ruled): Answer {
  const { policy } = spend;
  // Whatever has been spent, the answer is known.
  const decision = "decision" in outcome ? outcome.decision : createMeter(policy.limits).look(0, 0);
  const isAllowed = listed === "allow" || isDryRun;
  const refused = { ...letIn, allowed: false, retryAfterMs: null };
  return {
    ...decision,
    ...(isAllowed ? letIn : refused),
    cost: spend.cost,
    policy: policy.name,
    reason: listed === "deny" && isDryRun ? "dry-run" : (listed ?? "limit"),
    violated: [],
    headers: {},
  };
}
