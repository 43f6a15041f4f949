/** What a caller of `/check` asks for: read from a query or a JSON body, every wrong field named. */
import * as v from "valibot";
import { greatestCost, mostKeyParts, type Policy, readPolicy } from "../../config/index.ts";
import { longestTtlMs, shortestTtlMs } from "../../strategies/index.ts";
import type { CallerAttributes } from "../../policies/caller-attributes.ts";
import {
  attributes,
  type AttributesInput,
  attributesText,
  describedAttributesText,
} from "./attributes-input.ts";
import { type FieldError, type FieldsInvalid, isFailure } from "../wire/problems.ts";
import { fields, integerFrom, isRecord, problemsFromIssues } from "../../validation/problems.ts";

/** By the limits of a policy, which may be left out when there is only one, or by limits of the call's own. */
export interface CheckInput {
  policy?: string;
  /** One text for each part of the policy's key. */
  key?: string | string[];
  /** An integer from 0 to 1,000,000, 1 when left out; 0 looks. */
  cost?: number;
  limits?: unknown;
  strategy?: string;
  /** What `overrides`, `allow` and `deny` of the policy are checked against, beside the key. */
  attributes?: AttributesInput;
}

export interface ReserveInput extends CheckInput {
  /** How long it may be settled: an integer from 1,000 to 86,400,000. */
  ttlMs: number;
}

export interface BatchInput {
  checks: CheckInput[];
}

export type ForgetInput = Pick<CheckInput, "policy" | "key">;

/** As a query holds them; attributes as JSON text. */
export type ForgetQuery = ForgetInput;
export type LookQuery = ForgetQuery & { cost?: string; attributes?: string; deny?: "403" | "429" };

export interface Check {
  readonly policy?: string | undefined;
  /** One text for each part of the policy's key. */
  readonly key?: readonly string[] | undefined;
  readonly cost: number;
  readonly attributes?: CallerAttributes | undefined;
  /** The status of a denial, for gateways that look at nothing else. */
  readonly deny?: 403 | 429 | undefined;
}

/** A check whose cost is corrected within `ttlMs`. */
export type Reserve = (Check | AdhocCheck) & { readonly ttlMs: number };

export interface Settle {
  /** What the reservation was answered with. */
  readonly id: string;
  /** What it cost after all. */
  readonly cost: number;
}

/** A check of limits that the caller brings. */
export interface AdhocCheck extends Check {
  /** The limits as a policy, with a policy's defaults; whom it charges is not its key's to say, but the caller's. */
  readonly adhoc: Policy;
  readonly key: readonly string[];
}

const longestKeyBytes = 1024;
const mostChecks = 100;

const acceptedKey = `a well-formed text of 1 to ${longestKeyBytes} bytes in UTF-8, or a list of such texts`;
const acceptedCost = `an integer from 0 to ${greatestCost}`;
const acceptedId = "the id of a reservation";
const acceptedDeny = '"403" or "429"';
const acceptedPolicy = "the name of a policy";

// A lone surrogate has no UTF-8: two keys that differ only there would be charged as one.
const keyText = v.pipe(
  v.string(acceptedKey),
  v.check((text) => text.isWellFormed() && text !== "", acceptedKey),
  v.maxBytes(longestKeyBytes, acceptedKey),
);

const requiredKey = v.union(
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

const policy = v.optional(v.string(acceptedPolicy));

const cost = integerFrom(0, greatestCost);
const ttlMs = integerFrom(shortestTtlMs, longestTtlMs);

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

/** What is in them is for `readPolicy`. */
const anything = v.optional(v.unknown());
const nothing = (where: string) => v.optional(v.never(`nothing ${where}`));

const spendFields = {
  policy,
  key,
  cost: v.optional(cost, 1),
  limits: anything,
  strategy: nothing("without limits"),
  attributes: v.optional(attributes),
};
const adhocFields = {
  policy: nothing("beside limits"),
  key: requiredKey,
  cost: v.optional(cost, 1),
  limits: anything,
  strategy: anything,
  attributes: nothing("beside limits"),
};
const spendBody = fields(spendFields);
const adhocBody = fields(adhocFields);
const reserveBody = fields({ ...spendFields, ttlMs });
const adhocReserveBody = fields({ ...adhocFields, ttlMs });
const forgetBody = fields({ policy, key });
const acceptedChecks = `a list of 1 to ${mostChecks} checks`;
const batchBody = fields({
  checks: v.pipe(
    v.array(v.unknown(), acceptedChecks),
    v.minLength(1, acceptedChecks),
    v.maxLength(mostChecks, acceptedChecks),
  ),
});
const settleBody = fields({ id: v.string(acceptedId), cost });
const spendQuery = fields({ deny });
const forwardQuery = fields({ deny, attributes: v.optional(describedAttributesText) });
const lookQuery = fields({
  policy,
  key,
  cost: v.optional(costText, "1"),
  attributes: v.optional(attributesText),
  deny,
});
const forgetQuery = fields({ policy, key });

type Queries = Readonly<Record<string, string[]>>;

/** What `GET /check` looks at. */
export function readLook(queries: Queries): Check | FieldsInvalid {
  const parsed = v.safeParse(lookQuery, valuesOf(queries));
  return parsed.success ? parsed.output : invalidFields(parsed.issues);
}

/** What `DELETE /check` forgets. */
export function readForgetQuery(queries: Queries): Check | FieldsInvalid {
  const parsed = v.safeParse(forgetQuery, valuesOf(queries));
  return parsed.success ? { cost: 0, ...parsed.output } : invalidFields(parsed.issues);
}

/** What a spend has in its query, beside the body. */
export function readOptions(queries: Queries): Pick<Check, "deny"> | FieldsInvalid {
  const parsed = v.safeParse(spendQuery, valuesOf(queries));
  return parsed.success ? parsed.output : invalidFields(parsed.issues);
}

/** What a gateway states beside the request that it describes. */
export function readForward(queries: Queries): Pick<Check, "deny" | "attributes"> | FieldsInvalid {
  const parsed = v.safeParse(forwardQuery, valuesOf(queries));
  return parsed.success ? parsed.output : invalidFields(parsed.issues);
}

/** Of a call that has nothing to say in its query. */
export function readNoOptions(queries: Queries): object | FieldsInvalid {
  const accepted = "nothing in the query";
  const errors = Object.keys(queries).map((field) => ({ field, accepted }));
  return errors.length === 0 ? {} : { kind: "fields-invalid", errors };
}

/** What a check spends, or looks at. */
export function readSpend(body: unknown): Check | AdhocCheck | FieldsInvalid {
  return readEither(body, spendBody, adhocBody);
}

/** What the checks of a batch spend, each by itself. */
export function readBatch(
  body: unknown,
): { readonly checks: readonly (Check | AdhocCheck)[] } | FieldsInvalid {
  const parsed = v.safeParse(batchBody, body);
  const written: unknown = isRecord(body) ? body["checks"] : [];
  const checks = Array.isArray(written) ? written.slice(0, mostChecks).map(readSpend) : [];
  const errors = checks.flatMap((each, index) =>
    isFailure<FieldsInvalid>(each)
      ? each.errors.map(({ field, accepted }) => ({
          field: field === "body" ? `checks[${index}]` : `checks[${index}].${field}`,
          accepted,
        }))
      : [],
  );
  if (!parsed.success || errors.length > 0) {
    return { kind: "fields-invalid", errors: [...errorsOf(parsed.issues ?? []), ...errors] };
  }
  return { checks: checks.flatMap((each) => (isFailure<FieldsInvalid>(each) ? [] : each)) };
}

/** What a reservation spends. */
export function readReserve(body: unknown): Reserve | FieldsInvalid {
  return readEither(body, reserveBody, adhocReserveBody);
}

export function readSettle(body: unknown): Settle | FieldsInvalid {
  const parsed = v.safeParse(settleBody, body);
  return parsed.success ? parsed.output : invalidFields(parsed.issues);
}

/** What is forgotten, of another Worker; of HTTP see `readForgetQuery`. */
export function readForget(body: unknown): Check | FieldsInvalid {
  const parsed = v.safeParse(forgetBody, body);
  return parsed.success ? { cost: 0, ...parsed.output } : invalidFields(parsed.issues);
}

/** By the limits of a policy, or by limits of its own. */
function readEither<Own extends object, Adhoc extends { key: readonly string[] }>(
  body: unknown,
  ownBody: v.GenericSchema<unknown, Own>,
  adhocBodyOf: v.GenericSchema<unknown, Adhoc>,
): Own | (Adhoc & { adhoc: Policy }) | FieldsInvalid {
  if (!isRecord(body) || body["limits"] === undefined) {
    const parsed = v.safeParse(ownBody, body);
    return parsed.success ? parsed.output : invalidFields(parsed.issues);
  }
  const { limits, strategy } = body;
  const parsed = v.safeParse(adhocBodyOf, body);
  const errors = errorsOf(parsed.issues ?? []);
  const told = new Set(errors.map(nameOf));
  // Such keys come in any number.
  const policyFields = { name: "adhoc", limits, strategy, objects: "sharded" };
  const adhoc = readPolicy("", "", policyFields, ({ field, accepted }) => {
    // Of a text that repeats a mistake each part tells of it, all in the same words.
    const error = { field, accepted };
    if (!told.has(nameOf(error))) errors.push(error);
    told.add(nameOf(error));
  });
  if (!parsed.success || adhoc === null) return { kind: "fields-invalid", errors };
  return { ...parsed.output, adhoc };
}

/** A parameter that stands once as its value; one that is repeated as a list, which only `key` accepts. */
function valuesOf(queries: Queries): Record<string, string | string[] | undefined> {
  const entries = Object.entries(queries);
  return Object.fromEntries(
    entries.map(([name, values]) => [name, values.length === 1 ? values[0] : values]),
  );
}

/** Two of one name tell the same. */
const nameOf = ({ field, accepted }: FieldError): string => JSON.stringify([field, accepted]);

const invalidFields = (issues: readonly v.BaseIssue<unknown>[]): FieldsInvalid => ({
  kind: "fields-invalid",
  errors: errorsOf(issues),
});

function errorsOf(issues: readonly v.BaseIssue<unknown>[]): FieldError[] {
  return problemsFromIssues("", "", issues).map(({ field, accepted }) => ({
    field: field === "" ? "body" : field,
    accepted,
  }));
}
