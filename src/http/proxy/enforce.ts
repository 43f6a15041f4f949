/** Decides a request by all policies that it meets: forwards it and adds its RateLimit fields, or refuses it. */
import type { Context, Handler } from "hono";
import type { Policy } from "../../config/index.ts";
import type { Admission } from "../../limiter/client/admission.ts";
import type { WaitUntil } from "../../limiter/client/object-caller.ts";
import type { Spend } from "../../limiter/client/outcome.ts";
import { costOfRequest } from "../../policies/cost.ts";
import { matchingPolicies } from "../../policies/match.ts";
import { needsClaims, type KeyResolution, resolveKey } from "../../policies/resolve-key.ts";
import type { Claims, RequestAttributes } from "../../policies/request-attributes.ts";
import { refusal, refusalOf, toldOf } from "./denial.ts";
import {
  isRefusedDryRun,
  refusedByLimits,
  refusedByRuling,
  reportRefusedDryRuns,
} from "./denial-events.ts";
import type { Runtime } from "../runtime.ts";
import {
  addRateLimitFields,
  hasRateLimitFields,
  rateLimitFields,
} from "../wire/rate-limit-fields.ts";
import { InFlight, openForMs } from "./in-flight.ts";
import { addLegacyFields, legacyFields } from "../wire/legacy-headers.ts";
import { isPreflight } from "./response-marks.ts";
import { standingOf } from "./preflights.ts";
import { type Failure, isFailure, problemResponse } from "../wire/problems.ts";
import type { Forward } from "./forward.ts";
import { attributesOf } from "../attributes.ts";

/** A denial answers before the body of the request is read; what has its turn in a queue is held until then. */
export function enforce(runtime: Runtime, forward: Forward): Handler {
  return async function enforced(c) {
    const request = c.req.raw;
    const waitUntil = waitUntilOf(c);
    const attributes = attributesOf(request);
    const met = metBy(runtime, attributes);
    return answered(
      runtime,
      { attributes, met, tenant: null, isSettled: true, deny: null, areFieldsMerged: true },
      request,
      forward,
      waitUntil,
    );
  };
}

/** Keeps the Worker running for work that goes on after the answer. */
export const waitUntilOf =
  (c: Pick<Context, "executionCtx">): WaitUntil =>
  (work) =>
    c.executionCtx.waitUntil(work);

/** The policies that a request meets. */
export const metBy = (
  { policies, preflights }: Runtime,
  attributes: RequestAttributes,
): readonly Policy[] =>
  isPreflight(attributes) ? preflights : matchingPolicies(policies, attributes);

/** What is to be decided. */
export interface Question {
  readonly attributes: RequestAttributes;
  /** The policies that it meets. */
  readonly met: readonly Policy[];
  /** Claims that a trusted caller states, in addition to those of the request's token; none when left out. */
  readonly claims?: Claims;
  /** Whose keys are charged; null: the proxy's. */
  readonly tenant: string | null;
  /** Whether it will be known what came of it; where not, what is spent is spent. */
  readonly isSettled: boolean;
  /** The status of a denial, in place of the policies' own. */
  readonly deny: number | null;
  /** Whether RateLimit fields that the answer has are added to; where not, they stand alone. */
  readonly areFieldsMerged: boolean;
}

/** The denial, or what `forward` answers, with the RateLimit fields. */
export async function answered(
  runtime: Runtime,
  question: Question,
  request: Request,
  forward: Forward,
  waitUntil: WaitUntil,
): Promise<Response> {
  const { denialLog, hasLegacyHeaders } = runtime;
  const refuse = ({ spends, admission }: Denied): Response => {
    const denials = denialLog === null ? [] : refusedByLimits(spends, admission);
    for (const denial of denials) denialLog?.note(denial, waitUntil);
    return refusal(spends, admission, question.deny, hasLegacyHeaders);
  };
  const standing = isPreflight(question.attributes) ? await standingOf(runtime, question) : null;
  const blocked = standing === null ? null : refusalOf(standing.blocked);
  if (blocked !== null) {
    await logRefused(runtime, standing?.blocked ?? [], question, waitUntil);
    return blocked;
  }
  const known = standing === null ? null : runtime.bans.known(standing.bannable);
  if (known !== null) return refuse(known);
  const resolutions = await rulingsOf(runtime, question);
  if (isFailure(resolutions)) return problemResponse(resolutions);
  const refused = refusalOf(resolutions);
  if (refused !== null) {
    await logRefused(runtime, resolutions, question, waitUntil);
    return refused;
  }
  const spends = await Promise.all(resolutions.flatMap((each) => spendOf(runtime, each, question)));
  const admitting = runtime.limiter.admit(spends, waitUntil);
  // A client that goes away meanwhile must not leave behind what is spent for it.
  waitUntil(admitting);
  const admission = await admitting;
  if (admission.isRefused) return refuse({ spends, admission });
  // After the preflight's own limits, which bound how often objects are asked for bans.
  const found = standing === null ? null : await runtime.bans.find(standing.bannable);
  if (found !== null) {
    waitUntil(admission.giveBack());
    return refuse(found);
  }
  const response = await new InFlight(spends, admission).answer(request, forward, waitUntil);
  if (question.areFieldsMerged || !hasRateLimitFields(response.headers))
    addFields(response, spends, admission, hasLegacyHeaders);
  return response;
}

interface Denied {
  readonly spends: readonly Spend[];
  readonly admission: Admission;
}

async function logRefused(
  { denialLog, partitions }: Runtime,
  resolutions: readonly KeyResolution[],
  { tenant }: Question,
  waitUntil: WaitUntil,
): Promise<void> {
  if (denialLog === null) return;
  const denials = await refusedByRuling(partitions, resolutions, tenant);
  for (const denial of denials) denialLog.note(denial, waitUntil);
}

/**
 * What the policies that a request meets do with it; its token is verified once, and only for those that ask for it. A
 * dry run refuses nobody.
 */
async function rulingsOf(
  { readClaims, partitions }: Runtime,
  { met, attributes, tenant, claims: stated }: Question,
): Promise<KeyResolution[] | Failure> {
  const asking = met.filter(needsClaims);
  const read = asking.length > 0 ? await readClaims(attributes.headers) : { claims: {} };
  const isUnreadable = isFailure<Failure>(read);
  if (isUnreadable && asking.some(({ isDryRun }) => !isDryRun)) return read;
  const own = isUnreadable ? {} : read.claims;
  const claims = stated === undefined ? own : { ...own, ...stated };
  const resolutions = met.map((policy) => resolveKey(policy, attributes, claims));
  const dryRuns = resolutions.filter(isRefusedDryRun);
  if (dryRuns.length === 0) return resolutions;
  await reportRefusedDryRuns(partitions, dryRuns, tenant);
  return resolutions.filter((each) => !dryRuns.includes(each));
}

/** What a policy charges; nothing where it does not apply. */
function spendOf(
  { partitions }: Runtime,
  resolution: KeyResolution,
  { attributes, tenant, isSettled }: Question,
): Promise<Spend>[] {
  if (resolution.kind !== "charge") return [];
  const { policy, parts, values } = resolution;
  const cost = costOfRequest(policy, attributes);
  const ttlMs = isSettled ? openForMs(policy) : null;
  const partitionKey = partitions.partitionKey(parts, values, tenant);
  return [
    partitionKey.then((each) => ({
      policy,
      partitionKey: each,
      cost,
      ...(ttlMs !== null && { ttlMs }),
    })),
  ];
}

/**
 * A client must not take a redirect's or an upgrade's fields for a reason not to follow it; a 304 updates what caches
 * hold.
 */
function addFields(
  response: Response,
  spends: readonly Spend[],
  admission: Admission,
  hasLegacy: boolean,
): void {
  const { status, headers } = response;
  const told = toldOf(spends, admission);
  const hasFields = status >= 200 && (status < 300 || status >= 400);
  if (told.decisions.length === 0 || !hasFields) return;
  addRateLimitFields(headers, rateLimitFields(told.limits, told.decisions));
  if (hasLegacy) addLegacyFields(headers, legacyFields(told.decisions, admission.decidedAtMs));
}
