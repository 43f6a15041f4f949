/** The fields `key` and `onMissingKey`: the parts of a partition key, and how a request that lacks one is treated. */
import * as v from "valibot";
import { asText, integerFrom } from "../validation/problems.ts";
import { choice, schemaOfNullable } from "./schemas.ts";

interface KeyPartTraits {
  /** Whether the value comes from Cloudflare or a verified token. Callers can invent every other value. */
  readonly isVerified?: boolean;
  /** Whether many clients share one value, so that the part alone never identifies a client. */
  readonly isCoarse?: boolean;
  /** Whether a request can have several values for this part. The part of such a request counts as missing. */
  readonly isRepeatable?: boolean;
  /** The valid names of a part that is written `<kind>:<name>`. */
  readonly name?: RegExp;
}

/** RFC 9110, section 5.6.2. */
export const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/;
/** Any visible character except the comma, which separates parts. */
export const visible = /^[\x21-\x2b\x2d-\x7e]{1,128}$/;

/** Every key part. To add one, add a row here. The compiler then asks for its value in `keyPartReader`. */
export const plainParts = {
  ip: { isVerified: true },
  path: {},
  method: { isCoarse: true },
  host: {},
  country: { isVerified: true, isCoarse: true },
  continent: { isVerified: true, isCoarse: true },
  asn: { isVerified: true, isCoarse: true },
  colo: { isVerified: true, isCoarse: true },
  global: { isCoarse: true },
} as const satisfies Readonly<Record<string, KeyPartTraits>>;

export const namedParts = {
  header: { name: token, isRepeatable: true },
  cookie: { name: token, isRepeatable: true },
  query: { name: visible, isRepeatable: true },
  jwt: { name: visible, isRepeatable: true, isVerified: true },
} as const satisfies Readonly<Record<string, KeyPartTraits>>;

/** The value that a function of the Worker returns. Only code can state this part. */
const codeParts = { custom: {} } as const satisfies Readonly<Record<string, KeyPartTraits>>;

/** One part of a partition key. */
export type KeyPart =
  | { readonly kind: keyof typeof plainParts }
  /** `level` is the policy whose function it is, if that policy is within another one, which may have a function too. */
  | { readonly kind: keyof typeof codeParts; readonly level?: string }
  | { readonly kind: keyof typeof namedParts; readonly name: string };

const allParts = { ...plainParts, ...namedParts, ...codeParts };

export const traitsOf = ({ kind }: KeyPart): KeyPartTraits => allParts[kind];

export const isRepeatable = (part: KeyPart): boolean => traitsOf(part).isRepeatable === true;

/** The value of one part; null when the part is missing. All requests without the part share the value null. */
export type KeyValue = string | null;

/** A key before it becomes a partition key. */
export interface PlainKey {
  readonly parts: readonly KeyPart[];
  /** One for each of `parts`; null for a missing one. */
  readonly values: readonly KeyValue[];
  /** The tenant that owns the key. Default: none, the proxy owns it. */
  readonly tenant?: string | null;
}

/** Also the most texts by which a caller of `/check` may name a key. */
export const mostKeyParts = 8;

const acceptedKey =
  `1 to ${mostKeyParts} different key parts from ` +
  `${Object.keys(plainParts)
    .map((kind) => `"${kind}"`)
    .join(", ")}, "header:<name>", "cookie:<name>", "query:<name>" and "jwt:<claim>"`;

export const keyEntries = {
  key: v.optional(schemaOfNullable(readKey, acceptedKey), "ip"),
  /** How a request that lacks a part of the key is treated. */
  onMissingKey: v.optional(choice(["shared", "ip", "deny", "skip"]), "shared"),
  ipv6Prefix: v.optional(integerFrom(32, 128), 64),
  trustedProxies: v.optional(integerFrom(1, 10)),
};

/** How a client's address is found, and how much of it identifies the client. */
export interface AddressSettings {
  /** IPv6 addresses that share this many leading bits are one client. */
  readonly ipv6Prefix: number;
  /** The client is the n-th entry from the right of X-Forwarded-For; null: the peer that connects to Cloudflare. */
  readonly trustedProxies: number | null;
}

/** A part as the configuration writes it. */
export function partName(part: KeyPart): string {
  if ("name" in part) return `${part.kind}:${part.name}`;
  return part.kind === "custom" && part.level !== undefined ? `${part.kind}:${part.level}` : part.kind;
}

/** A list of parts, parts separated by commas, or a function of the Worker; null for anything else. */
export function readKey(value: unknown): readonly KeyPart[] | null {
  if (typeof value === "function") return [{ kind: "custom" }];
  const items: readonly unknown[] = Array.isArray(value) ? value : asText(value).split(",");
  const parts = items.map(readKeyPart).filter((part) => part !== null);
  const isWhole = parts.length === items.length && parts.length > 0 && parts.length <= mostKeyParts;
  return isWhole && new Set(parts.map(partName)).size === parts.length ? parts : null;
}

/** One part; null when the value is not a key part. */
export function readKeyPart(value: unknown): KeyPart | null {
  const text = asText(value).trim();
  if (isKindOf(plainParts, text)) return { kind: text };
  const [, prefix = "", name = ""] = /^([a-z]+):(.*)$/i.exec(text) ?? [];
  const kind = prefix.toLowerCase();
  if (!isKindOf(namedParts, kind) || !namedParts[kind].name.test(name)) return null;
  return { kind, name: kind === "header" ? name.toLowerCase() : name };
}

const isKindOf = <Parts extends object>(parts: Parts, kind: PropertyKey): kind is keyof Parts =>
  Object.hasOwn(parts, kind);

/** Why a policy with this key should share its objects among keys; null when it need not. */
export function keyWarning(key: readonly KeyPart[]): string | null {
  // Whether callers can invent the value depends on the function.
  if (key.some(({ kind }) => kind === "custom")) return null;
  const traits = key.map(traitsOf);
  const canEvade = traits.some(isInventable);
  if (!canEvade || !traits.every((each) => isInventable(each) || each.isCoarse)) return null;
  const names = key.map((part) => `"${partName(part)}"`).join(", ");
  return (
    `callers can invent the values of its key (${names}): each new value evades the limits and creates an object. ` +
    `Use a verified "jwt:<claim>" instead; or add a policy with the key "ip" for the same requests and set ` +
    `objects = "sharded" here, which bounds the number of objects`
  );
}

/** Whether one caller can send any number of different values. */
const isInventable = ({ isVerified = false, isCoarse = false }: KeyPartTraits): boolean => !isVerified && !isCoarse;
