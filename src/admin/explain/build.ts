/**
 * Builds an explanation from what the isolate, the key's object and the control plane know. The isolate knows the lists and
 * the mode; the key's object knows the ban, the key rules and what the limits count. If the object does not answer, the
 * outcome is that of `onError`, as for a request.
 */
import type { Policy } from "../../policy/policy.ts";
import { modeOf, type PolicyRule, type PolicyRules, type RulesVersion } from "../../policy/runtime-rules.ts";
import type { PolicyState, Rule } from "../../control/protocol.ts";
import { allows, denialReason, type Outcome } from "../../limiter/isolate/outcome.ts";
import type { ExplainReply, KeyRule, OpenUnits } from "../../limiter/protocol.ts";
import { limitSentence } from "../../strategies/index.ts";
import { type IsolateView, noMatch, stepNames, unknown } from "./isolate.ts";
import type {
  ExplainedLimit,
  ExplainedRule,
  ExplainedStep,
  ExplainedUnits,
  Explanation,
  LimitsStep,
  StepName,
  StepResult,
} from "../wire.ts";

export type Explained = Omit<Explanation, "text" | "lines">;

/** The rules that the control plane has. */
export interface KnownRules {
  readonly keyRules: readonly Rule[];
  readonly policy: PolicyState;
}

/** The reply of the key's object, or the outcome without a reply. */
export interface ObjectView {
  readonly outcome: Outcome;
  /** Null when the object did not answer. */
  readonly reply: ExplainReply | null;
}

/** The explanation without its words. */
export function explanationOf(
  isolate: IsolateView,
  object: ObjectView,
  known: KnownRules | null,
  nowMs: number,
): Explained {
  const { policy, id, isKeyKnown } = isolate;
  const { outcome, reply } = object;
  const [charge] = reply?.charges ?? [];
  const liveRules = charge?.keyRules.map(liveKeyRule) ?? null;
  // Key rules expire by the object's clock, and policy rules by the isolate's.
  const keyRules = explainedRules(liveRules, known?.keyRules ?? null, reply?.atMs ?? nowMs);
  const policyRules = explainedRules(livePolicyRules(policy.rules, nowMs), known?.policy.rules ?? null, nowMs);
  const steps = stepsOf(isolate, charge ?? null);
  const decided = outcomeUnder(steps, policy, object);
  const rules = [...policyRules, ...keyRules];
  return {
    id,
    policy: policy.name,
    mode: modeOf(policy),
    isKeyKnown,
    hasObjectAnswered: reply !== null,
    onError: policy.onError,
    consistency: policy.consistency.kind,
    ...decided,
    nextChangeInMs: nextChangeOf(steps, policy, outcome, rules),
    bannedForMs: charge?.bannedForMs ?? 0,
    steps,
    limitsFrom: limitsStepOf(steps),
    limits: limitsOf(object),
    limitsInEffect: charge?.keyRules.find((rule) => rule.kind === "limits")?.limits ?? policy.limits,
    limitsWithoutKeyRules: policy.limits,
    keyRules,
    policyRules,
    reservations: unitsOf(charge?.reservations, reply),
    slices: unitsOf(charge?.slices, reply),
    versions: {
      isolate: versionOnly(policy.rules),
      controlPlane: versionOnly(known?.policy),
      object: versionOnly(charge?.policyRulesVersion),
      key: versionOnly(charge?.keyRulesVersion),
    },
  };
}

type ObjectCharge = ExplainReply["charges"][number];

function stepsOf({ results }: IsolateView, charge: ObjectCharge | null): readonly ExplainedStep[] {
  const keyRule = (kind: KeyRule["kind"]): StepResult => {
    if (charge === null) return unknown;
    const rule = charge.keyRules.find((each) => each.kind === kind);
    return rule === undefined ? noMatch : { matches: true, rule: rule.id, entry: null };
  };
  const all: Partial<Record<StepName, StepResult>> = {
    ...results,
    ban: charge === null ? unknown : { ...noMatch, matches: charge.bannedForMs > 0 },
    "key-rule-block": keyRule("block"),
    "key-rule-allow": keyRule("allow"),
    "key-rule-limits": keyRule("limits"),
  };
  const deciding = stepNames.find((step) => all[step]?.matches === true);
  return stepNames.map((step) => ({ step, ...(all[step] ?? noMatch), decides: step === deciding }));
}

export const isLimitsStep = (step: StepName): step is LimitsStep => /-(?:limits|overrides)$/.test(step);

/** The configured limits always match. */
export function limitsStepOf(steps: readonly ExplainedStep[]): LimitsStep {
  const found = steps.find(({ step, matches }) => matches === true && isLimitsStep(step));
  return found !== undefined && isLimitsStep(found.step) ? found.step : "configured-limits";
}

type Decided = Pick<Explanation, "allowed" | "reason" | "retryAfterMs">;

/** The outcome by the step that decides. A dry run denies nothing. */
function outcomeUnder(steps: readonly ExplainedStep[], policy: Policy, object: ObjectView): Decided {
  const deciding = steps.find(({ decides }) => decides)?.step ?? "configured-limits";
  const decided = decidedBy(deciding, policy, object);
  return policy.isDryRun && !decided.allowed ? { allowed: true, reason: "dry-run", retryAfterMs: 0 } : decided;
}

const allowed = (reason: Explanation["reason"]): Decided => ({
  allowed: true,
  reason,
  retryAfterMs: 0,
});

function decidedBy(step: StepName, policy: Policy, { outcome, reply }: ObjectView): Decided {
  const denied: Decided = { allowed: false, reason: "deny", retryAfterMs: null };
  switch (step) {
    case "mode":
      return allowed("off");
    case "policy-rule-deny":
    case "configured-deny":
    case "key-rule-block":
      return denied;
    case "policy-rule-allow":
    case "configured-allow":
    case "key-rule-allow":
      return allowed("allow");
    case "missing-key":
      return policy.onMissingKey === "deny" ? denied : allowed("allow");
    case "ban":
    case "key-rule-limits":
    case "policy-rule-overrides":
    case "configured-overrides":
    case "policy-rule-limits":
    case "configured-limits":
      return reply === null ? withoutObject(outcome) : byLimits(outcome);
    default:
      return step satisfies never;
  }
}

const waitOf = (outcome: Outcome): number | null => ("decision" in outcome ? outcome.decision.retryAfterMs : null);

const byLimits = (outcome: Outcome): Decided =>
  allows(outcome)
    ? allowed("limit")
    : { allowed: false, reason: denialReason([outcome]), retryAfterMs: waitOf(outcome) };

const withoutObject = (outcome: Outcome): Decided =>
  allows(outcome)
    ? allowed("object-silent")
    : { allowed: false, reason: "object-silent", retryAfterMs: waitOf(outcome) };

/**
 * When the outcome may next change: the earliest end of the denial's wait, the deciding rule and the rule of the mode.
 */
function nextChangeOf(
  steps: readonly ExplainedStep[],
  { modeRule }: Policy,
  outcome: Outcome,
  rules: readonly { readonly id: string; readonly expiresInMs: number | null }[],
): number | null {
  const deciding = steps.find(({ decides }) => decides);
  const isByObject = deciding !== undefined && stepNames.indexOf(deciding.step) >= firstObjectStep;
  const waitMs = isByObject && !allows(outcome) ? reasonEndsInMs(outcome) : null;
  const ends = rules.filter(({ id }) => id === deciding?.rule || id === modeRule).map(({ expiresInMs }) => expiresInMs);
  const changes = [waitMs, ...ends].filter((each) => each !== null);
  return changes.length === 0 ? null : Math.min(...changes);
}

/** A ban may end before the limits allow the request again. */
function reasonEndsInMs(outcome: Outcome): number | null {
  const bannedForMs = "decision" in outcome ? outcome.decision.bannedForMs : 0;
  return bannedForMs > 0 ? bannedForMs : waitOf(outcome);
}

const firstObjectStep = stepNames.indexOf("ban");

function limitsOf({ outcome, reply }: ObjectView): ExplainedLimit[] {
  if (!("decision" in outcome)) return [];
  const { limits } = outcome.decision;
  const accounts = reply?.charges[0]?.accounts ?? [];
  return limits.map((limit, index) => {
    const account = accounts[index];
    if (account === undefined) {
      return { ...limit, used: null, lentUnits: 0, account: null, sentence: null };
    }
    const { used, heldUnits, terms } = account;
    const sentence = limitSentence(limit, account);
    return { ...limit, used, lentUnits: heldUnits, account: terms, sentence };
  });
}

function unitsOf(open: OpenUnits | undefined, reply: ExplainReply | null): ExplainedUnits | null {
  if (open === undefined || reply === null) return null;
  const { count, units, nextEndAtMs } = open;
  const nextEndInMs = nextEndAtMs === null ? null : Math.max(0, nextEndAtMs - reply.atMs);
  return { count, units, nextEndInMs };
}

/** A rule that is in effect. */
interface LiveRule {
  readonly id: string;
  readonly kind: string;
  readonly expiresAtMs: number | null;
}

/**
 * The rules in effect, followed by those that only the control plane has yet.
 * @param live null when it is not known which rules are in effect
 */
function explainedRules(
  live: readonly LiveRule[] | null,
  known: readonly Rule[] | null,
  nowMs: number,
): ExplainedRule[] {
  const byId = new Map((known ?? []).map((rule) => [rule.id, rule]));
  const ids = new Set(live?.map(({ id }) => id));
  const inEffect = (live ?? []).map((each) => rowOf(each, byId.get(each.id), "in-effect", nowMs));
  const others = (known ?? [])
    .filter(({ id, expiresAtMs }) => !ids.has(id) && (expiresAtMs ?? nowMs + 1) > nowMs)
    .map((each) => {
      const { kind } = each.rule;
      return rowOf({ ...each, kind }, each, stateOf(each, live !== null), nowMs);
    });
  return [...inEffect, ...others];
}

/** The state of a rule that is not known to be in effect. @param isKnown whether the rules in effect are known */
function stateOf({ state, appliedAtMs }: Rule, isKnown: boolean): ExplainedRule["state"] {
  if (state === "orphan") return state;
  return isKnown || appliedAtMs === null ? "pending" : "in-effect";
}

const rowOf = (
  { id, kind, expiresAtMs }: LiveRule,
  stored: Rule | undefined,
  state: ExplainedRule["state"],
  nowMs: number,
): ExplainedRule => ({
  id,
  kind,
  expiresInMs: expiresAtMs === null ? null : Math.max(0, expiresAtMs - nowMs),
  state,
  actor: stored?.actor ?? null,
  note: stored?.note ?? null,
});

const liveKeyRule = ({ id, kind, expiresAtMs }: KeyRule): LiveRule => ({
  id,
  kind,
  expiresAtMs: expiresAtMs ?? null,
});

/** The live rules in the text of a policy's rules, the newest first. */
function livePolicyRules(rules: PolicyRules | null, nowMs: number): LiveRule[] {
  const all: readonly PolicyRule[] = JSON.parse(rules?.text ?? "[]");
  return all
    .map(({ id, kind, expiresAtMs = null }) => ({ id, kind, expiresAtMs }))
    .filter(({ expiresAtMs }) => expiresAtMs === null || expiresAtMs > nowMs);
}

/** A version without other fields that its object may have. */
const versionOnly = (rules: RulesVersion | null | undefined): RulesVersion | null =>
  rules === null || rules === undefined ? null : { epoch: rules.epoch, version: rules.version };
