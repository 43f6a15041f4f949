/** The form in which each variable is written, from which the JSON schema is generated. */
import * as v from "valibot";
import { defaultStrategy, strategyNames, writtenDuration, writtenLimits } from "../../src/strategies/index.ts";
import { anyCase } from "../../src/validation/problems.ts";
import { policyEntries } from "../../src/policy/policy.ts";
import type { VariableName } from "../../src/policy/vars/known-variables.ts";
import { adminRights, longestLabel, rights } from "../../src/policy/vars/secrets.ts";
import { writtenKey, writtenLists, writtenPolicy } from "./written-policy.ts";

/** A text that begins like a JSON list or object. */
const writtenJson = () => v.pipe(v.string(), v.regex(/^\s*(?:\[|\{)/));

/** An entry of `POLICIES` that continues the lists of a policy. */
export const writtenContinuation = () => v.strictObject({ continues: v.string(), ...writtenLists() });

/** A list of policies, or JSON text. The generator adds the continuations to the items. */
const writtenPolicies = () => v.union([v.pipe(v.array(writtenPolicy()), v.minLength(1)), writtenJson()]);

/** A text or a list of texts. The text may also be JSON. */
const texts = () => v.union([v.string(), v.pipe(v.array(v.string()), v.minLength(1))]);

const path = () => v.pipe(v.string(), v.regex(/^(?:\/[A-Za-z0-9_.-]+)+$/));

const flag = () => v.optional(v.union([v.boolean(), v.picklist(["true", "false"])]), false);

const url = (...schemes: string[]) =>
  v.pipe(v.string(), v.regex(new RegExp(`^\\s*(?:${schemes.map(anyCase).join("|")}):`)));

function writtenPreflights() {
  const { ipv6Prefix, trustedProxies } = policyEntries;
  const fields = v.strictObject({ limits: writtenLimits(), ipv6Prefix, trustedProxies });
  return v.union([v.literal("off"), ...writtenLimits().options, fields, writtenJson()]);
}

function writtenOrigins() {
  const origin = v.pipe(v.string(), v.regex(/^[a-z]+:\/\/[^/?#*]+$/));
  return v.union([v.literal("*"), origin, v.pipe(v.array(origin), v.minLength(1), v.maxLength(64)), writtenJson()]);
}

function writtenTokens(known: readonly string[], label: "tenant" | "name") {
  const text = v.pipe(v.string(), v.regex(/^[!-~]+$/));
  const holder = v.strictObject({
    token: text,
    [label]: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(longestLabel))),
    may: v.optional(v.pipe(v.array(v.picklist(known)), v.minLength(1))),
  });
  return v.union([text, v.pipe(v.array(v.union([text, holder])), v.minLength(1)), writtenJson()]);
}

/** The form of each variable, by name. Every variable may also be an empty text, which counts as not set. */
export const writtenVariables = (): Readonly<Record<VariableName, v.GenericSchema>> => ({
  ORIGIN: v.union([v.literal("route"), url("http", "https")]),
  ORIGIN_TIMEOUT: v.optional(writtenDuration(), "100s"),
  ORIGIN_SECRET: v.pipe(v.string(), v.regex(/^[!-~]+$/)),
  LIMITS: v.union([...writtenLimits().options, writtenJson()]),
  STRATEGY: v.optional(v.picklist(strategyNames), defaultStrategy),
  KEY: v.optional(v.union([...writtenKey().options, writtenJson()]), "ip"),
  POLICIES: writtenPolicies(),
  PREFLIGHT_LIMITS: v.optional(writtenPreflights(), "600/minute"),
  CORS_ORIGINS: writtenOrigins(),
  LEGACY_HEADERS: flag(),
  LOG_DENIALS: flag(),
  CHECK_PATH: v.optional(path(), "/check"),
  CHECK_AUTH: v.picklist(["none"]),
  CHECK_TOKENS: writtenTokens(rights, "tenant"),
  ADMIN_PATH: v.optional(path(), "/_headgate"),
  ADMIN_HOST: v.pipe(v.string(), v.regex(/^[A-Za-z0-9.-]+$/)),
  ADMIN_TOKENS: writtenTokens(adminRights, "name"),
  ACCESS_TEAM: v.pipe(v.string(), v.regex(/^[A-Za-z0-9-]+(?:\.[A-Za-z.]+)?$/)),
  ACCESS_AUDIENCE: texts(),
  REVEAL: v.optional(v.picklist(["off", "admins"]), "off"),
  SAMPLE: v.optional(
    v.pipe(v.string(), v.regex(/^(?:off|1\/(?:[1-9]\d{0,2}|[1-3]\d{3}|40[0-8]\d|409[0-6]))$/)),
    "1/64",
  ),
  DENIALS: v.optional(
    v.union([
      v.pipe(v.number(), v.integer(), v.minValue(1_000), v.maxValue(100_000)),
      v.pipe(v.string(), v.regex(/^(?:off|[1-9]\d{3,4}|100000)$/)),
    ]),
    10_000,
  ),
  ALERT_WEBHOOK: url("http", "https"),
  ALERT_SECRET: v.string(),
  ALERT_DENIED_SHARE: v.optional(v.pipe(v.string(), v.regex(/^\s*\d{1,3}(?:\.\d+)?\s*%\s*$/)), "20%"),
  ALERT_KEYS: texts(),
  KEY_SECRET: v.string(),
  JWT_KEY: v.union([v.string(), v.record(v.string(), v.unknown())]),
  JWT_JWKS_URL: url("http", "https"),
  JWT_ISSUER: texts(),
  JWT_AUDIENCE: texts(),
  EXTRA_VARS: v.union([v.string(), v.array(v.string())]),
});
