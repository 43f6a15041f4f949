/** What a policy charges its requests to, as written: the parts of a key, and what to do without one. */
import { asText } from "../validation/problems.ts";

/** One part of a partition key. */
export type KeyPart =
  | { readonly kind: (typeof plainKinds)[number] }
  | { readonly kind: NamedKind; readonly name: string };

type NamedKind = "header" | "cookie" | "query" | "jwt";

const plainKinds = [
  "ip",
  "path",
  "method",
  "host",
  "country",
  "continent",
  "asn",
  "colo",
  "global",
] as const;

/** What holds for a request that lacks a part of the key. */
export type MissingKey = (typeof missingKeys)[number];
export const missingKeys = ["shared", "ip", "deny", "skip"] as const;

/** How a visitor's address is found, and how much of it is charged. */
export interface AddressSettings {
  /** An IPv6 network of this many bits is one visitor. */
  readonly ipv6Prefix: number;
  /** The visitor is so many entries from the right of X-Forwarded-For; null: whoever connects to Cloudflare. */
  readonly trustedProxies: number | null;
}

/** Parts of a key, and texts that a caller may name one by. */
export const mostKeyParts = 8;

export const acceptedKey =
  `one or several (up to ${mostKeyParts}) different parts from ` +
  `${plainKinds.map((kind) => `"${kind}"`).join(", ")}, "header:<name>", "cookie:<name>", "query:<name>" ` +
  `and "jwt:<claim>"`;

/** RFC 9110, section 5.6.2. */
export const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/;
/** Names of parameters and claims may be anything; a comma would end the part. */
export const visible = /^[\x21-\x2b\x2d-\x7e]{1,128}$/;

const namePatterns: Readonly<Record<NamedKind, RegExp>> = {
  header: token,
  cookie: token,
  query: visible,
  jwt: visible,
};

/** Whether a part is one that whoever calls may leave out, or fill with a secret. */
export const isSentByCaller = (part: KeyPart): boolean => "name" in part;

/** A part as it is written in the configuration. */
export const partName = (part: KeyPart): string =>
  "name" in part ? `${part.kind}:${part.name}` : part.kind;

/** A part, or several as a list or separated by commas. */
export function readKey(value: unknown): readonly KeyPart[] | null {
  const items: readonly unknown[] = Array.isArray(value) ? value : asText(value).split(",");
  const parts = items.map(readKeyPart).filter((part) => part !== null);
  const isWhole = parts.length === items.length && parts.length > 0 && parts.length <= mostKeyParts;
  return isWhole && new Set(parts.map(partName)).size === parts.length ? parts : null;
}

/** One part, as it is written. */
export function readKeyPart(value: unknown): KeyPart | null {
  const text = asText(value).trim();
  const plain = plainKinds.find((kind) => kind === text);
  if (plain !== undefined) return { kind: plain };
  const [, prefix = "", name = ""] = /^([a-z]+):(.*)$/i.exec(text) ?? [];
  const kind = namedKinds.find((each) => each === prefix.toLowerCase());
  if (kind === undefined || !namePatterns[kind].test(name)) return null;
  return { kind, name: kind === "header" ? name.toLowerCase() : name };
}

const namedKinds = ["header", "cookie", "query", "jwt"] as const satisfies NamedKind[];

/** Of these a caller makes up as many values as it likes. */
const inventable: ReadonlySet<KeyPart["kind"]> = new Set([
  "header",
  "cookie",
  "query",
  "path",
  "host",
]);
/** These have few values, whoever chooses them, or many share one: alone they are no danger, and beside others no help. */
const few: ReadonlySet<KeyPart["kind"]> = new Set([
  "method",
  "global",
  "country",
  "continent",
  "asn",
  "colo",
]);

/** Why a key should rather not have objects of its own; null when it may. */
export function keyWarning(key: readonly KeyPart[]): string | null {
  const invented = key.filter(({ kind }) => inventable.has(kind));
  if (invented.length === 0) return null;
  if (!key.every(({ kind }) => inventable.has(kind) || few.has(kind))) return null;
  const names = key.map((part) => `"${partName(part)}"`).join(", ");
  return (
    `its key is ${names} alone, which callers can invent: each new value evades the limits and makes another ` +
    `object. Put "ip" or a verified "jwt:<claim>" in the key; or have a policy by "ip" beside it, and set ` +
    `objects = "sharded" here, which keeps the objects few`
  );
}
