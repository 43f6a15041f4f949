/** Answers of `/check` and of the service binding, and their entries in the log of denials. */
import type { CachedDenial, ChargeResult } from "../../limiter/isolate/charge-result.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import {
  allowedNow,
  denialReason,
  type DenialReason,
  isByKeyRule,
  type Outcome,
  type Spend,
  violatedLimits,
} from "../../limiter/isolate/outcome.ts";
import { keyPseudonym, report } from "../../observability/events.ts";
import { createMeter, type Decision } from "../../strategies/index.ts";
import { CachedDenialValues } from "../cached-denials.ts";
import { recordCheck } from "../record-outcomes.ts";
import type { Runtime } from "../runtime.ts";
import { rateLimitFields, type RateLimitFields, retryAfterFieldOf } from "../wire/rate-limit-fields.ts";
import { type Failure, isFailure } from "../wire/problems.ts";

export interface CheckAnswer extends Decision {
  /** The name of the policy, or that of the ad hoc limits. */
  policy: string;
  /** Why the check is denied; if allowed, whether by the limits, the `allow` list, dry run or mode `off`. */
  reason: DenialReason | "allow" | "dry-run" | "off";
  /** The names of the limits that deny; empty when a ban or a `deny` list denies. */
  violated: string[];
  headers: RateLimitFields;
}

/** Why a key is not charged: it is on a list of the policy, a key rule allows or blocks it, or the policy is off. */
export type Uncharged = "allow" | "deny" | "off";

/** A check whose policy and key are found. */
export interface ResolvedCheck {
  readonly spend: Spend;
  /** Null when the limits decide. */
  readonly uncharged: Uncharged | null;
  readonly isDryRun: boolean;
  /** The name that a caller gives to ad hoc limits. Default: none. */
  readonly adhocName?: string | null;
}

export interface DecidedCheck {
  /** With the key rule that decided. */
  readonly resolved: ResolvedCheck;
  readonly answer: CheckAnswer | Failure;
  /** Null when neither an object nor the isolate has decided. */
  readonly outcome: Outcome | null;
  /** Only of a check that a cached denial has decided. Its other members are built when they are read. */
  readonly cachedText?: AnswerText;
}

/** An answer as JSON, with the members that its response needs. */
export interface AnswerText extends Pick<CheckAnswer, "allowed" | "headers"> {
  readonly json: string;
}

export const answerText = (answer: CheckAnswer | Failure): AnswerText | Failure =>
  isFailure(answer) ? answer : { allowed: answer.allowed, headers: answer.headers, json: JSON.stringify(answer) };

/** The answer to a check by the admission of its spend. */
export function admittedCheck(resolved: ResolvedCheck, admission: ChargeResult): DecidedCheck {
  // The same denial of a dry run has another answer.
  return admission.cachedDenial === null || resolved.isDryRun
    ? checkByOutcome(resolved, admission.outcomes[0])
    : new CacheDeniedCheck(resolved, admission.cachedDenial, admission.decidedAtMs);
}

class CacheDeniedCheck implements DecidedCheck {
  readonly #resolved: ResolvedCheck;
  readonly #cachedDenial: CachedDenial;
  readonly #nowMs: number;
  #decided: DecidedCheck | null = null;

  constructor(resolved: ResolvedCheck, cachedDenial: CachedDenial, nowMs: number) {
    this.#resolved = resolved;
    this.#cachedDenial = cachedDenial;
    this.#nowMs = nowMs;
  }

  get resolved(): ResolvedCheck {
    return this.#decide().resolved;
  }

  get answer(): CheckAnswer | Failure {
    return this.#decide().answer;
  }

  get outcome(): Outcome | null {
    return this.#decide().outcome;
  }

  get cachedText(): AnswerText {
    const { ageMs } = this.#cachedDenial;
    return cachedTexts.get(this.#cachedDenial, this.#nowMs, [], () => textFrom(ageMs, this.answer))(ageMs);
  }

  #decide(): DecidedCheck {
    return (this.#decided ??= checkByOutcome(this.#resolved, this.#cachedDenial.outcomes[0]));
  }
}

/** Until a wait in whole seconds changes, only the waits in milliseconds differ between two answers to a cached denial. */
const cachedTexts = new CachedDenialValues<(ageMs: number) => AnswerText>();

const waits = new Set(["retryAfterMs", "bannedForMs", "replenishAfterMs", "resetAfterMs"]);

/** Stands for a wait in the JSON. No name has this character, and within a text its quotation marks would be escaped. */
const anyWait = "\u0000";

/** Returns the text of an answer to a cached denial of this or a greater age. */
function textFrom(fromAgeMs: number, answer: CheckAnswer | Failure): (ageMs: number) => AnswerText {
  if (isFailure(answer)) throw new TypeError("a cached denial has a decision");
  const { allowed, headers } = answer;
  const waitsMs: number[] = [];
  const json = JSON.stringify(answer, (name, value: unknown) => {
    const isRunning = typeof value === "number" && value > 0 && waits.has(name);
    if (isRunning) waitsMs.push(value);
    return isRunning ? anyWait : value;
  });
  const [first = "", ...others] = json.split(JSON.stringify(anyWait));
  return (ageMs) => {
    let text = first;
    for (const [index, other] of others.entries()) text += `${(waitsMs[index] ?? 0) - (ageMs - fromAgeMs)}${other}`;
    return { allowed, headers, json: text };
  };
}

function checkByOutcome(resolved: ResolvedCheck, outcome: Outcome | undefined): DecidedCheck {
  if (outcome === undefined) return { resolved, answer: { kind: "internal" }, outcome: null };
  return decidedCheck(resolved, outcome);
}

/** The answer to a check by the outcome of its spend, or of a look at a key that is not charged. */
export function decidedCheck(resolved: ResolvedCheck, outcome: Outcome): DecidedCheck {
  const uncharged = resolved.uncharged ?? unchargedBy(outcome);
  if (uncharged === null) return { resolved, answer: answerOf(outcome, resolved), outcome };
  const decision = "decision" in outcome ? outcome.decision : null;
  return unchargedCheck({ ...resolved, uncharged }, decision);
}

function unchargedBy(outcome: Outcome): Uncharged | null {
  if (isByKeyRule(outcome, "allow")) return "allow";
  return isByKeyRule(outcome, "block") ? "deny" : null;
}

function answerOf(outcome: Outcome, { isDryRun, adhocName }: ResolvedCheck): CheckAnswer | Failure {
  // The failure modes `open` and `closed` are for the proxy: callers of `/check` choose their own.
  if (!("decision" in outcome)) return { kind: "undecided" };
  const { kind, policy, decision } = outcome;
  const violated = violatedLimits([decision]);
  if (isDryRun) {
    const reason = decision.allowed ? "limit" : "dry-run";
    return { ...decision, ...allowedNow, policy: policy.name, reason, violated, headers: {} };
  }
  const reason = decision.allowed ? "limit" : denialReason([outcome]);
  const headers = kind === "decided" ? rateLimitFields(policy.limits, [decision]) : retryAfterFieldOf([decision]);
  return { ...decision, policy: adhocName ?? policy.name, reason, violated, headers };
}

/**
 * The answer for a key that is not charged. The state of the limits is included, but does not decide.
 * @param decision the state; null shows that of an unused key
 */
export function unchargedCheck(
  resolved: ResolvedCheck & { readonly uncharged: Uncharged },
  decision: Decision | null,
): DecidedCheck {
  const { spend, uncharged, isDryRun } = resolved;
  const { policy, cost } = spend;
  const isDenied = uncharged === "deny" && !isDryRun;
  const answer: CheckAnswer = {
    ...(decision ?? createMeter(policy.limits).look(0, 0)),
    ...allowedNow,
    ...(isDenied && { allowed: false, retryAfterMs: null }),
    cost,
    policy: policy.name,
    reason: uncharged === "deny" && isDryRun ? "dry-run" : uncharged,
    violated: [],
    headers: {},
  };
  return { resolved, answer, outcome: null };
}

/** Counts the check, and logs the answer if it is a denial. */
export function reportCheck(runtime: Runtime, decided: DecidedCheck, waitUntil: WaitUntil): void {
  const { statistics, denialLog } = runtime;
  // Builds no answer that nothing reads. A check that a cached denial has decided is no dry run.
  if ("cachedText" in decided && statistics === null && denialLog === null) return;
  recordCheck(decided, runtime);
  const { resolved, answer } = decided;
  const key = keyPseudonym(resolved.spend.partitionKey);
  const policy = resolved.spend.policy.name;
  if ("kind" in answer) {
    if (answer.kind !== "reservations-full") return;
    const { retryAfterMs } = answer;
    const denial = { policy, reason: "reservations", violated: [], key, retryAfterMs } as const;
    denialLog?.note(() => denial, waitUntil);
    return;
  }
  const { allowed, reason, violated, retryAfterMs } = answer;
  if (reason === "dry-run") {
    const listing = resolved.uncharged === null ? {} : ({ reason: "listed" } as const);
    report({ event: "dry-run-denied", policy, violated, ...listing, key });
  } else if (!allowed && reason !== "allow" && reason !== "off") {
    denialLog?.note(() => ({ policy, reason, violated, key, retryAfterMs }), waitUntil);
  }
}
