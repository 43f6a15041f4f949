/** Decides a request by its policies, then forwards it and adds the rate limit fields, or answers the denial. */
import type { Policy } from "../../policy/policy.ts";
import { costOfRequest } from "../../policy/cost.ts";
import { matchingPolicies, compiledPolicy } from "../../policy/compiled-policy.ts";
import { resolveAnnounced } from "../../policy/preflights.ts";
import { type Claims, isPreflight, type RequestAttributes, type TokenClaims } from "../../policy/request.ts";
import {
  isKeyDenial,
  type KeyDenial,
  type KeyResolution,
  type NamedKeys,
  resolveKey,
} from "../../policy/resolve-key.ts";
import { holdsSlots } from "../../strategies/index.ts";
import { decideByNewestRules, type RequestScope } from "../../limiter/isolate/newer-rules-retry.ts";
import type { Spend } from "../../limiter/isolate/outcome.ts";
import { type DecidedRequest, recordOutcomes } from "../record-outcomes.ts";
import type { Runtime } from "../runtime.ts";
import { addDecisionFields, decisionFields } from "../wire/rate-limit-fields.ts";
import { type Failure, isFailure, problemResponse } from "../wire/problems.ts";
import { type DenialContext, denyByKey, denyByLimits, reportDryRunDenials } from "./denial.ts";
import { clientGoneResponse, type Forwarding, InFlight, reservationMs } from "./in-flight.ts";

/** The policies that match a request; for a CORS preflight, the limits on preflights. */
export const applicablePolicies = (
  { policies, preflights }: Runtime,
  attributes: RequestAttributes,
): readonly Policy[] => (isPreflight(attributes) ? preflights : matchingPolicies(policies, attributes));

/** How long a spend of this policy stays reserved, in milliseconds; null when the charge is final at once. */
export const reservationTtlMs = ({ count, cost, limits }: Policy): number | null =>
  count !== null || cost.kind === "response" || limits.some(holdsSlots) ? reservationMs : null;

export interface EnforcementOptions extends DenialContext, Omit<Forwarding, "runtime"> {
  /** The attributes that policies match and keys are made of. At `/check/forward`, those of the described request. */
  readonly attributes: RequestAttributes;
  /** Claims that a trusted caller states. They override those of the request's token. */
  readonly claims?: Claims;
  /** How long a spend is reserved, in milliseconds; null when it is final. Every spend is final without this function. */
  readonly reservationTtlMs?: (policy: Policy) => number | null;
  /**
   * Whether the response has rate limit fields to which nothing may be added. Without this function, fields are added.
   */
  readonly hasFinalFields?: (headers: Headers) => boolean;
  /** Costs by policy name, which replace the policies' own costs. */
  readonly costs?: ReadonlyMap<string, number>;
  /** Called with the spends of an admitted request, before it is forwarded. */
  readonly onAdmitted?: (charged: DecidedRequest) => void;
}

/**
 * Charges policies and forwards the request, or denies it.
 * @param policiesInEffect returns the policies that apply to the request; called again after newer rules were adopted
 */
export async function enforcePolicies(
  request: Request,
  policiesInEffect: () => readonly Policy[],
  options: EnforcementOptions,
): Promise<Response> {
  const { runtime, waitUntil } = options;
  runtime.statistics?.locate(request.cf);
  let dryRunDenials: KeyDenial[] = [];
  const charged = await decideByNewestRules(runtime.control, waitUntil, (scope) => {
    dryRunDenials = [];
    return chargePolicies(policiesInEffect(), { ...options, scope, dryRunDenials });
  });
  if (dryRunDenials.length > 0) await reportDryRunDenials(dryRunDenials, options);
  if (charged instanceof Response) return charged;
  recordOutcomes(charged, runtime, options.counting);
  options.onAdmitted?.(charged);
  const { spends, admission } = charged;
  const response = await forwardAdmitted(request, charged, options);
  if (options.hasFinalFields?.(response.headers) !== true) {
    addDecisionFields(response, decisionFields(spends, admission, runtime.hasLegacyHeaders));
  }
  return response;
}

/** Waits for the request's turn in a queue, and forwards the request. Responds with 499 if the client has disconnected. */
export function forwardAdmitted(
  request: Request,
  { spends, admission }: Pick<DecidedRequest, "spends" | "admission">,
  forwarding: Forwarding,
): Promise<Response> {
  const isReserved = spends.some(({ ttlMs }) => ttlMs !== undefined);
  const delayMs = admission.outcomes.reduce((mostMs, { policy, decision }) => {
    const isDelaying = decision !== null && !policy.isDryRun;
    return isDelaying ? Math.max(mostMs, decision.delayMs) : mostMs;
  }, 0);
  if (isReserved || delayMs > 0) return new InFlight(spends, admission, delayMs, forwarding).answer(request);
  return request.signal.aborted ? Promise.resolve(clientGoneResponse()) : forwarding.forward(request);
}

interface ChargeOptions extends EnforcementOptions {
  readonly scope: RequestScope;
  /** Receives the key denials of dry runs. */
  readonly dryRunDenials: KeyDenial[];
}

/**
 * Charges policies, all or none.
 * @returns the denial, or the spends if the request is admitted or a second attempt follows
 */
async function chargePolicies(policies: readonly Policy[], options: ChargeOptions): Promise<DecidedRequest | Response> {
  if (!isPreflight(options.attributes)) return chargeRequest(policies, [], options);
  const announced = resolveAnnounced(options.runtime.policies, options.attributes);
  const blocked = enforcedDenials(announced.blocked, options.dryRunDenials);
  if (blocked.length > 0) return denyByKey(blocked, options);
  return chargeRequest(policies, announced.named, options);
}

/** Denies an admitted request if one of its other keys is banned or blocked, and refunds the request's spends. */
async function denyBarred(
  charged: DecidedRequest,
  looks: readonly Spend[],
  options: ChargeOptions,
): Promise<DecidedRequest | Response> {
  const { runtime, waitUntil, scope } = options;
  if (scope.isStale) return charged;
  const bars = await runtime.bans.find(looks, scope);
  const { isStale } = scope;
  if (bars === null && !isStale) return charged;
  const givingBack = charged.admission.giveBack();
  waitUntil(givingBack);
  // Without waiting for the refund, these spends could deny the second attempt, or the next request.
  await givingBack;
  return bars === null || isStale ? charged : denyByLimits(bars, options);
}

/** @param announced the keys of the request that a preflight announces */
async function chargeRequest(
  policies: readonly Policy[],
  announced: readonly NamedKeys[],
  options: ChargeOptions,
): Promise<DecidedRequest | Response> {
  const { runtime, attributes, waitUntil, scope, dryRunDenials } = options;
  const token: TokenClaims | Failure = policies.some((policy) => compiledPolicy(policy).needsClaims)
    ? await readToken(policies, options)
    : { claims: options.claims ?? noClaims };
  if (isFailure(token)) return problemResponse(token);
  const resolutions = policies.map((policy) => resolveKey(policy, attributes, token.claims, token.possible));
  const keyDenials = enforcedDenials(resolutions.filter(isKeyDenial), dryRunDenials);
  if (keyDenials.length > 0) return denyByKey(keyDenials, options);
  const named = resolutions.flatMap(({ policy, named: keys }) =>
    keys === undefined || keys === null || keys.length === 0 ? [] : { policy, keys },
  );
  const looks = announced.length + named.length === 0 ? [] : await looksAt([...announced, ...named], options);
  const knownBars = looks.length === 0 ? null : runtime.bans.cached(looks);
  if (knownBars !== null) return denyByLimits(knownBars, options);

  const charges = await Promise.all(resolutions.map((each) => spendFor(each, options)));
  const spends = charges.filter((each) => each !== null);
  const admitting = runtime.limiter.admit(spends, scope);
  // If the client goes away meanwhile, what was spent is still refunded.
  if (admitting instanceof Promise) waitUntil(admitting);
  const admission = await admitting;
  const charged = { spends, admission, resolutions };
  const isDenied = admission.isRefused && !admission.isStale;
  if (isDenied) return denyByLimits(charged, options);
  // The limits come first: unless `onMissingKey` is "skip", they bound how often the objects of other keys are called.
  return looks.length === 0 ? charged : denyBarred(charged, looks, options);
}

/** The denials of enforced policies. Adds those of dry runs to `dryRunDenials`. */
function enforcedDenials(denials: readonly KeyDenial[], dryRunDenials: KeyDenial[]): readonly KeyDenial[] {
  if (denials.length === 0) return denials;
  dryRunDenials.push(...denials.filter(({ policy }) => policy.isDryRun));
  return denials.filter(({ policy }) => !policy.isDryRun);
}

const noClaims: Claims = {};

/** Verifies the request's token. Dry runs ignore a token whose JSON is nested too deep. */
async function readToken(
  policies: readonly Policy[],
  { runtime, attributes, claims: stated }: EnforcementOptions,
): Promise<TokenClaims | Failure> {
  const token = await runtime.readClaims(attributes.headers);
  if (!isFailure<Failure>(token)) {
    const { claims, possible } = token;
    return {
      claims: { ...claims, ...stated },
      ...(possible !== undefined && { possible: possible && { ...possible, ...stated } }),
    };
  }
  const isEnforced = policies.some((policy) => !policy.isDryRun && compiledPolicy(policy).needsClaims);
  return isEnforced ? token : { claims: { ...stated } };
}

/** Null for a resolution that charges nothing. */
async function spendFor(
  resolution: KeyResolution,
  { runtime, attributes, tenant, ...options }: EnforcementOptions,
): Promise<Spend | null> {
  if (resolution.kind !== "charge") return null;
  const { policy, parts, values, ancestorParts } = resolution;
  const cost = options.costs?.get(policy.name) ?? costOfRequest(policy, attributes);
  const ttlMs = options.reservationTtlMs?.(policy) ?? null;
  return {
    policy,
    partitionKey: await runtime.partitions.partitionKey(parts, values, tenant, ancestorParts),
    cost,
    ...(ttlMs !== null && { ttlMs }),
    ...(runtime.statistics?.revealsKeys === true && { plain: { parts, values, tenant } }),
  };
}

/** Looks at keys: a spend with a cost of 0 for each. A dry run needs none, because it denies nothing. */
const looksAt = (named: readonly NamedKeys[], { runtime, tenant }: EnforcementOptions): Promise<Spend[]> =>
  Promise.all(
    named.flatMap(({ policy, keys }) =>
      (policy.isDryRun ? [] : keys).map(async (values) => ({
        policy,
        partitionKey: await runtime.partitions.keyOf(policy, values, tenant),
        cost: 0,
        ...(runtime.statistics?.revealsKeys === true && { plain: { parts: policy.key, values, tenant } }),
      })),
    ),
  );
