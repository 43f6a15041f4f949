/** Parses the queries and JSON bodies of `/check`. Every invalid field is named. */
import * as v from "valibot";
import { greatestCost } from "../../policy/cost.ts";
import { mostKeyParts } from "../../policy/key.ts";
import { type Policy, readPolicy } from "../../policy/policy.ts";
import type { CallerAttributes } from "../../policy/resolve-key.ts";
import type { WithLimits } from "../../policy/request.ts";
import { longestTtlMs, shortestTtlMs } from "../../strategies/index.ts";
import {
  type AttributesInput,
  attributesSchema,
  attributesTextSchema,
  gatewayAttributesTextSchema,
} from "./attributes-input.ts";
import { type FieldError, type FieldsInvalid, isFailure } from "../wire/problems.ts";
import { isRecord } from "../../validation/json.ts";
import { fields, integerFrom, problemsFromIssues } from "../../validation/problems.ts";

/** A check against a policy's limits, or against the ad hoc limits in `limits`. */
export interface CheckInput {
  /** May be left out when there is only one policy. */
  policy?: string;
  /** One text for each part of the policy's key. */
  key?: string | string[];
  /** An integer from 0 to 1,000,000, 1 by default; 0 looks without spending. */
  cost?: number;
  limits?: unknown;
  strategy?: string;
  /** The name of the ad hoc limits. Each name has counters of its own. */
  name?: string;
  /** The policy's `overrides`, `allow` and `deny` are matched against these and against the key. */
  attributes?: AttributesInput;
}

export interface ReserveInput extends CheckInput {
  /** How long the reservation can be settled: an integer from 1,000 to 86,400,000. */
  ttlMs: number;
}

export interface SettleInput {
  readonly id: string;
  readonly cost: number;
}

export type ForgetInput = Pick<CheckInput, "policy" | "key" | "name">;

/** The query parameter `deny`. */
export interface DenyOption {
  /** The status of a denial, for gateways that look only at the status. */
  readonly deny?: 403 | 429 | undefined;
}

export interface ForwardOptions extends DenyOption {
  readonly attributes?: CallerAttributes | undefined;
}

export interface KeyReference {
  readonly policy?: string | undefined;
  /** One text for each part of the policy's key. */
  readonly key?: readonly string[] | undefined;
}

export interface PolicyCheck extends KeyReference, ForwardOptions {
  readonly cost: number;
  /** The limits that the Worker's code states. `/check` has none. */
  readonly withLimits?: WithLimits;
}

export interface AdhocCheck extends PolicyCheck {
  /** The limits as a policy with default options. `key` below is charged instead of this policy's key. */
  readonly adhoc: Policy;
  /** The name of the counters; null for those of checks without a name. */
  readonly name: string | null;
  readonly key: readonly string[];
}

/** The counters of one key under a policy, or under ad hoc limits of one name. */
export type ForgetRequest = KeyReference | Omit<AdhocCheck, "cost">;

export type Check = PolicyCheck | AdhocCheck;

export type ReservationRequest = Check & { readonly ttlMs: number };

const longestKeyBytes = 1024;
const mostChecks = 100;

const acceptedKey = `a well-formed text of 1 to ${longestKeyBytes} UTF-8 bytes, or a list of such texts`;
const acceptedCost = `an integer from 0 to ${greatestCost}`;
const acceptedDeny = '"403" or "429"';

// UTF-8 cannot encode lone surrogates: two keys that differ only there would be one key.
export const keyText = v.pipe(
  v.string(acceptedKey),
  v.check((text) => text.isWellFormed() && text !== "", acceptedKey),
  v.maxBytes(longestKeyBytes, acceptedKey),
);

export const requiredKey = v.union(
  [
    v.pipe(
      keyText,
      v.transform((text) => [text]),
    ),
    v.pipe(
      v.array(keyText, acceptedKey),
      v.minLength(1, acceptedKey),
      v.maxLength(mostKeyParts, `at most ${mostKeyParts} texts`),
    ),
  ],
  acceptedKey,
);

const key = v.optional(requiredKey);

const policy = v.optional(v.string("the name of a policy"));

export const cost = integerFrom(0, greatestCost);
export const ttlMs = integerFrom(shortestTtlMs, longestTtlMs);

const costText = v.pipe(
  v.string(acceptedCost),
  v.regex(/^\d{1,7}$/, acceptedCost),
  v.transform(Number),
  v.maxValue(greatestCost, acceptedCost),
);

const deny = v.optional(
  v.pipe(
    v.picklist(["403", "429"], acceptedDeny),
    v.transform((status) => (status === "403" ? 403 : 429)),
  ),
);

/** `readPolicy` validates these fields. */
const anything = v.optional(v.unknown());
const noValue = (accepted: string) => v.optional(v.never(accepted));

const policyCheckFields = {
  policy,
  key,
  cost: v.optional(cost, 1),
  limits: anything,
  strategy: noValue("no value without limits"),
  name: noValue("no value without limits"),
  attributes: v.optional(attributesSchema),
};
const adhocFields = {
  policy: noValue("no value together with limits"),
  key: requiredKey,
  cost: v.optional(cost, 1),
  limits: anything,
  strategy: anything,
  name: anything,
  attributes: noValue("no value together with limits"),
};
const acceptedChecks = `a list of 1 to ${mostChecks} checks`;
const batchBody = fields({
  checks: v.pipe(
    v.array(v.unknown(), acceptedChecks),
    v.minLength(1, acceptedChecks),
    v.maxLength(mostChecks, acceptedChecks),
  ),
});

/** Reads an input, or reports all of its invalid fields. */
export type Reader<Output extends object> = (input: unknown) => Output | FieldsInvalid;

const readerOf =
  <Output extends object>(schema: v.GenericSchema<unknown, Output>): Reader<Output> =>
  (input) => {
    const parsed = v.safeParse(schema, input);
    return parsed.success ? parsed.output : { kind: "fields-invalid", errors: errorsOf(parsed.issues) };
  };

export const readLookQuery: Reader<PolicyCheck> = readerOf(
  fields({
    policy,
    key,
    cost: v.optional(costText, "1"),
    attributes: v.optional(attributesTextSchema),
    deny,
  }),
);

const readForgetOfPolicy: Reader<KeyReference> = readerOf(fields({ policy, key }));
const readForgetOfName = readerOf(
  fields({ policy: noValue("no value together with name"), key: requiredKey, name: anything }),
);

/** Reads which counters to reset: with `name`, those of ad hoc limits. */
export const readForget: Reader<ForgetRequest> = (input) => {
  if (!isRecord(input) || input["name"] === undefined) return readForgetOfPolicy(input);
  const forgotten = readForgetOfName(input);
  // A reset does not depend on the limits.
  return readAdhoc({ name: input["name"], limits: "1/s" }, forgotten);
};

export const readDenyQuery: Reader<DenyOption> = readerOf(fields({ deny }));

export const readForwardQuery: Reader<ForwardOptions> = readerOf(
  fields({ deny, attributes: v.optional(gatewayAttributesTextSchema) }),
);

export const readEmptyQuery: Reader<object> = (query) => {
  const accepted = "no query parameters";
  const errors = Object.keys(Object(query)).map((field) => ({ field, accepted }));
  return errors.length === 0 ? {} : { kind: "fields-invalid", errors };
};

export const readSettle: Reader<SettleInput> = readerOf(fields({ id: v.string("the id of a reservation"), cost }));

/** Reads every form of a check with the schemas. Exported to test the faster reader against it. */
export const readAnyCheck: Reader<Check> = policyOrAdhoc(
  readerOf(fields(policyCheckFields)),
  readerOf(fields(adhocFields)),
);

export const readCheck: Reader<Check> = (body) => commonCheck(body) ?? readAnyCheck(body);

export const readReserve: Reader<ReservationRequest> = policyOrAdhoc(
  readerOf(fields({ ...policyCheckFields, ttlMs })),
  readerOf(fields({ ...adhocFields, ttlMs })),
);

/** Errors of one check are named after its place: `checks[3].cost`. */
export function readBatch(body: unknown): { readonly checks: readonly Check[] } | FieldsInvalid {
  const batch = v.safeParse(batchBody, body);
  const written: unknown = isRecord(body) ? body["checks"] : [];
  const checks = Array.isArray(written) ? written.slice(0, mostChecks).map(readCheck) : [];
  const errors = checks.flatMap((check, index) =>
    isFailure<FieldsInvalid>(check)
      ? check.errors.map(({ field, accepted }) => ({
          field: field === "body" ? `checks[${index}]` : `checks[${index}].${field}`,
          accepted,
        }))
      : [],
  );
  if (!batch.success || errors.length > 0) {
    return { kind: "fields-invalid", errors: [...errorsOf(batch.issues ?? []), ...errors] };
  }
  return { checks: checks.flatMap((check) => (isFailure<FieldsInvalid>(check) ? [] : check)) };
}

/** Reads a check against a policy's limits, or an ad hoc check when the body has `limits`. */
function policyOrAdhoc<Own extends object, Adhoc extends { key: readonly string[] }>(
  readOwn: Reader<Own>,
  readAdhocFields: Reader<Adhoc>,
): Reader<Own | (Adhoc & Pick<AdhocCheck, "adhoc" | "name">)> {
  return (body) => {
    if (!isRecord(body) || body["limits"] === undefined) return readOwn(body);
    const { limits, strategy, name } = body;
    return readAdhoc({ limits, strategy, name }, readAdhocFields(body));
  };
}

/** The name of ad hoc limits that do not state one. */
const unnamed = "adhoc";

/** Adds ad hoc limits to the other fields of a check. If either is invalid, returns the errors of both. */
function readAdhoc<Fields extends object>(
  { name = unnamed, ...limits }: Readonly<Record<string, unknown>>,
  read: Fields | FieldsInvalid,
): (Fields & Pick<AdhocCheck, "adhoc" | "name">) | FieldsInvalid {
  const errors = isFailure<FieldsInvalid>(read) ? [...read.errors] : [];
  const known = new Set(errors.map(identityOf));
  // Callers can invent any number of these keys: sharding bounds the number of objects.
  const policyFields = { ...limits, name, objects: "sharded" };
  const adhoc = readPolicy("", "", policyFields, ({ field, accepted }) => {
    // Several limits in one text can cause equal errors for the same field. Equal errors are reported once.
    const error = { field, accepted };
    if (!known.has(identityOf(error))) errors.push(error);
    known.add(identityOf(error));
  });
  if (isFailure<FieldsInvalid>(read) || adhoc === null) return { kind: "fields-invalid", errors };
  // Callers choose the names, so statistics and logs have one policy for all of them.
  const named = adhoc.name === unnamed ? null : adhoc.name;
  return { ...read, adhoc: { ...adhoc, name: unnamed }, name: named };
}

const identityOf = ({ field, accepted }: FieldError): string => JSON.stringify([field, accepted]);

export function errorsOf(issues: readonly v.BaseIssue<unknown>[]): FieldError[] {
  return problemsFromIssues("", "", issues).map(({ field, accepted }) => ({
    field: field === "" ? "body" : field,
    accepted,
  }));
}

/** In UTF-16 units. Each takes at most 3 bytes in UTF-8, so such a key has at most 1,024 bytes. */
const longestKeyText = 341;

/**
 * Reads the common forms of a check without the schemas, because the schemas are slower.
 * @returns null for a check of another form
 */
export function commonCheck(body: unknown): PolicyCheck | null {
  if (!isRecord(body)) return null;
  const check: { policy?: string; key?: readonly string[]; cost: number } = { cost: 1 };
  for (const name of Object.keys(body)) {
    const value = body[name];
    if (name === "policy" && typeof value === "string") check.policy = value;
    else if (name === "key" && isKeyText(value)) check.key = [value];
    else if (name === "key" && isKeyList(value)) check.key = value;
    else if (name === "cost" && isCost(value)) check.cost = value;
    else return null;
  }
  return check;
}

const isKeyText = (value: unknown): value is string =>
  typeof value === "string" && value.length > 0 && value.length <= longestKeyText && value.isWellFormed();

const isKeyList = (value: unknown): value is readonly string[] =>
  Array.isArray(value) &&
  value.length > 0 &&
  value.length <= mostKeyParts &&
  // `every` would skip the holes of a sparse list.
  !value.includes(undefined) &&
  value.every(isKeyText);

const isCost = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) <= greatestCost;
