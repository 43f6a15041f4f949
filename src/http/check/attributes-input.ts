/** Parses the `attributes` of a check. Every invalid attribute is named. */
import * as v from "valibot";
import { parseAddress, withoutPort } from "../../policy/address.ts";
import { isRepeatable, type KeyPart, partName, readKeyPart } from "../../policy/key.ts";
import type { CallerAttributes } from "../../policy/resolve-key.ts";
import { isRecord, parseJson } from "../../validation/json.ts";

/** By the name of a key part. A list holds the values of a repeated field, or of a claim that is a list. */
export type AttributesInput = Record<string, Scalar | readonly Scalar[]>;
type Scalar = string | number | boolean;

const mostAttributes = 16;
const mostValues = 64;
const longestTextBytes = 1024;

const acceptedAttributes = `an object of up to ${mostAttributes} attributes such as { "ip": "203.0.113.7", "country": "DE", "jwt:plan": "pro" }`;
const acceptedText = `JSON text of ${acceptedAttributes}`;
const acceptedName =
  'the name of a key part, at most once: "ip", "country", "continent", "asn", "colo", "method", "host", "path", "header:<name>", "cookie:<name>", "query:<name>" or "jwt:<claim>"';
const acceptedAddress = "an IPv4 or IPv6 address";
const acceptedValue = `a well-formed text of 1 to ${longestTextBytes} UTF-8 bytes, a boolean, or a number (integers up to 2^53 - 1)`;
const acceptedValues = `${acceptedValue}; or a list of 1 to ${mostValues} such values`;

/** Parts that the header fields of a gateway cannot describe. */
const notForwarded: ReadonlySet<KeyPart["kind"]> = new Set(["country", "continent", "asn", "colo", "jwt"]);

export const attributesSchema = attributesNamed(({ kind }) => kind !== "global", acceptedName);

/** JSON text, for queries. */
export const attributesTextSchema = v.pipe(v.string(acceptedText), fromJson(), attributesSchema);

/** For `/check/forward`, where the described request has the other parts itself. */
export const gatewayAttributesTextSchema = v.pipe(
  v.string(acceptedText),
  fromJson(),
  attributesNamed(
    ({ kind }) => notForwarded.has(kind),
    'one of "country", "continent", "asn", "colo" and "jwt:<claim>", at most once; the other parts are taken from the described request',
  ),
);

function fromJson() {
  return v.rawTransform<string, unknown>(({ dataset, addIssue, NEVER }) => {
    try {
      return parseJson(dataset.value);
    } catch {
      addIssue({ message: acceptedText });
      return NEVER;
    }
  });
}

function attributesNamed(isAccepted: (part: KeyPart) => boolean, acceptedNames: string) {
  return v.pipe(
    v.custom<AttributesInput>(
      (value) => isRecord(value) && Object.keys(value).length <= mostAttributes,
      acceptedAttributes,
    ),
    v.rawTransform(({ dataset: { value: input }, addIssue, NEVER }): CallerAttributes => {
      const texts = new Map<string, readonly string[]>();
      let isValid = true;
      for (const [key, value] of Object.entries(input)) {
        const part = partCalled(key);
        const isName = part !== null && isAccepted(part) && !texts.has(partName(part));
        const read = isName ? textsOf(part, value) : acceptedNames;
        if (isName && typeof read !== "string") {
          texts.set(partName(part), read);
          continue;
        }
        isValid = false;
        const path = [{ type: "object", origin: "value", input, key, value }] as const;
        addIssue({ message: String(read), path: [...path] });
      }
      return isValid ? texts : NEVER;
    }),
  );
}

/**
 * The part with this name. Header names are compared without regard to letter case; all other names must equal
 * `partName`.
 */
function partCalled(name: string): KeyPart | null {
  const part = readKeyPart(name);
  return part !== null && name.startsWith(part.kind) ? part : null;
}

/** @returns the values of the part; if they are invalid, a description of what is accepted */
function textsOf(part: KeyPart, value: unknown): readonly string[] | string {
  const accepted = acceptedFor(part);
  const isList = isRepeatable(part) && Array.isArray(value);
  const values: readonly unknown[] = isList ? value : [value];
  const texts = values.slice(0, mostValues + 1).map((each) => textOf(part, each));
  const isValid = texts.length > 0 && texts.length <= mostValues;
  return isValid && texts.every((text) => text !== null) ? texts : accepted;
}

function acceptedFor(part: KeyPart): string {
  if (part.kind === "ip") return acceptedAddress;
  return isRepeatable(part) ? acceptedValues : acceptedValue;
}

/** @returns null when the value is invalid */
function textOf(part: KeyPart, value: unknown): string | null {
  if (part.kind === "ip") return typeof value === "string" && parseAddress(withoutPort(value)) !== null ? value : null;
  if (typeof value === "boolean") return String(value);
  if (typeof value === "number") {
    // Parsing rounds greater integers: two different claims would be equal.
    const isExact = Number.isSafeInteger(value) || !Number.isInteger(value);
    return Number.isFinite(value) && isExact ? String(value) : null;
  }
  if (typeof value !== "string" || value === "" || value.length > longestTextBytes) return null;
  return value.isWellFormed() && utf8.encode(value).length <= longestTextBytes ? value : null;
}

const utf8 = new TextEncoder();
