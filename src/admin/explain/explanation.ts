/** `POST /api/keys/explain`: what would happen to a request of cost 1 now, and why. It spends nothing. */
import * as v from "valibot";
import { callerKeyValues, canonicalText } from "../../policy/key-text.ts";
import { type KeyValue, partName } from "../../policy/key.ts";
import { overrideFor } from "../../policy/lists.ts";
import { ancestorsOfKey, type PartitionKeys } from "../../policy/partition-key.ts";
import type { Policy } from "../../policy/policy.ts";
import {
  type CallerAttributes,
  contradictedPart,
  missingKeyResult,
  noAttributes,
  callerLevels,
  callerSubject,
} from "../../policy/resolve-key.ts";
import { prioritized } from "../../policy/shares.ts";
import { modeOf, type PolicyRule, type PolicyRules, type RulesVersion } from "../../policy/runtime-rules.ts";
import { labelOf } from "../../control/isolate/key-sealer.ts";
import type { PolicyState, Rule } from "../../control/protocol.ts";
import { attributesSchema } from "../../http/check/attributes-input.ts";
import { contradiction, invalidKey, wholeAttributes } from "../../http/check/operations.ts";
import { type Runtime, waitUntilFrom } from "../../http/runtime.ts";
import { type Failure, isFailure } from "../../http/wire/problems.ts";
import { RequestScope, type RulesAdopter } from "../../limiter/isolate/newer-rules-retry.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import { allows, denialReason, type Outcome, outcomesOf } from "../../limiter/isolate/outcome.ts";
import type { ExplainedCharge, ExplainReply, OpenUnits } from "../../limiter/explanation.ts";
import { mostKeyRules } from "../../limiter/protocol.ts";
import { limitSentence } from "../../strategies/index.ts";
import { fields } from "../../validation/problems.ts";
import {
  type AdminContext,
  type AuthorizedCall,
  whenRefused,
  accepted,
  answer,
  bodyOf,
  keyIdOf,
  parsed,
  policyNameText,
  policyOf,
} from "../context.ts";
import { keyNameEntries, refuseSecondName } from "../key-routes.ts";
import type { ExplainedLimit, ExplainedRule, ExplainedStep, ExplainedUnits, Explanation, StepName } from "../wire.ts";
import { explanationInWords, type Explained } from "./lines.ts";
import { limitsStepOf, type StepFacts, stepNames, stepsByName } from "./steps.ts";

const schema = fields({
  policy: policyNameText,
  ...keyNameEntries,
  attributes: v.optional(attributesSchema),
});
export type ExplainInput = v.InferOutput<typeof schema>;

export async function explainKey(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const input = parsed(schema, await bodyOf(c));
  const policy = policyOf(context, input.policy);
  refuseSecondName(input);
  if (input.id !== undefined) keyIdOf(input.id, policy);
  const { runtime, clock } = context;
  const explaining = explainedKey(
    { runtime, nowMs: clock.now(), knownRules: rulesFrom(context), waitUntil: waitUntilFrom(c) },
    input,
  );
  return answer<Explanation>(accepted(await explaining));
}

interface ExplainContext {
  readonly runtime: Pick<Runtime, "policies" | "partitions" | "limiter"> & {
    readonly control: RulesAdopter | null;
  };
  readonly nowMs: number;
  /** The control plane's rules; null when it does not answer. The explanation is possible without them. */
  readonly knownRules: (policy: string, key: string) => Promise<KnownRules | null>;
  readonly waitUntil: WaitUntil;
}

export async function explainedKey(context: ExplainContext, input: ExplainInput): Promise<Explanation | Failure> {
  const { runtime, nowMs, knownRules, waitUntil } = context;
  for (let isSecondAttempt = false; ; isSecondAttempt = true) {
    const policy = runtime.policies.find(({ name }) => name === input.policy);
    if (policy === undefined) return { kind: "unknown-policy" };
    // oxlint-disable-next-line no-await-in-loop -- at most two attempts
    const keys = await keysOf(policy, input, runtime);
    if (isFailure<Failure>(keys)) return keys;
    const spends = keys.map((key) => ({ policy: key.policy, partitionKey: key.id, cost: 1 }));
    const knowing = keys.map(({ policy: { name }, id }) => knownRules(name, id));
    // oxlint-disable-next-line no-await-in-loop
    const [answered, ...known] = await Promise.all([runtime.limiter.explain(spends), ...knowing]);
    const stale = answered?.reply.stale ?? [];
    if (stale.length > 0 && !isSecondAttempt) {
      // The object has seen newer rules than this isolate: a request would be decided by them.
      runtime.control?.adopt(stale, waitUntil);
      continue;
    }
    const reply = stale.length > 0 ? null : answered;
    const decided = reply === null ? [] : outcomesOf(spends, reply.reply);
    const isDecided = reply !== null && decided.length === spends.length;
    const scope = new RequestScope(waitUntil);
    // oxlint-disable-next-line no-await-in-loop
    const outcomes = isDecided ? decided : (await runtime.limiter.lookAll(spends, scope)).outcomes;
    const levels = keys.flatMap((key, index) => {
      const outcome = outcomes[index];
      const charge = isDecided ? reply.charges[index] : undefined;
      const ofLevel = charge === undefined || reply === null ? null : { charge, atMs: reply.atMs };
      return outcome === undefined ? [] : explanationOf(key, { outcome, reply: ofLevel }, known[index] ?? null, nowMs);
    });
    const own = levels.at(-1);
    const key = keys.at(-1);
    if (own === undefined || key === undefined) return { kind: "undecided" };
    return explanationInWords(levels, own, missingAttributes(key, own.steps));
  }
}

/** Null when the control plane does not answer: the explanation says so. */
const rulesFrom =
  ({ controlPlane }: AdminContext): ExplainContext["knownRules"] =>
  (policy, key) => {
    const query = { policy, key, limit: mostKeyRules };
    const reading = Promise.all([
      controlPlane.call((stub) => stub.rules(query)),
      controlPlane.call((stub) => stub.policyState(policy)),
    ]);
    return reading.then(([{ items: keyRules }, state]) => ({ keyRules, policy: state })).catch(whenRefused(null));
  };

/** The key by its parts or by its id, as far as the isolate knows it. */
interface ExplainedKey extends Omit<StepFacts, "charge"> {
  readonly id: string;
  /** The key as its requests spell it; null when the caller spells it so, or names it by its id. */
  readonly canonical: string | null;
}

/** The key of each level, the root first: a single one unless the policy is within another one. */
async function keysOf(
  policy: Policy,
  input: ExplainInput,
  { policies, partitions }: Pick<Runtime, "policies" | "partitions">,
): Promise<readonly ExplainedKey[] | Failure> {
  const { id, key } = input;
  const keys: ExplainedKey[] = [];
  for (const level of callerLevels(policy, policies)) {
    if (id === undefined) {
      const isOwn = level === policy;
      const attributes = isOwn ? input.attributes : wholeAttributes(policy, input);
      const above = isOwn ? input : { ...input, key: key?.slice(0, level.key.length), attributes };
      // oxlint-disable-next-line no-await-in-loop -- at most a few levels
      const found = await keyOf(level, above, partitions);
      if (isFailure<Failure>(found)) return isOwn || found.kind !== "fields-invalid" ? found : invalidKey(policy, key);
      keys.push(found);
    } else {
      const levelId = [...ancestorsOfKey(id), id][level.ancestors.length] ?? id;
      keys.push({ id: levelId, canonical: null, policy: level, subject: null, missing: null, isMissing: () => true });
    }
  }
  return keys;
}

/** The policy of the result has the limits of the override that applies to the key, and the weight and class of the attributes. */
async function keyOf(policy: Policy, input: ExplainInput, partitions: PartitionKeys): Promise<ExplainedKey | Failure> {
  const { key, tenant = null, attributes = noAttributes } = input;
  const values = callerKeyValues(policy, key);
  if (values === null) return invalidKey(policy, key ?? []);
  const contradicted = contradictedPart(policy, values, attributes);
  if (contradicted !== null) return contradiction(contradicted);
  const subject = callerSubject(policy, key, values, attributes);
  const result = missingKeyResult(policy, values, () => addressIn(attributes, policy));
  const charged = result?.kind === "charge" ? result : null;
  const partitionKey =
    charged === null
      ? await partitions.keyOf(policy, values, tenant)
      : await partitions.partitionKey(charged.parts, charged.values, tenant, charged.ancestorParts);
  const [label, typedLabel] = [values, key ?? []].map((each) => labelOf({ parts: policy.key, values: each, tenant }));
  const stated = new Set([...policy.key.map(partName), ...attributes.keys()]);
  return {
    id: partitionKey,
    canonical: label === undefined || label === typedLabel ? null : label,
    policy: prioritized({ ...policy, limits: overrideFor(policy, subject)?.limits ?? policy.limits }, subject),
    subject,
    missing: result === null || result.kind === "charge" ? null : result.kind,
    isMissing: (part) => !stated.has(partName(part)),
  };
}

function addressIn(attributes: CallerAttributes, policy: Policy): KeyValue {
  const [address] = attributes.get("ip") ?? [];
  return address === undefined ? null : canonicalText({ kind: "ip" }, policy, address);
}

/**
 * The names of the missing attributes that steps with an unknown result compare. None when only the id of the key is
 * known.
 */
function missingAttributes({ policy, subject, isMissing }: ExplainedKey, steps: readonly ExplainedStep[]): string[] {
  const open = steps.filter(({ matches }) => subject !== null && matches === null);
  const parts = open.flatMap(({ step }) => stepsByName[step].comparedParts?.(policy) ?? []);
  return [...new Set(parts.filter(isMissing).map(partName))];
}

/** The rules that the control plane has. */
export interface KnownRules {
  readonly keyRules: readonly Rule[];
  readonly policy: PolicyState;
}

/** The knowledge of the key's object about one key, or the outcome without its reply. */
interface ObjectView {
  readonly outcome: Outcome;
  /** Null when the object did not reply: the outcome is then that of `onError`, as for a request. */
  readonly reply: (Pick<ExplainReply, "atMs"> & { readonly charge: ExplainedCharge }) | null;
}

/** The explanation of one level, without its texts. */
function explanationOf(key: ExplainedKey, object: ObjectView, known: KnownRules | null, nowMs: number): Explained {
  const { policy, id, canonical } = key;
  const { outcome, reply } = object;
  const charge = reply?.charge ?? null;
  // Key rules expire by the object's clock, and policy rules by the isolate's.
  const keyRules = explainedRules(charge?.keyRules ?? null, known?.keyRules ?? [], reply?.atMs ?? nowMs);
  const policyRules = explainedRules(livePolicyRules(policy.rules, nowMs), known?.policy.rules ?? [], nowMs);
  const results = stepNames.map((step) => ({ step, ...stepsByName[step].result({ ...key, charge }) }));
  // The configured limits always match.
  const deciding = results.find(({ matches }) => matches === true) ?? { step: "configured-limits", rule: null };
  const steps = results.map((each) => ({ ...each, decides: each === deciding }));
  const rules = [...policyRules, ...keyRules];
  return {
    id,
    ...(canonical !== null && { key: canonical }),
    policy: policy.name,
    mode: modeOf(policy),
    isKeyKnown: key.subject !== null,
    hasObjectAnswered: reply !== null,
    onError: policy.onError,
    consistency: policy.consistency.kind,
    ...outcomeUnder(deciding.step, key, object),
    nextChangeInMs: nextChangeOf(deciding, policy, outcome, rules),
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

type Decided = Pick<Explanation, "allowed" | "reason" | "retryAfterMs">;

/** The outcome by the step that decides. A dry run denies nothing. */
function outcomeUnder(step: StepName, { policy, missing }: ExplainedKey, object: ObjectView): Decided {
  const decided = decidedBy(step, missing, object);
  return policy.isDryRun && !decided.allowed ? allowed("dry-run") : decided;
}

const allowed = (reason: Explanation["reason"]): Decided => ({ allowed: true, reason, retryAfterMs: 0 });

function decidedBy(step: StepName, missing: ExplainedKey["missing"], { outcome, reply }: ObjectView): Decided {
  const { effect } = stepsByName[step];
  if (effect === "off") return allowed("off");
  if (effect === "usage") {
    const reason = reply === null ? "object-silent" : null;
    if (allows(outcome)) return allowed(reason ?? "limit");
    return { allowed: false, reason: reason ?? denialReason([outcome]), retryAfterMs: waitOf(outcome) };
  }
  return effect === "deny" || (effect === "missing-key" && missing === "missing-key")
    ? { allowed: false, reason: "deny", retryAfterMs: null }
    : allowed("allow");
}

const waitOf = (outcome: Outcome): number | null => outcome.decision?.retryAfterMs ?? null;

/**
 * When the outcome may next change: when the denial's wait, the deciding rule or the rule of the mode ends, whichever
 * is first.
 */
function nextChangeOf(
  deciding: Pick<ExplainedStep, "step" | "rule">,
  { modeRule }: Policy,
  outcome: Outcome,
  rules: readonly ExplainedRule[],
): number | null {
  const isByObject = stepNames.indexOf(deciding.step) >= stepNames.indexOf("ban");
  const waitMs = isByObject && !allows(outcome) ? reasonEndsInMs(outcome) : null;
  const ends = rules.filter(({ id }) => id === deciding.rule || id === modeRule).map(({ expiresInMs }) => expiresInMs);
  const changes = [waitMs, ...ends].filter((each) => each !== null);
  return changes.length === 0 ? null : Math.min(...changes);
}

/** A ban may end before the limits allow the request again. */
function reasonEndsInMs(outcome: Outcome): number | null {
  const bannedForMs = outcome.decision?.bannedForMs ?? 0;
  return bannedForMs > 0 ? bannedForMs : waitOf(outcome);
}

function limitsOf({ outcome, reply }: ObjectView): ExplainedLimit[] {
  if (outcome.decision === null) return [];
  const accounts = reply?.charge.accounts ?? [];
  return outcome.decision.limits.map((limit, index) => {
    const account = accounts[index];
    if (account === undefined) return { ...limit, used: null, lentUnits: 0, account: null, sentence: null };
    const { used, heldUnits, terms } = account;
    return { ...limit, used, lentUnits: heldUnits, account: terms, sentence: limitSentence(limit, account) };
  });
}

function unitsOf(open: OpenUnits | undefined, reply: ObjectView["reply"]): ExplainedUnits | null {
  if (open === undefined || reply === null) return null;
  const { count, units, nextEndAtMs } = open;
  return { count, units, nextEndInMs: nextEndAtMs === null ? null : Math.max(0, nextEndAtMs - reply.atMs) };
}

/** A rule that is in effect. */
interface LiveRule {
  readonly id: string;
  readonly kind: string;
  readonly expiresAtMs?: number | null;
}

/**
 * The rules in effect, followed by those that only the control plane has yet.
 * @param live null when it is not known which rules are in effect
 */
function explainedRules(live: readonly LiveRule[] | null, known: readonly Rule[], nowMs: number): ExplainedRule[] {
  const rowOf = ({ id, kind, expiresAtMs = null }: LiveRule, state: ExplainedRule["state"]): ExplainedRule => {
    const { actor = null, note = null, written = null } = known.find((rule) => rule.id === id) ?? {};
    const expiresInMs = expiresAtMs === null ? null : Math.max(0, expiresAtMs - nowMs);
    const { factor }: { readonly factor?: unknown } = { ...Object(written) };
    return { id, kind, ...(typeof factor === "number" && { factor }), expiresInMs, state, actor, note };
  };
  const ids = new Set(live?.map(({ id }) => id));
  return [
    ...(live ?? []).map((rule) => rowOf(rule, "in-effect")),
    ...known
      .filter((rule) => !ids.has(rule.id) && isLive(rule, nowMs))
      .map((rule) => rowOf({ ...rule, kind: rule.rule.kind }, stateOf(rule, live !== null))),
  ];
}

const isLive = ({ expiresAtMs }: Pick<LiveRule, "expiresAtMs">, nowMs: number): boolean =>
  (expiresAtMs ?? Number.POSITIVE_INFINITY) > nowMs;

/** The state of a rule that is not known to be in effect. @param isKnown whether the rules in effect are known */
function stateOf({ state, appliedAtMs }: Rule, isKnown: boolean): ExplainedRule["state"] {
  if (state === "orphan") return state;
  return isKnown || appliedAtMs === null ? "pending" : "in-effect";
}

/** The live rules in the text of a policy's rules, the newest first. */
function livePolicyRules(rules: PolicyRules | null, nowMs: number): readonly LiveRule[] {
  const all: readonly PolicyRule[] = JSON.parse(rules?.text ?? "[]");
  return all.filter((rule) => isLive(rule, nowMs));
}

/** Only the epoch and the version: the value may have further fields, such as the text of the rules. */
const versionOnly = (rules: RulesVersion | null | undefined): RulesVersion | null =>
  rules === null || rules === undefined ? null : { epoch: rules.epoch, version: rules.version };
