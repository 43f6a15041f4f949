/** Reads the key of a log line by the parts of a policy's key, with the values that Headgate would give them. */
import { type KeyPart, mostKeyParts, partName, readKeyPart } from "../../policy/key.ts";
import { canonicalText } from "../../policy/key-text.ts";
import type { KeySettings } from "../../policy/compiled-policy.ts";
import { scalarText } from "../../policy/request.ts";
import { parameterValues } from "../../policy/request.ts";
import {
  acceptedHeader,
  cookieFields,
  forwardedFields,
  headerFields,
  headerText,
  hostText,
  methodText,
  partFields,
  pathText,
  placeholders,
  queryFields,
  targetFields,
  targetText,
  upperText,
} from "./fields.ts";
import {
  addressesIn,
  type LogFieldName,
  fieldName,
  firstField,
  type LogLine,
  nestedName,
  remembered,
} from "./log-line.ts";
import { type LineKey, missingField, quoted } from "./line-reader.ts";

export interface LogKey {
  /** The parts as the configuration writes them. A field that is not a key part has its own name. */
  readonly parts: readonly string[];
  /** Those of `parts` that are fields and not key parts. */
  readonly fields: readonly string[];
  readonly keyOf: (line: LogLine) => LineKey;
  /** How many lines had a list of addresses. */
  readonly lists: () => number;
}

/** The field, and the position in its list, of the client's address. */
export interface LogAddress {
  /** Null: the first field that usually has the address. */
  readonly field: LogFieldName | null;
  /** The client is the n-th entry from the right of a list, as in a policy. Null: the last. */
  readonly trustedProxies: number | null;
}

export type ReadLogKey = { readonly value: LogKey } | { readonly problem: string };

/** Reads a part of the key. */
type PartReader = (line: LogLine) => LineKey;

const acceptedParts =
  "ip, path, method, host, country, continent, asn, colo, global, header:<name>, cookie:<name>, query:<name> or the name of a field";

/** @param texts parts, or lists of parts that are separated by commas */
export function readLogKey(
  texts: readonly string[],
  address: LogAddress = { field: null, trustedProxies: null },
): ReadLogKey {
  const named = texts
    .flatMap((text) => text.split(","))
    .map((text) => ({ name: text.trim(), part: readKeyPart(text.trim()) }));
  for (const { name, part } of named) {
    if (part?.kind === "jwt") {
      return {
        problem: `${name}: a log has no verified tokens. Expected the name of a field that has the claim, or ${acceptedParts}`,
      };
    }
    if (name === "" || (part === null && /^(?:header|cookie|query|jwt):/i.test(name)))
      return { problem: `expected ${acceptedParts}, got ${JSON.stringify(name)}` };
  }
  const parts = named.map(({ name, part }) => (part === null ? name : partName(part)));
  if (parts.length > mostKeyParts || new Set(parts).size < parts.length) {
    return { problem: `expected 1 to ${mostKeyParts} different parts, got "${parts.join(", ")}"` };
  }
  let lists = 0;
  const readers = named.map(({ name, part }) =>
    part?.kind === "ip" ? addressReader(part, address, () => lists++) : readerOf(part, name),
  );
  const fields = named.filter(({ part }) => part === null).map(({ name }) => name);
  return { value: { parts, fields, keyOf: (line) => keyOf(line, readers), lists: () => lists } };
}

function keyOf(line: LogLine, readers: readonly PartReader[]): LineKey {
  const values: string[] = [];
  for (const read of readers) {
    const part = read(line);
    if ("reason" in part) return part;
    values.push(part.key);
  }
  return { key: values.length === 1 ? (values[0] ?? "") : values.map(listed).join(", ") };
}

/** Quotes a value that contains a comma or a quotation mark, so that the list of values stays unambiguous. */
const listed = (value: string): string => (/[,"]/.test(value) ? JSON.stringify(value) : value);

/** The default settings of a policy. A server behind trusted proxies has already resolved the addresses in its log. */
const settings: KeySettings = {
  name: "",
  addresses: { ipv6Prefix: 64, trustedProxies: null },
  match: { methods: null, path: null, pathMatching: "lenient", host: null, headers: null },
};

const textsOf = {
  path: pathText,
  method: methodText,
  host: hostText,
  country: upperText,
  continent: upperText,
  colo: upperText,
  asn: scalarText,
} as const;

function readerOf(part: KeyPart | null, name: string): PartReader {
  if (part === null) return namedReader(name);
  switch (part.kind) {
    case "global":
      return () => ({ key: "global" });
    case "header":
      return fieldReader(part, headerFields(part.name), headerText, acceptedHeader);
    case "cookie":
      return cookieReader(part, part.name);
    case "query":
      return queryReader(part, part.name);
    case "path":
    case "method":
    case "host":
    case "country":
    case "continent":
    case "colo":
    case "asn":
      return fieldReader(part, partFields[part.kind], textsOf[part.kind]);
    case "ip":
    case "jwt":
    case "custom":
      return namedReader(name);
    default:
      return part satisfies never;
  }
}

function namedReader(name: string): PartReader {
  const field = fieldName(name);
  return (line) => {
    const value = line.valueOf(field);
    if (value === undefined) return { reason: missingField(name, line) };
    const text = scalarText(value);
    return text === null ? { reason: `${name}: expected a text or a number, got ${quoted(value)}` } : { key: text };
  };
}

/** Reads the first of the fields from which `textOf` gets a text. */
function fieldReader(
  part: KeyPart,
  names: readonly LogFieldName[],
  textOf: (value: unknown) => string | null,
  accepted = "a text",
): PartReader {
  const valueOf = rememberedValueOf(part);
  return (line) => {
    let refused: unknown;
    for (const name of names) {
      const value = line.valueOf(name);
      if (value === undefined || placeholders.has(value)) continue;
      const text = textOf(value);
      if (text === null) refused ??= value;
      else if (!placeholders.has(text)) return valueOf(text);
    }
    return {
      reason:
        refused === undefined
          ? missingField(partName(part), line)
          : `${partName(part)}: expected ${accepted}, got ${quoted(refused)}`,
    };
  };
}

/** Reads the client of a field with one address, or with a list to which each proxy added the address of its client. */
function addressReader(part: KeyPart, { field, trustedProxies }: LogAddress, onList: () => void): PartReader {
  const valueOf = rememberedValueOf(part);
  const place = trustedProxies ?? 1;
  const names = field === null ? partFields.ip : [field];
  const isForwarded = (line: LogLine): boolean =>
    trustedProxies !== null && field === null && firstField(line, forwardedFields) !== null;
  return (line) => {
    let refused: unknown;
    for (const name of isForwarded(line) ? forwardedFields : names) {
      const value = line.valueOf(name);
      if (value === undefined || placeholders.has(value)) continue;
      const isPlain = typeof value === "string" && !value.includes(",");
      if (isPlain && place === 1) return valueOf(value);
      const members = addressesIn(value) ?? [];
      if (members.length > 1) onList();
      const client = members.at(-place) ?? "";
      if (!placeholders.has(client)) return valueOf(client);
      refused ??= value;
    }
    if (refused === undefined) return { reason: missingField(field?.text ?? "ip", line) };
    const addresses = `a list of at least ${place} ${place === 1 ? "address" : "addresses"}`;
    return { reason: `ip: expected ${trustedProxies === null ? "an IP address" : addresses}, got ${quoted(refused)}` };
  };
}

/**
 * Reads the value of a key part, and keeps results by text: parsing an address or a path takes longer than a lookup.
 */
const rememberedValueOf = (part: KeyPart): ((text: string) => LineKey) =>
  remembered((text) => {
    const value = canonicalText(part, settings, text);
    return value === null ? { reason: invalidText(part, text) } : { key: value };
  });

const invalidText = (part: KeyPart, text: string): string =>
  part.kind === "ip"
    ? `ip: expected an IP address, got ${quoted(text)}; the name of the field takes the text as it is`
    : `${partName(part)}: got ${quoted(text)}`;

function cookieReader(part: KeyPart, name: string): PartReader {
  const names = cookieFields(name);
  const headers = [...headerFields("cookie"), nestedName("cookies")];
  return (line) => {
    const value = scalarText(firstField(line, names)?.value);
    const header = value === null ? firstField(line, headers)?.value : undefined;
    const text = value ?? cookieIn(headerText(header), name);
    return text === null || placeholders.has(text) ? { reason: missingField(partName(part), line) } : { key: text };
  };
}

/** The cookie in a `Cookie` header; null when it is missing or has several values. */
function cookieIn(header: string | null, name: string): string | null {
  const values = (header ?? "")
    .split(";")
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1));
  return onlyText(values);
}

function onlyText(values: readonly string[]): string | null {
  const [first, ...others] = new Set(values);
  return first === undefined || others.length > 0 ? null : first;
}

function queryReader(part: KeyPart, name: string): PartReader {
  return (line) => {
    for (const field of targetFields) {
      const target = targetText(line.valueOf(field));
      const value = target?.includes("?") === true ? parameterIn(target, name) : null;
      if (value !== null) return { key: value };
    }
    const query = scalarText(firstField(line, queryFields)?.value);
    const value = query === null ? null : parameterIn(`/?${query.replace(/^\?/, "")}`, name);
    return value === null || placeholders.has(value) ? { reason: missingField(partName(part), line) } : { key: value };
  };
}

function parameterIn(target: string, name: string): string | null {
  const url = URL.parse(`http://host${target.startsWith("/") ? "" : "/"}${target}`);
  return url === null ? null : onlyText(parameterValues(url, name));
}
