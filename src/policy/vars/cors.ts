/** The variables `CORS_ORIGINS` and `PREFLIGHT_LIMITS` (Fetch standard, section 3.3). */
import { type Policy, readPolicy } from "../policy.ts";
import type { KnownVariables } from "./known-variables.ts";
import { isRecord } from "../../validation/json.ts";
import { acceptedFields } from "../../validation/problems.ts";
import { acceptedJson, isBrokenJson, isSet, typedList, typedValue, type VariableReader } from "./variables.ts";

/** The web origins whose scripts may read the limiter's own answers. */
export type AllowedOrigins =
  | { readonly kind: "none" }
  | { readonly kind: "any" }
  | { readonly kind: "list"; readonly origins: ReadonlySet<string> };

const mostOrigins = 64;

export const readCorsOrigins = (reader: VariableReader): AllowedOrigins =>
  reader.setting<AllowedOrigins, AllowedOrigins>(
    "CORS_ORIGINS",
    { kind: "none" },
    {
      read: (value) => {
        const texts = typedList(value);
        if (value === "*") return { kind: "any" };
        const isList = texts.length > 0 && texts.length <= mostOrigins && texts.every(isOrigin);
        return isList ? { kind: "list", origins: new Set(texts) } : undefined;
      },
      accepted: `"*", or up to ${mostOrigins} origins such as "https://app.example.com"`,
    },
  );

/** Rejects `*` within an origin, because it would match only itself. */
const isOrigin = (value: unknown): value is string =>
  typeof value === "string" && !value.includes("*") && URL.canParse(value) && new URL(value).origin === value;

const variable = "PREFLIGHT_LIMITS";
const defaultPreflights = "600/minute";
const preflightFields = ["limits", "ipv6Prefix", "trustedProxies"];

/**
 * The policy for preflights. Its key is the address, because preflights carry no credentials. `trustedProxies` defaults to
 * the value that the policies share. Null when preflights have no limits, or invalid ones.
 */
export function readPreflights(reader: VariableReader, policies: readonly Policy[]): Policy | null {
  const { PREFLIGHT_LIMITS: value } = reader.env;
  if (value === "off") return null;
  if (isBrokenJson(value)) {
    reader.problem(variable, value, acceptedJson(value));
    return null;
  }
  const written = isSet(value) ? typedValue(value) : defaultPreflights;
  const isPolicy = isRecord(written) && "limits" in written;
  const fields = isPolicy ? written : { limits: written };
  const others = Object.entries(fields).filter(([name]) => !preflightFields.includes(name));
  for (const [field, other] of others) {
    reader.report({ variable, field, value: other, accepted: acceptedFields(field, preflightFields) });
  }
  if (others.length > 0) return null;
  const [trustedProxies, ...different] = trustedProxiesOf(policies);
  const isShared = typeof trustedProxies === "number" && different.length === 0;
  const policy = { ...(isShared && { trustedProxies }), ...fields, name: "headgate.preflights", objects: "sharded" };
  return readPolicy(variable, "", policy, (problem) => {
    const field = isPolicy ? problem.field : problem.field.replace(/^limits\.?/, "");
    const accepted = field === "" ? `${problem.accepted}; or "off"` : problem.accepted;
    reader.report({ ...problem, field, accepted });
  });
}

/** The distinct `trustedProxies` of policies with `ip` in the key; without such a policy, of all that set the field. */
function trustedProxiesOf(policies: readonly Policy[]): (number | null)[] {
  const byAddress = policies.filter(({ key }) => key.some(({ kind }) => kind === "ip"));
  const others = policies.filter(({ addresses }) => addresses.trustedProxies !== null);
  const finding = byAddress.length > 0 ? byAddress : others;
  return [...new Set(finding.map(({ addresses }) => addresses.trustedProxies))];
}

/** Warns when the policies disagree about `trustedProxies` and the variable does not set it for preflights. */
export function preflightWarnings({ PREFLIGHT_LIMITS: value }: KnownVariables, policies: readonly Policy[]): string[] {
  const different = trustedProxiesOf(policies);
  const written = typedValue(value);
  const isTrustedProxiesSet = isRecord(written) && written["trustedProxies"] !== undefined;
  if (value === "off" || isTrustedProxiesSet || different.length < 2) return [];
  const numbers = different.map((each) => each ?? "none").join(", ");
  return [
    `${variable}: the policies differ in trustedProxies (${numbers}), so preflights are charged to the ` +
      `address that connects to Cloudflare, which all clients behind a proxy share; set it explicitly: ` +
      `${variable} = { limits = "${defaultPreflights}", trustedProxies = 1 }`,
  ];
}
