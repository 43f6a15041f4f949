/** Denials: the response to the client, and the entries in the log of denials. */
import type { KeyDenial } from "../../policy/resolve-key.ts";
import type { LoggedDenial } from "../../limiter/isolate/denial-log.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import { shownName } from "../../policy/within.ts";
import { denialReason, isByKeyRule, type Outcome, violatedLimits } from "../../limiter/isolate/outcome.ts";
import { keyPseudonym, report } from "../../observability/events.ts";
import {
  type DecidedRequest,
  denyingOf,
  logDeniedRequest,
  recordKeyDenials,
  recordOutcomes,
  type RequestCounting,
} from "../record-outcomes.ts";
import type { Runtime } from "../runtime.ts";
import { advertisedWaitMs, decisionFields } from "../wire/rate-limit-fields.ts";
import { type Failure, type ProblemAnswer, problemAnswer, problemResponse, responseOf } from "../wire/problems.ts";
import { CachedDenialValues } from "../cached-denials.ts";

/** The circumstances of a denial, apart from the request itself. */
export interface DenialContext {
  readonly runtime: Runtime;
  readonly waitUntil: WaitUntil;
  /** The tenant whose keys are charged; null for the keys of the proxy. */
  readonly tenant: string | null;
  /** The status of denials by limits, in place of the policies' own. */
  readonly denyStatus?: number | undefined;
  /** Called before a denial is answered, except for a denial by the key alone. */
  readonly onDenied?: (denied: DecidedRequest) => void;
  /** Answers a denial by limits or bans in place of the policies' own answers; null to leave it to them. */
  readonly answerDenial?: (denial: LimitDenial) => Promise<Response> | null;
  readonly counting?: RequestCounting | undefined;
}

/** A denial by limits or bans. */
export interface LimitDenial {
  readonly denied: DecidedRequest;
  /** At least one. */
  readonly denying: readonly Outcome[];
  /** The header fields of the default answer to the denial. */
  readonly fields: () => ProblemAnswer["headers"];
}

/** Logs and counts key denials of dry runs. */
export async function reportDryRunDenials(
  denials: readonly KeyDenial[],
  context: Pick<DenialContext, "runtime" | "tenant">,
): Promise<void> {
  const keys = await Promise.all(denials.map((denial) => blockedKey(denial, context)));
  await recordKeyDenials(denials, context);
  for (const [index, { kind, policy }] of denials.entries()) {
    const reason = kind === "blocked" ? "listed" : "key-missing";
    report({ event: "dry-run-denied", policy: policy.name, violated: [], reason, ...keys[index] });
  }
}

/**
 * Logs, counts and answers key denials: 403. A key that a function gives has no part that a client could know, so the policy
 * names it.
 * @param denials at least one
 */
export async function denyByKey(denials: readonly KeyDenial[], context: DenialContext): Promise<Response> {
  const { denialLog } = context.runtime;
  const instance = await recordKeyDenials(denials, context);
  if (denialLog !== null) {
    const logged = await Promise.all(denials.map((denial) => loggedKeyDenial(denial, context)));
    for (const each of logged) denialLog.note(() => each, context.waitUntil);
  }
  if (denials.some(({ kind }) => kind === "blocked")) return problemResponse({ kind: "blocked" }, instance);
  const missing = denials.flatMap((denial) =>
    denial.kind === "missing-key" ? denial.missing.map((part) => shownName(part, denial.policy)) : [],
  );
  return problemResponse({ kind: "key-missing", parts: [...new Set(missing)] }, instance);
}

async function loggedKeyDenial(
  denial: KeyDenial,
  context: Pick<DenialContext, "runtime" | "tenant">,
): Promise<LoggedDenial> {
  const { name: policy } = denial.policy;
  const logged = { policy, reason: "deny", violated: [], retryAfterMs: null } as const;
  if (denial.kind === "missing-key") return { ...logged, missing: denial.missing };
  return { ...logged, ...(await blockedKey(denial, context)) };
}

async function blockedKey(
  denial: KeyDenial,
  { runtime, tenant }: Pick<DenialContext, "runtime" | "tenant">,
): Promise<{ readonly key?: string }> {
  if (denial.kind !== "blocked") return {};
  const { parts, values } = denial;
  return { key: keyPseudonym(await runtime.partitions.partitionKey(parts, values, tenant)) };
}

/**
 * Logs, counts and answers a denial by limits, a ban or too many reservations: 429, or 503 when a policy fails closed. A key that a
 * rule blocks gets the answer of the policy's blocklist: 403.
 */
export function denyByLimits(denied: DecidedRequest, context: DenialContext): Response | Promise<Response> {
  const { runtime, waitUntil, denyStatus, answerDenial } = context;
  recordOutcomes(denied, runtime, context.counting);
  const instance = logDeniedRequest(denied, runtime, waitUntil);
  context.onDenied?.(denied);
  const answerNow = (): ProblemAnswer => denialAnswer(denied, context, instance);
  if (answerDenial !== undefined && isByLimits(denied)) {
    const fields = (): ProblemAnswer["headers"] => answerNow().headers;
    const answering = answerDenial({ denied, denying: denyingOf(denied).denying, fields });
    if (answering !== null) return answering;
  }
  return responseOf(cachedAnswer(denied, [denyStatus, instance], answerNow));
}

const cachedAnswers = new CachedDenialValues<ProblemAnswer>();

/** The answer to a denial. The answer to a cached denial is cached with the denial. */
function cachedAnswer(
  { spends, admission }: DecidedRequest,
  dependencies: readonly unknown[],
  answerNow: () => ProblemAnswer,
): ProblemAnswer {
  const { cachedDenial, decidedAtMs } = admission;
  // The current period of a calendar window can end while the denial is cached.
  const hasPeriods = spends.some(({ policy }) => policy.limits.some(({ period }) => period !== undefined));
  if (cachedDenial === null || hasPeriods) return answerNow();
  // The legacy fields state the ends of waits, which count from the object's reply.
  const repliedAtMs = decidedAtMs - cachedDenial.ageMs;
  // The answer lists the limits of all policies.
  const policies = spends.map(({ policy }) => policy);
  return cachedAnswers.get(cachedDenial, decidedAtMs, [...dependencies, repliedAtMs, ...policies], answerNow);
}

/** Whether limits or bans deny, and not a blocking key rule, a missing decision or too many reservations. */
function isByLimits(denied: DecidedRequest): boolean {
  const { denying } = denyingOf(denied);
  return denying.length > 0 && denying.every(isDeniedByLimits);
}

/** @param denying an outcome that denies */
export const isDeniedByLimits = (denying: Outcome): boolean =>
  denying.decision !== null && !isByKeyRule(denying, "block");

function denialAnswer(
  denied: DecidedRequest,
  { runtime, denyStatus }: Pick<DenialContext, "runtime" | "denyStatus">,
  instance: string | null,
): ProblemAnswer {
  const member = { instance };
  const { denying } = denyingOf(denied);
  if (denying.some((outcome) => isByKeyRule(outcome, "block"))) {
    return problemAnswer({ kind: "blocked" }, member);
  }
  if (denying.some(({ kind }) => kind === "closed")) return problemAnswer({ kind: "undecided" }, member);
  if (denying.length === 0) return problemAnswer({ kind: "in-flight-full" }, member);
  const fields = decisionFields(denied.spends, denied.admission, runtime.hasLegacyHeaders);
  const onDeny = denying.find(({ policy }) => policy.onDeny !== null)?.policy.onDeny ?? null;
  const answer = denyStatus === undefined ? onDeny : { body: null, contentType: "", ...onDeny, status: denyStatus };
  const headers = { ...fields?.standard, ...fields?.legacy };
  return problemAnswer(limitFailure(denying), { headers, replacement: answer, instance });
}

/** The percentage of the class that denies. Null if none does, or if classes of several policies do. */
function classOf(denying: readonly Outcome[]): number | null {
  const [upTo = null, ...others] = denying.flatMap(({ policy, decision }) =>
    decision?.reason === "class" ? policy.upTo : [],
  );
  return others.length === 0 ? upTo : null;
}

function limitFailure(denying: readonly Outcome[]): Failure {
  const decisions = denying.flatMap(({ decision }) => decision ?? []);
  const violated = violatedLimits(decisions);
  const retryAfterMs = advertisedWaitMs(decisions);
  const reason = denialReason(denying);
  return reason === "ban"
    ? { kind: "abnormal-usage", violated, retryAfterMs }
    : { kind: "quota-exceeded", reason, violated, retryAfterMs, upTo: classOf(denying) };
}
