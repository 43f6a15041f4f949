/** Decides a request by its policies, then forwards it and adds the rate limit fields, or answers the denial. */
import type { Context } from "hono";
import type { Policy } from "../../policy/policy.ts";
import { costOfRequest } from "../../policy/cost.ts";
import { matchingPolicies, compiledPolicy } from "../../policy/compiled-policy.ts";
import type { Claims, RequestAttributes, TokenClaims } from "../../policy/request.ts";
import { type KeyResolution, resolveKey } from "../../policy/resolve-key.ts";
import { decideByNewestRules, type RequestScope } from "../../limiter/isolate/newer-rules-retry.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import type { Spend } from "../../limiter/isolate/outcome.ts";
import { type DecidedRequest, plainKeyOf, recordOutcomes } from "../record-outcomes.ts";
import type { Runtime } from "../runtime.ts";
import { addLegacyFields, addRateLimitFields, mayHaveRateLimitFields } from "../wire/rate-limit-fields.ts";
import { type Failure, isFailure, problemResponse } from "../wire/problems.ts";
import {
  decisionFields,
  type DecisionFields,
  type DenialContext,
  denyByKey,
  denyByLimits,
  isKeyDenial,
  type KeyDenial,
  reportDryRunDenials,
} from "./denial.ts";
import type { Forward } from "./forward.ts";
import { forwardAdmitted, type Forwarding } from "./in-flight.ts";
import { looksAtNamedKeys, isPreflight, resolveAnnounced } from "./preflights.ts";

/** Keeps the Worker running for work that outlasts the response. */
export const waitUntilFrom =
  (c: Pick<Context, "executionCtx">): WaitUntil =>
  (work) =>
    c.executionCtx.waitUntil(work);

/** The policies that match a request; for a CORS preflight, the limits on preflights. */
export const applicablePolicies = (
  { policies, preflights }: Runtime,
  attributes: RequestAttributes,
): readonly Policy[] => (isPreflight(attributes) ? preflights : matchingPolicies(policies, attributes));

export interface EnforcementOptions extends DenialContext, Pick<Forwarding, "statedCosts" | "observeBody"> {
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
  /** Costs by the names of policies, in place of the policies' own. */
  readonly costs?: ReadonlyMap<string, number>;
  /** Called with the spends of an admitted request, before it is forwarded. */
  readonly onAdmitted?: (charged: DecidedRequest) => void;
  readonly forward: Forward;
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
  const { runtime, forward, waitUntil } = options;
  runtime.statistics?.locate(request.cf);
  let dryRunDenials: KeyDenial[] = [];
  const charged = await decideByNewestRules(runtime.control, waitUntil, (scope) => {
    dryRunDenials = [];
    return chargePolicies(policiesInEffect(), { ...options, scope, dryRunDenials });
  });
  if (dryRunDenials.length > 0) await reportDryRunDenials(dryRunDenials, options);
  if (charged instanceof Response) return charged;
  recordOutcomes(charged, runtime);
  options.onAdmitted?.(charged);
  const { spends, admission } = charged;
  const { statedCosts, observeBody } = options;
  const response = await forwardAdmitted(request, charged, {
    clock: runtime.clock,
    forward,
    waitUntil,
    statedCosts,
    observeBody,
  });
  if (options.hasFinalFields?.(response.headers) !== true) {
    addFields(response, decisionFields({ spends, admission }, runtime.hasLegacyHeaders));
  }
  return response;
}

interface ChargeOptions extends EnforcementOptions {
  readonly scope: RequestScope;
  /** Receives the key denials of dry runs. */
  readonly dryRunDenials: KeyDenial[];
}

/**
 * Charges policies, all or none.
 * @returns the denial; the spends when the request is admitted, or when a second attempt follows
 */
async function chargePolicies(policies: readonly Policy[], options: ChargeOptions): Promise<DecidedRequest | Response> {
  if (!isPreflight(options.attributes)) return chargeRequest(policies, [], options);
  const announced = await resolveAnnounced(options);
  const blocked = enforcedDenials(announced.blocked, options.dryRunDenials);
  if (blocked.length > 0) return denyByKey(blocked, options);
  return chargeRequest(policies, announced.looks, options);
}

/** Denies an admitted request if one of its other keys is banned or blocked, and gives back the request's spends. */
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
  // Otherwise these spends could deny the second attempt, or the next request.
  await givingBack;
  return bars === null || isStale ? charged : denyByLimits(bars, options);
}

/** @param announced reads without a charge, of the keys of the request that a preflight announces */
async function chargeRequest(
  policies: readonly Policy[],
  announced: readonly Spend[],
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
  const naming = looksAtNamedKeys(resolutions, options);
  const looks = naming instanceof Promise ? [...announced, ...(await naming)] : announced;
  const knownBars = runtime.bans.cached(looks);
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
  const { policy, parts, values } = resolution;
  const cost = options.costs?.get(policy.name) ?? costOfRequest(policy, attributes);
  const ttlMs = options.reservationTtlMs?.(policy) ?? null;
  return {
    policy,
    partitionKey: await runtime.partitions.partitionKey(parts, values, tenant),
    cost,
    ...(ttlMs !== null && { ttlMs }),
    ...(runtime.statistics?.revealsKeys === true && { plain: plainKeyOf(resolution, tenant) }),
  };
}

function addFields({ status, headers }: Response, fields: DecisionFields | null): void {
  if (fields === null || !mayHaveRateLimitFields(status)) return;
  addRateLimitFields(headers, fields.standard);
  if (fields.legacy !== null) addLegacyFields(headers, fields.legacy);
}
