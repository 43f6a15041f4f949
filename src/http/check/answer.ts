/** Answers of `/check` and of the service binding, and their entries in the log of denials. */
import type { LoggedDenial } from "../../limiter/isolate/denial-log.ts";
import type { CachedDenial } from "../../limiter/isolate/deny-cache.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import {
  allowedNow,
  denialReason,
  type DenialReason,
  isByKeyRule,
  type Outcome,
  type Spend,
  violatedLimits,
  type ChargeResult,
} from "../../limiter/isolate/outcome.ts";
import { keyPseudonym, report } from "../../observability/events.ts";
import { createMeter, type Decision } from "../../strategies/index.ts";
import { CachedDenialValues } from "../cached-denials.ts";
import { logCheckDenial, recordCheck } from "../record-outcomes.ts";
import type { Runtime } from "../runtime.ts";
import { rateLimitFields, type RateLimitFields, retryAfterFieldOf } from "../wire/rate-limit-fields.ts";
import { type Failure, instanceUri, isFailure } from "../wire/problems.ts";
import { blockingLevel, type DecidedTree, type Levels, reportTree, treeAnswer } from "./tree.ts";

export interface CheckAnswer extends Decision {
  /** The name of the policy, or that of the ad hoc limits. */
  policy: string;
  /** Why the check is denied; if allowed, whether by the limits, the `allow` list, dry run or mode `off`. */
  reason: DenialReason | "allow" | "dry-run" | "off";
  /** The names of the limits that deny; empty when a ban or a `deny` list denies. */
  violated: string[];
  headers: RateLimitFields;
  /** Identifies a denial in the log of denials. */
  instance?: string;
}

/** Why a key is not charged: it is on a list of the policy, a key rule allows or blocks it, or the policy is off. */
type Uncharged = "allow" | "deny" | "off";

/** A check whose policy and key are found. */
export interface ResolvedCheck {
  readonly spend: Spend;
  /** Null when the limits decide. */
  readonly uncharged: Uncharged | null;
  readonly isDryRun: boolean;
  /** The name that a caller gives to ad hoc limits. Default: none. */
  readonly adhocName?: string | null;
  /** The levels of a key of a policy with `within`: the root first, this check last. Default: no tree. */
  readonly levels?: Levels;
}

/** The spend of a look. */
export const withoutCharge = ({ spend }: ResolvedCheck): Spend => ({ ...spend, cost: 0 });

/** A check whose limits, lists or rules have decided. */
interface RuledCheck {
  /** `uncharged` is set if a key rule decided. */
  readonly resolved: ResolvedCheck;
  /** Null when the limits have not decided. */
  readonly outcome: Outcome | null;
  /** More than 0 when the limits allow the check, but its key has the maximum of open reservations. */
  readonly fullForMs: number;
  /** The UUID of a denial in the log of denials. Default: it is not logged. */
  readonly instance?: string;
}

/**
 * A check that a cached denial has decided. Its outcome is built only on demand, because the response uses the cached
 * text.
 */
interface CacheDeniedCheck {
  readonly resolved: ResolvedCheck;
  readonly cachedDenial: CachedDenial;
  readonly decidedAtMs: number;
  readonly instance?: string;
}

export type DecidedCheck = RuledCheck | CacheDeniedCheck | DecidedTree;

/** The decided check from the result of its charge. */
export function admittedCheck(resolved: ResolvedCheck, admission: ChargeResult): DecidedCheck {
  const { levels } = resolved;
  if (levels !== undefined) return { levels, admission };
  const { cachedDenial, decidedAtMs } = admission;
  // A dry run answers the same denial differently.
  return cachedDenial === null || resolved.isDryRun
    ? decidedCheck(resolved, admission.outcomes[0] ?? null)
    : { resolved, cachedDenial, decidedAtMs };
}

/** The decided check from the outcome of its spend, or of a look at a key that is not charged. */
export function decidedCheck(resolved: ResolvedCheck, outcome: Outcome | null): RuledCheck {
  const byRule = outcome === null ? null : unchargedBy(outcome);
  const isRuled = resolved.uncharged === null && byRule !== null;
  return { resolved: isRuled ? { ...resolved, uncharged: byRule } : resolved, outcome, fullForMs: 0 };
}

const ruled = (decided: RuledCheck | CacheDeniedCheck): RuledCheck =>
  "cachedDenial" in decided ? decidedCheck(decided.resolved, decided.cachedDenial.outcomes[0] ?? null) : decided;

function unchargedBy(outcome: Outcome): Uncharged | null {
  if (isByKeyRule(outcome, "allow")) return "allow";
  return isByKeyRule(outcome, "block") ? "deny" : null;
}

export function answerOf(decided: DecidedCheck): CheckAnswer | Failure {
  const answer = "levels" in decided ? treeAnswer(decided) : answerWithoutInstance(ruled(decided));
  const { instance } = decided;
  // The failure `reservations-full` is a denial; the others are not.
  if (instance === undefined || (isFailure(answer) && answer.kind !== "reservations-full")) return answer;
  return { ...answer, instance: instanceUri(instance) };
}

function answerWithoutInstance({ resolved, outcome, fullForMs }: RuledCheck): CheckAnswer | Failure {
  if (fullForMs > 0) return { kind: "reservations-full", retryAfterMs: fullForMs };
  if (resolved.uncharged !== null) return unchargedAnswer(resolved, resolved.uncharged, outcome);
  if (outcome === null) return { kind: "internal" };
  const { kind, policy, decision } = outcome;
  // The failure modes `open` and `closed` are for the proxy: callers of `/check` choose their own.
  if (decision === null) return { kind: "undecided" };
  const violated = violatedLimits([decision]);
  if (resolved.isDryRun) {
    const reason = decision.allowed ? "limit" : "dry-run";
    return { ...decision, ...allowedNow, policy: policy.name, reason, violated, headers: {} };
  }
  const reason = decision.allowed ? "limit" : denialReason([outcome]);
  const headers = kind === "decided" ? rateLimitFields(policy.limits, [decision]) : retryAfterFieldOf([decision]);
  return { ...decision, policy: resolved.adhocName ?? policy.name, reason, violated, headers };
}

/**
 * The answer for a key that is not charged. It includes the state of the limits, although they do not decide. Without
 * an outcome, this is the state of an unused key.
 */
function unchargedAnswer(resolved: ResolvedCheck, uncharged: Uncharged, outcome: Outcome | null): CheckAnswer {
  const { spend, isDryRun } = resolved;
  const { policy, cost } = spend;
  const isDenied = uncharged === "deny" && !isDryRun;
  return {
    ...(outcome?.decision ?? createMeter(policy.limits).look(0, 0)),
    ...allowedNow,
    ...(isDenied && { allowed: false, retryAfterMs: null }),
    cost,
    policy: policy.name,
    reason: uncharged === "deny" && isDryRun ? "dry-run" : uncharged,
    violated: [],
    headers: {},
  };
}

/** An answer as JSON, with the members that its response needs. */
export interface AnswerText extends Pick<CheckAnswer, "allowed" | "headers"> {
  readonly json: string;
}

export const answerText = (answer: CheckAnswer | Failure): AnswerText | Failure =>
  isFailure(answer) ? answer : { allowed: answer.allowed, headers: answer.headers, json: JSON.stringify(answer) };

/**
 * Answers to a cached denial, which differ only in their waits in milliseconds until a wait in whole seconds changes.
 */
const cachedTexts = new CachedDenialValues<(ageMs: number) => AnswerText>();

/** The text of the answer, which is cached with a cached denial. */
export function decidedText(decided: DecidedCheck): AnswerText | Failure {
  if (!("cachedDenial" in decided)) return answerText(answerOf(decided));
  const { cachedDenial, decidedAtMs, instance } = decided;
  const { ageMs } = cachedDenial;
  return cachedTexts.get(cachedDenial, decidedAtMs, [instance], () => textFrom(ageMs, answerOf(decided)))(ageMs);
}

const waits = new Set(["retryAfterMs", "bannedForMs", "replenishAfterMs", "resetAfterMs"]);

/**
 * A placeholder for a wait in the JSON. It is unambiguous: no name contains this character, and a text would escape the
 * quotation marks around it.
 */
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

/**
 * Counts the check, and logs it if it is a denial.
 * @returns the check, with the instance of a denial that the control plane will log
 */
export function reportCheck<Decided extends DecidedCheck>(
  runtime: Runtime,
  decided: Decided,
  waitUntil: WaitUntil,
): Decided {
  if ("levels" in decided) return reportedAs(decided, reportLevels(runtime, decided, waitUntil));
  const { statistics, denialLog } = runtime;
  // Builds no outcome if nothing reads it. A check that a cached denial has decided is never a dry run.
  if ("cachedDenial" in decided && statistics === null && denialLog === null) return decided;
  const check = ruled(decided);
  recordCheck(check, runtime);
  const denial = denialIn(check);
  if (denial === null) return decided;
  logDenial(runtime, check, denial, waitUntil);
  const instance = logCheckDenial(check, denial.reason, runtime);
  return reportedAs(decided, instance);
}

const reportedAs = <Decided extends DecidedCheck>(decided: Decided, instance: string | null): Decided =>
  instance === null ? decided : { ...decided, instance };

/** @returns as `reportTree`; also for a check that a `deny` list denies */
function reportLevels(runtime: Runtime, decided: DecidedTree, waitUntil: WaitUntil): string | null {
  const { levels } = decided;
  // The key is not charged, so its cost is not stated.
  const reportListed = (level: ResolvedCheck): string | null =>
    reportCheck(runtime, decidedCheck({ ...level, spend: withoutCharge(level) }, null), waitUntil).instance ?? null;
  const blocking = blockingLevel(levels);
  if (blocking !== undefined) return reportListed(blocking);
  const instance = reportTree(runtime, decided, waitUntil);
  for (const level of levels) if (level.uncharged === "deny") reportListed(level);
  return instance;
}

/** Logs a denial as an event, if the configuration says so. */
function logDenial({ denialLog }: Runtime, check: RuledCheck, denial: DenialReport, waitUntil: WaitUntil): void {
  const { spend, isDryRun } = check.resolved;
  if (denialLog === null && !isDryRun) return;
  const policy = spend.policy.name;
  const key = keyPseudonym(spend.partitionKey);
  const { reason, violated, retryAfterMs } = denial;
  if (isDryRun && reason !== "reservations") {
    const listing = check.resolved.uncharged === null ? {} : ({ reason: "listed" } as const);
    report({ event: "dry-run-denied", policy, violated, ...listing, key });
  } else {
    denialLog?.note(() => ({ policy, reason, violated, key, retryAfterMs }), waitUntil);
  }
}

type DenialReport = Pick<LoggedDenial, "reason" | "violated" | "retryAfterMs">;

/** Null for a check that is allowed, also because its policy is off, or undecided. */
function denialIn({ resolved: { uncharged }, outcome, fullForMs }: RuledCheck): DenialReport | null {
  if (fullForMs > 0) return { reason: "reservations", violated: [], retryAfterMs: fullForMs };
  if (uncharged !== null) return uncharged === "deny" ? { reason: "deny", violated: [], retryAfterMs: null } : null;
  if (outcome === null || outcome.decision === null || outcome.decision.allowed) return null;
  const { decision } = outcome;
  return { reason: denialReason([outcome]), violated: violatedLimits([decision]), retryAfterMs: decision.retryAfterMs };
}
