/** `/api/policies`: the policies in effect with the source of each part, and changes to them. */
import { waitUntilFrom } from "../http/runtime.ts";
import * as v from "valibot";
import { modeOf } from "../policy/runtime-rules.ts";
import { partName } from "../policy/key.ts";
import type { Policy } from "../policy/policy.ts";
import { policyWithRules } from "../policy/read-runtime-rules.ts";
import { isRecord } from "../validation/json.ts";
import { fields } from "../validation/problems.ts";
import type { PolicyPatch, PolicyState, Rule, RuleKind } from "../control/protocol.ts";
import type { StaleRules } from "../limiter/protocol.ts";
import type { FieldError } from "../http/wire/problems.ts";
import {
  type AdminContext,
  type AuthorizedCall,
  CallRefused,
  answer,
  bodyOf,
  fieldsRefused,
  mergePatch,
  parsed,
  policyOf,
  queryIn,
  requireMatch,
} from "./context.ts";
import { endEntries, policyKinds, readEnd, readRule } from "./rule-input.ts";
import { ruleView } from "./rule-view.ts";
import { policySentences } from "./policy-sentences.ts";
import type { EntriesPart, PartSource, PolicyList, PolicyView } from "./wire.ts";

export async function listPolicies(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  queryIn(c, {});
  const views = context.policies.map(async (policy) =>
    policyView(policy, await stateOf(context, policy), context.clock.now()),
  );
  return answer<PolicyList>({ policies: await Promise.all(views) });
}

export async function readOnePolicy(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  queryIn(c, {});
  const policy = policyOf(context, c.req.param("name") ?? "");
  return policyAnswer(context, policy, await stateOf(context, policy));
}

const stateOf = ({ controlPlane }: AdminContext, { name }: Policy): Promise<PolicyState> =>
  controlPlane.call((stub) => stub.policyState(name));

const policyAnswer = ({ clock }: AdminContext, policy: Policy, state: PolicyState): Response =>
  answer<PolicyView>(policyView(policy, state, clock.now()), 200, { ETag: policyTag(state) });

const policyTag = ({ epoch, version }: PolicyState): string => `"${epoch}-${version}"`;

const rulesOf = ({ name }: Policy, { epoch, version, text }: PolicyState): StaleRules => ({
  policy: name,
  epoch,
  version,
  text,
});

/** Adopts the new rules of changed policies in this isolate at once. If that fails, the next beat brings them. */
export async function adoptRules(context: AdminContext, c: AuthorizedCall, policies: readonly Policy[]): Promise<void> {
  if (policies.length === 0) return;
  try {
    const rules = policies.map(async (policy) => rulesOf(policy, await stateOf(context, policy)));
    context.control.adopt(await Promise.all(rules), waitUntilFrom(c));
  } catch (error) {
    // The change is stored: a failure to read it again must not fail the call.
    if (!(error instanceof CallRefused)) throw error;
  }
}

const sourceOf = (rule: string | null): PartSource =>
  rule === null ? { source: "configuration" } : { source: "rule", rule };

function policyView(base: Policy, state: PolicyState, nowMs: number): PolicyView {
  const { policy, refused } = policyWithRules(base, state, nowMs);
  const { lists, ancestors } = base;
  const parent = ancestors.at(-1);
  const live = state.rules.filter(({ expiresAtMs }) => expiresAtMs === null || expiresAtMs > nowMs);
  const { epoch, version } = state;
  return {
    name: base.name,
    ...(parent !== undefined && { within: parent.policy }),
    key: base.key.map(partName),
    mode: { value: modeOf(policy), ...sourceOf(policy.modeRule) },
    limits: { value: policy.limits, ...sourceOf(policy.limitsRule) },
    configured: { mode: modeOf(base), limits: base.limits },
    allow: entryParts(lists.allow.length, live, "allow"),
    deny: entryParts(lists.deny.length, live, "deny"),
    overrides: entryParts(lists.overrides.length, live, "overrides"),
    rules: live.map((rule) => ruleView(rule)),
    description: policySentences(policy),
    refused: refused.map(({ id, reason }) => ({ rule: id, reason })),
    epoch,
    version,
  };
}

/** In the order in which they apply. The configured entries may be secrets: only their number is shown. */
function entryParts(configured: number, live: readonly Rule[], kind: RuleKind): EntriesPart[] {
  const ofRules = live
    .filter(({ rule }) => rule.kind === kind)
    .map(({ id, written }) => ({ count: countOf(written), ...sourceOf(id) }));
  return configured === 0 ? ofRules : [...ofRules, { count: configured, ...sourceOf(null) }];
}

function countOf(written: unknown): number {
  const { entries, overrides }: Record<string, unknown> = isRecord(written) ? written : {};
  const list = entries ?? overrides;
  return Array.isArray(list) ? list.length : 1;
}

/** A member that is null removes the rules of that kind (RFC 7396). */
const patchSchema = fields({
  mode: v.optional(v.unknown()),
  limits: v.optional(v.unknown()),
  strategy: v.optional(v.unknown()),
  allow: v.optional(v.unknown()),
  deny: v.optional(v.unknown()),
  overrides: v.optional(v.unknown()),
  ...endEntries,
});
type Patch = v.InferOutput<typeof patchSchema>;

export async function patchPolicy(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const patch = parsed(patchSchema, await bodyOf(c, [mergePatch, "application/json"]));
  const policy = policyOf(context, c.req.param("name") ?? "");
  const { parts, note } = partsOf(context, policy, patch);
  const state = await stateOf(context, policy);
  requireMatch(c.req.raw, policyTag(state));
  const { epoch, version } = state;
  const { actor } = c.var.operator;
  const { value } = await context.controlPlane.change((stub) =>
    stub.changePolicy({ policy: policy.name, parts, epoch, version, actor, note }),
  );
  context.control.adopt([rulesOf(policy, value)], waitUntilFrom(c));
  return policyAnswer(context, policy, value);
}

/** @throws CallRefused with every error in the patch */
function partsOf(context: AdminContext, policy: Policy, patch: Patch): Pick<PolicyPatch, "parts" | "note"> {
  const errors: FieldError[] = [];
  const named = policyKinds.filter((kind) => patch[kind] !== undefined);
  const set = named.filter((kind) => patch[kind] !== null);
  if (named.length === 0) errors.push({ field: "body", accepted: `at least one of ${policyKinds.join(", ")}` });
  if (patch.strategy !== undefined && (patch.limits ?? null) === null) {
    errors.push({ field: "strategy", accepted: "no value without limits" });
  }
  const end = readEnd(patch, set, context.clock.now(), (error) => errors.push(error));
  if (set.length === 0 && end.expiresAtMs !== null) {
    const field = patch.for === undefined ? "expiresAt" : "for";
    errors.push({ field, accepted: "no value when no part is set" });
  }
  const place = { policy: policy.name, key: null, sealedKey: null, objects: null };
  const parts = named.map((kind) => {
    if (patch[kind] === null) return { kind, rule: null };
    const read = readRule("policy", kind, contentOf(kind, patch), policy, context, ({ field, accepted }) =>
      // A rule has its entries in the field `entries`; a patch has them in the field of their kind, such as `deny`.
      errors.push({ field: field.replace(/^entries/, kind), accepted }),
    );
    return { kind, rule: read === null ? null : { ...read, ...end, ...place } };
  });
  if (errors.length > 0) throw fieldsRefused(errors);
  return { parts, note: end.note };
}

function contentOf(kind: (typeof policyKinds)[number], { limits, strategy, mode, overrides, ...patch }: Patch) {
  if (kind === "limits") return { limits, strategy };
  if (kind === "mode") return { mode };
  return kind === "overrides" ? { overrides } : { entries: patch[kind] };
}
