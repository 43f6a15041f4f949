/** What holds for scripts in browsers, as written (Fetch, section 3.3). */
import { acceptedFields, isRecord } from "../strategies/index.ts";
import { type Policy, readPolicy } from "./policy.ts";
import { isSet, jsonErrorNote, listed, type Report, typed } from "./variables.ts";

/** The web origins whose scripts may read what the limiter answers itself. */
export type AllowedOrigins =
  | { readonly kind: "none" }
  | { readonly kind: "any" }
  | { readonly kind: "list"; readonly origins: ReadonlySet<string> };

const mostOrigins = 64;

export function readCorsOrigins(value: unknown, report: Report): AllowedOrigins {
  if (!isSet(value)) return { kind: "none" };
  if (value === "*") return { kind: "any" };
  const texts = listed(value);
  if (texts.length > 0 && texts.length <= mostOrigins && texts.every(isOrigin)) {
    return { kind: "list", origins: new Set(texts) };
  }
  const accepted = `"*", or up to ${mostOrigins} origins as browsers send them, such as "https://app.example.com"`;
  report({
    variable: "CORS_ORIGINS",
    field: "",
    value,
    accepted: accepted + jsonErrorNote(value),
  });
  return { kind: "none" };
}

/** A `*` within one would stand for itself alone. */
const isOrigin = (value: unknown): value is string =>
  typeof value === "string" &&
  !value.includes("*") &&
  URL.canParse(value) &&
  new URL(value).origin === value;

const defaultPreflights = "600/minute";

const ofPreflights = ["limits", "ipv6Prefix", "trustedProxies"];

/**
 * A preflight carries nothing that tells who a user is, and a browser that is refused one tells its user nothing: they
 * have limits of their own, by address. Null when those that are written are wrong.
 */
export function readPreflights(value: unknown, report: Report): Policy | null {
  const variable = "PREFLIGHT_LIMITS";
  const written = isSet(value) ? typed(value) : defaultPreflights;
  const isPolicy = isRecord(written) && "limits" in written;
  const fields = isPolicy ? written : { limits: written };
  const others = Object.entries(fields).filter(([name]) => !ofPreflights.includes(name));
  for (const [field, other] of others) {
    report({ variable, field, value: other, accepted: acceptedFields(field, ofPreflights) });
  }
  if (others.length > 0) return null;
  const policy = { ...fields, name: "headgate.preflights", objects: "sharded" };
  return readPolicy(variable, "", policy, (problem) => {
    const field = isPolicy ? problem.field : problem.field.replace(/^limits\.?/, "");
    report({ ...problem, field });
  });
}
