/** Reads the input of a limiter's calls. Errors name every invalid field, its value and what is accepted. */
import * as v from "valibot";
import type { Policy } from "../../policy/policy.ts";
import { policyWithLimits, StatedLimitsInvalid } from "../../policy/stated-limits.ts";
import type { WithLimits } from "../../policy/request.ts";
import { attributesSchema } from "../../http/check/attributes-input.ts";
import {
  commonCheck,
  cost,
  errorsOf,
  type KeyReference,
  type PolicyCheck,
  requiredKey,
  ttlMs,
} from "../../http/check/input.ts";
import type { FieldError } from "../../http/wire/problems.ts";
import { acceptedNotation } from "../../strategies/index.ts";
import { isRecord } from "../../validation/json.ts";
import { describeProblem, fields } from "../../validation/problems.ts";
import { customKeyText, type StatedPolicy } from "./read-options.ts";

export type LimiterMethod = "check" | "look" | "forget" | "reserve" | "settle";

/** Fields that are checked later, when the policy is known. */
const anything = v.optional(v.unknown());
const keyFields = { policy: anything, key: v.optional(requiredKey) };
const checkFields = {
  ...keyFields,
  cost: v.optional(cost),
  limits: anything,
  attributes: v.optional(attributesSchema),
};

const acceptedId = "the id of a reservation, or null";

const schemas = {
  check: fields(checkFields),
  look: fields(checkFields),
  reserve: fields({ ...checkFields, ttlMs }),
  forget: fields(keyFields),
  settle: fields({ id: v.nullable(v.string(acceptedId)), cost }),
};

/**
 * Reads a check, and finds the policy of the limiter that it names. Limits in the input replace those of the policy.
 */
export function readLimited(
  method: "check" | "look" | "reserve",
  input: unknown,
  stated: readonly StatedPolicy[],
  policies: readonly Policy[],
): PolicyCheck & { readonly policy: string } {
  const read = (method === "reserve" ? null : commonCheck(input)) ?? parsed(method, input);
  const own = ownPolicy(method, input, stated);
  refuseFunctionAbove(method, own, stated, policies);
  const given = isRecord(input) ? input : {};
  const written = own.written["cost"];
  const fixed = typeof written === "number" ? written : 1;
  const { attributes } = read;
  return {
    policy: own.name,
    key: keyOf(method, read.key, own, policies, given),
    cost: given["cost"] === undefined ? fixed : (read.cost ?? fixed),
    ...(attributes !== undefined && { attributes }),
    ...withStatedLimits(method, given["limits"], own, policies),
  };
}

export function readKeyOf(input: unknown, stated: readonly StatedPolicy[], policies: readonly Policy[]): KeyReference {
  const { key } = parsed("forget", input);
  const own = ownPolicy("forget", input, stated);
  return { policy: own.name, key: keyOf("forget", key, own, policies, input) };
}

export const readSettlement = (input: unknown): { readonly id: string | null; readonly cost: number } =>
  parsed("settle", input);

function parsed<Method extends LimiterMethod>(method: Method, input: unknown): v.InferOutput<(typeof schemas)[Method]> {
  const result = v.safeParse(schemas[method], input);
  if (result.success) return result.output;
  throw inputError(method, input, errorsOf(result.issues));
}

function ownPolicy(method: LimiterMethod, input: unknown, stated: readonly StatedPolicy[]): StatedPolicy {
  const name = isRecord(input) ? input["policy"] : undefined;
  const [only] = stated;
  const own = stated.find((policy) => policy.name === name);
  if (own !== undefined) return own;
  if (name === undefined && stated.length === 1 && only !== undefined) return only;
  const accepted = stated.map((policy) => `"${policy.name}"`).join(" or ");
  throw inputError(method, input, [{ field: "policy", accepted }]);
}

/**
 * Reads the key in the form that keys of requests have. If the option `key` is a function, the input's `key` stands for
 * its result. The key of a policy within another one is a list with one text for each part of the whole key.
 */
function keyOf(
  method: LimiterMethod,
  key: readonly string[] | undefined,
  { name, functions }: StatedPolicy,
  policies: readonly Policy[],
  input: unknown,
): readonly string[] | undefined {
  const policy = policies.find((each) => each.name === name);
  if (policy !== undefined && policy.ancestors.length > 0) {
    const isGiven = (index: number): boolean => policy.key[index]?.kind === "custom";
    return key?.map((text, index) => (isGiven(index) ? (customKeyText(text, name) ?? text) : text));
  }
  if (functions.key === null) return key;
  const text = customKeyText(key, name);
  if (text !== null) return [text];
  const accepted = "a text, or a list of texts";
  throw inputError(method, input, [{ field: "key", accepted }]);
}

/** A call states the limits of its own policy only. */
function refuseFunctionAbove(
  method: LimiterMethod,
  { name }: StatedPolicy,
  stated: readonly StatedPolicy[],
  policies: readonly Policy[],
): void {
  const ancestors = policies.find((each) => each.name === name)?.ancestors ?? [];
  const above = stated.find(
    (each) => each.functions.limits !== null && ancestors.some(({ policy }) => policy === each.name),
  );
  if (above === undefined) return;
  const accepted = `a policy that is not within "${above.name}", because limits of "${above.name}" is a function of a request`;
  throw inputError(method, {}, [{ field: "policy", value: name, accepted }]);
}

/** Reads the limits before the key, so that invalid limits are reported for every key. */
function withStatedLimits(
  method: LimiterMethod,
  limits: unknown,
  { name, functions }: StatedPolicy,
  policies: readonly Policy[],
): { readonly withLimits?: WithLimits } {
  if (limits === undefined) {
    if (functions.limits === null) return {};
    const accepted = `${acceptedNotation}, because limits of the policy "${name}" is a function of a request`;
    throw inputError(method, {}, [{ field: "limits", accepted }]);
  }
  const withLimits: WithLimits = (policy) => policyWithLimits(policy, limits, policies);
  const policy = policies.find((each) => each.name === name);
  try {
    if (policy !== undefined) withLimits(policy);
  } catch (error) {
    if (!(error instanceof StatedLimitsInvalid)) throw error;
    throw inputError(method, { limits }, error.problems);
  }
  return { withLimits };
}

/**
 * The longest key that an error quotes, so that an invalid address can be found. Longer keys and lists may be secrets
 * or personal data.
 */
const longestQuotedKey = 64;

/** @param errors the invalid fields. Values that they do not state are taken from the input */
export function inputError(
  method: LimiterMethod,
  input: unknown,
  errors: readonly (FieldError & { readonly value?: unknown })[],
): TypeError {
  const lines = errors.map((error) => {
    const { field, accepted } = error;
    if (field === "body") return describeProblem({ variable: method, field: "", value: input, accepted });
    const [, name = "", within = ""] = /^(\w+)\.?(.*)$/s.exec(field) ?? [];
    const value = "value" in error ? error.value : valueAt(input, name, within);
    return describeProblem({ variable: `${method}({ ${name} })`, field: within, value, accepted });
  });
  return new TypeError(lines.join("\n"));
}

function valueAt(input: unknown, name: string, within: string): unknown {
  const value = isRecord(input) ? input[name] : undefined;
  if (name === "key") return describedKey(value);
  return within !== "" && isRecord(value) ? value[within] : value;
}

function describedKey(key: unknown): unknown {
  if (Array.isArray(key)) return `(a list of ${key.length})`;
  if (typeof key !== "string" || key.length <= longestQuotedKey) return key;
  return `(a text of ${new TextEncoder().encode(key).length} bytes)`;
}
