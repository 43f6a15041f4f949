/** What a client is answered whose request is not admitted. */
import type { Admission } from "../../limiter/client/admission.ts";
import {
  admits,
  denialReason,
  type Outcome,
  type Spend,
  violatedLimits,
} from "../../limiter/client/outcome.ts";
import type { KeyResolution } from "../../policies/resolve-key.ts";
import { type Decision, type Limit, windowMsAt } from "../../strategies/index.ts";
import { rateLimitFields, advertisedWaitMs } from "../wire/rate-limit-fields.ts";
import { legacyFields } from "../wire/legacy-headers.ts";
import { type Failure, problemResponse } from "../wire/problems.ts";

/** The answer to a request that is refused for what it lacks or for who it is; null when it is not. */
export function refusalOf(resolutions: readonly KeyResolution[]): Response | null {
  if (resolutions.some(({ kind }) => kind === "blocked"))
    return problemResponse({ kind: "blocked" });
  const missing = resolutions.flatMap((resolution) =>
    resolution.kind === "missing-key" ? resolution.missing : [],
  );
  if (missing.length === 0) return null;
  return problemResponse({ kind: "key-missing", parts: [...new Set(missing)] });
}

/**
 * What RateLimit fields tell of: all limits that the request met and that are enforced, and the decisions of objects.
 * An isolate's own count is not the key's.
 */
export function toldOf(
  spends: readonly Spend[],
  { outcomes, decidedAtMs }: Admission,
): { readonly limits: readonly Limit[]; readonly decisions: readonly Decision[] } {
  const limits = spends.flatMap(({ policy }) => (policy.isDryRun ? [] : policy.limits));
  return {
    limits: limits.map((limit) => ({ ...limit, windowMs: windowMsAt(limit, decidedAtMs) })),
    decisions: outcomes.flatMap((outcome) =>
      outcome.kind === "decided" && !outcome.policy.isDryRun ? [outcome.decision] : [],
    ),
  };
}

/**
 * A 429 of those that deny, or what the first of them has to say; a 503 when one is closed for want of a decision.
 * @param deny the status of a denial, whatever they say
 * @param hasLegacy whether it has fields for clients of old, too
 */
export function refusal(
  spends: readonly Spend[],
  admission: Admission,
  deny: number | null,
  hasLegacy: boolean,
): Response {
  const denying = admission.outcomes.filter((outcome) => !admits(outcome));
  if (denying.some((outcome) => outcome.kind === "closed")) {
    return problemResponse({ kind: "undecided" });
  }
  if (denying.length === 0) {
    // What is in flight may be over long before its place is given up.
    return problemResponse({ kind: "in-flight-full" });
  }
  const { limits, decisions } = toldOf(spends, admission);
  const fields = decisions.length === 0 ? {} : { ...rateLimitFields(limits, decisions) };
  const legacy =
    hasLegacy && decisions.length > 0 ? legacyFields(decisions, admission.decidedAtMs) : {};
  const own = denying.find(({ policy }) => policy.onDeny !== null)?.policy.onDeny ?? null;
  const answer = deny === null ? own : { body: null, contentType: "", ...own, status: deny };
  return problemResponse(failureOf(denying), { ...fields, ...legacy }, answer);
}

function failureOf(denying: readonly Outcome[]): Failure {
  const decisions = denying.flatMap((outcome) => ("decision" in outcome ? [outcome.decision] : []));
  const violated = violatedLimits(decisions);
  const retryAfterMs = advertisedWaitMs(decisions);
  const reason = denialReason(denying);
  return reason === "ban"
    ? { kind: "abnormal-usage", violated, retryAfterMs }
    : { kind: "quota-exceeded", reason, violated, retryAfterMs };
}
