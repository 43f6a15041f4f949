/**
 * Explains a key: what would happen to a request of cost 1 now, and why. It spends nothing. The isolate knows the lists and
 * the mode; the key's object knows the ban, the key rules and what the limits count. If the object does not answer, the
 * outcome is that of `onError`, as for a request.
 */
import { modeOf } from "../policy/runtime-rules.ts";
import type { Policy } from "../policy/policy.ts";
import type { RulesAdopter } from "../limiter/isolate/attempt.ts";
import { outcomesOf } from "../limiter/isolate/key-group.ts";
import type { WaitUntil } from "../limiter/isolate/object-caller.ts";
import { allows, denialReason, type Outcome } from "../limiter/isolate/outcome.ts";
import type { ExplainReply, KeyRule, OpenUnits } from "../limiter/protocol.ts";
import { limitSentence } from "../strategies/index.ts";
import type { Runtime } from "../http/runtime.ts";
import type { Failure } from "../http/wire/problems.ts";
import { isFailure } from "../http/wire/problems.ts";
import { type ExplainInput, type IsolateView, isolateView, noMatch, stepNames, unknown } from "./explain-key.ts";
import type {
  ExplainedLimit,
  ExplainedStep,
  ExplainedUnits,
  Explanation,
  LimitsStep,
  StepName,
  StepResult,
} from "./wire.ts";
import { explainedRules, type KnownRules, liveKeyRule, livePolicyRules, versionOnly } from "./explain-rules.ts";
import { explanationText } from "./explain-text.ts";

export interface ExplainContext {
  readonly runtime: Pick<Runtime, "policies" | "partitions" | "limiter"> & {
    readonly control: RulesAdopter | null;
  };
  readonly nowMs: number;
  /** The control plane's rules; null when it does not answer. The explanation does not depend on them. */
  readonly knownRules: (policy: string, key: string) => Promise<KnownRules | null>;
  readonly waitUntil: WaitUntil;
}

/** The reply of the key's object, or the outcome without a reply. */
interface ObjectView {
  readonly outcome: Outcome;
  /** Null when the object did not answer. */
  readonly reply: ExplainReply | null;
}

export async function explainedKey(
  context: ExplainContext,
  input: ExplainInput,
  isSecondAttempt = false,
): Promise<Explanation | Failure> {
  const { runtime, knownRules, waitUntil } = context;
  const policy = runtime.policies.find(({ name }) => name === input.policy);
  if (policy === undefined) return { kind: "unknown-policy" };
  const isolate = await isolateView(policy, input, runtime.partitions);
  if (isFailure<Failure>(isolate)) return isolate;
  const spend = { policy: isolate.policy, partitionKey: isolate.id, cost: 1 };
  const [explained, known] = await Promise.all([runtime.limiter.explain(spend), knownRules(policy.name, isolate.id)]);
  const stale = explained?.reply.stale ?? [];
  if (stale.length > 0 && !isSecondAttempt) {
    // The object has seen newer rules than this isolate: a request would be decided by them.
    runtime.control?.adopt(stale, waitUntil);
    return explainedKey(context, input, true);
  }
  const reply = stale.length > 0 ? null : explained;
  const [decided] = reply === null ? [] : outcomesOf([spend], reply.reply);
  const object: ObjectView =
    decided === undefined ? { outcome: await runtime.limiter.look(spend), reply: null } : { outcome: decided, reply };
  const answer = explanationOf(isolate, object, known, context.nowMs);
  return { ...answer, text: explanationText(answer, isolate.missingAttributes) };
}

function explanationOf(
  isolate: IsolateView,
  object: ObjectView,
  known: KnownRules | null,
  nowMs: number,
): Omit<Explanation, "text"> {
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

const isLimitsStep = (step: StepName): step is LimitsStep => /-(?:limits|overrides)$/.test(step);

/** The configured limits always match. */
function limitsStepOf(steps: readonly ExplainedStep[]): LimitsStep {
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
