/**
 * The forms in which the fields of a policy are written, from which the JSON schema is generated. They may accept more
 * than the readers in `src/policy`, but never less. Only fields that a function reads need their own form here.
 */
import * as v from "valibot";
import {
  greatestWeight,
  namePattern,
  strategyNames,
  defaultStrategy,
  writtenDuration,
  writtenLimits,
} from "../../src/strategies/index.ts";
import { anyCase, integerFrom } from "../../src/validation/problems.ts";
import { greatestCost } from "../../src/policy/cost.ts";
import { mostStrikes, onDenyEntries } from "../../src/policy/denials.ts";
import { mostKeyParts, namedParts, plainParts, token, traitsOf } from "../../src/policy/key.ts";
import { fieldValue, matchEntries } from "../../src/policy/match.ts";
import { permitted } from "../../src/policy/path-pattern.ts";
import { defaultShards, mostShards } from "../../src/policy/placement.ts";
import { policyEntries } from "../../src/policy/policy.ts";
import { mostConditions } from "../../src/policy/shares.ts";
import { longestText, mostListEntries } from "../../src/policy/subject-pattern.ts";

export const writtenPolicy = () =>
  v.strictObject({
    ...policyEntries,
    within: v.optional(v.pipe(v.string(), v.regex(namePattern))),
    match: v.optional(match()),
    key: v.optional(writtenKey(), "ip"),
    limits: writtenLimits(),
    strategy: v.optional(v.picklist(strategyNames), defaultStrategy),
    cost: v.optional(cost(), 1),
    count: v.optional(count()),
    ...writtenLists(),
    ban: v.optional(ban()),
    timeout: v.optional(writtenDuration(), "1s"),
    maxDelay: v.optional(writtenDuration()),
    syncEvery: v.optional(writtenDuration(), "1s"),
    onDeny: v.optional(onDeny()),
    shards: v.optional(integerFrom(1, mostShards), defaultShards),
    objects: v.optional(policyEntries.objects.wrapped, "per-key"),
    pathMatching: v.optional(policyEntries.pathMatching.wrapped, "lenient"),
    ...writtenPriorities(),
  });

/** One key part, a list of parts, or parts separated by commas. */
export function writtenKey() {
  const plain = v.picklist(Object.keys(plainParts));
  const kinds = [...plain.options, ...Object.keys(namedParts).map((kind) => `${anyCase(kind)}:[!-+\\x2d-~]+`)];
  const padded = String.raw`\s*(?:${kinds.join("|")})\s*`;
  const part = v.pipe(v.string(), v.regex(new RegExp(`^${padded}$`)));
  const list = v.pipe(v.string(), v.regex(new RegExp(`^${padded}(?:,${padded})*$`)));
  const parts = v.pipe(v.array(v.union([plain, part])), v.minLength(1), v.maxLength(mostKeyParts));
  return v.union([plain, list, parts]);
}

/** A regular expression for the key parts that callers cannot invent, as conditions write them. */
function verifiedParts(): string {
  const kinds = (Object.keys(plainParts) as (keyof typeof plainParts)[]).filter(
    (kind) => traitsOf({ kind }).isVerified === true,
  );
  return [...kinds, `${anyCase("jwt")}:[!-~]+`].join("|");
}

/** The fields `guaranteed`, `weight` and `classes`. */
function writtenPriorities() {
  const list = <Schema extends v.GenericSchema>(item: Schema) => v.pipe(v.array(item), v.maxLength(mostConditions));
  const named = Object.keys(namedParts).map((kind) => `${anyCase(kind)}:[!-~]+`);
  const weight = integerFrom(1, greatestWeight);
  const upTo = v.pipe(v.string(), v.regex(/^[1-9]\d?\s?%$/));
  return {
    guaranteed: v.optional(v.string()),
    weight: v.optional(v.union([weight, list(v.strictObject({ when: condition(verifiedParts()), weight }))])),
    classes: v.optional(list(v.strictObject({ when: condition([verifiedParts(), ...named].join("|")), upTo }))),
  };
}

/** @param parts a regular expression for the parts */
const condition = (parts: string) => v.pipe(v.string(), v.regex(new RegExp(`^\\s*(?:${parts})\\s*=[\\s\\S]*\\S`)));

function match() {
  const name = v.pipe(v.string(), v.regex(token));
  const value = v.union([v.pipe(v.string(), v.regex(fieldValue)), v.literal(true)]);
  return v.strictObject({
    ...matchEntries,
    methods: v.optional(v.union([name, v.pipe(v.array(name), v.minLength(1))])),
    path: v.optional(v.pipe(v.string(), v.regex(new RegExp(`^/(?:${permitted.source}|[^ -~])*$`)))),
    host: v.optional(v.pipe(v.string(), v.regex(/^[^\s/:@]+$/))),
    header: v.optional(v.union([name, v.pipe(v.record(v.string(), value), v.minEntries(1))])),
  });
}

function cost() {
  const units = integerFrom(1, greatestCost);
  const sources = ["header", "query", "response-header"].map(anyCase);
  const from = v.pipe(v.string(), v.regex(new RegExp(`^(?:${sources.join("|")}):[!-~]+$`)));
  return v.union([units, v.strictObject({ from, max: units, reserve: v.optional(units) })]);
}

function count() {
  const status = v.union([integerFrom(100, 599), v.pipe(v.string(), v.regex(/^[1-5](?:\d\d|[xX]{2})$/))]);
  const list = v.optional(v.pipe(v.array(status), v.minLength(1)));
  return v.pipe(v.strictObject({ status: list, exceptStatus: list }), v.entries(1));
}

/** An entry of `allow` and `deny`, and the field `key` of an override. */
function subject() {
  const text = v.pipe(v.string(), v.minLength(1), v.maxLength(longestText));
  return v.union([text, v.pipe(v.array(text), v.minLength(1), v.maxLength(mostKeyParts))]);
}

/** The fields `overrides`, `allow` and `deny`. */
export function writtenLists() {
  const when = condition(verifiedParts());
  const override = v.strictObject({
    key: v.optional(subject()),
    when: v.optional(when),
    limits: writtenLimits(),
    strategy: v.optional(v.picklist(strategyNames)),
  });
  const subjects = v.optional(v.pipe(v.array(subject()), v.maxLength(mostListEntries)));
  return {
    overrides: v.optional(v.pipe(v.array(override), v.maxLength(mostListEntries))),
    allow: subjects,
    deny: subjects,
  };
}

const ban = () =>
  v.union([
    writtenDuration(),
    v.strictObject({ after: integerFrom(1, mostStrikes), within: writtenDuration(), for: writtenDuration() }),
  ]);

const onDeny = () =>
  v.strictObject({
    ...onDenyEntries,
    contentType: v.optional(v.pipe(v.string(), v.regex(/^[!-.0-~]+\/[!-.0-~]+(?:\s*;.*)?$/))),
  });
