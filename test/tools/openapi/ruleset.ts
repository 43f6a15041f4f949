/** The rules for the OpenAPI documents: all rules of Spectral and OWASP, except for those listed here. */
import owasp from "@stoplight/spectral-owasp-ruleset";
import { oas } from "@stoplight/spectral-rulesets";

/** Rules that are off for the whole of both documents. */
const off = {
  // The contact depends on the deployment.
  "info-contact": "off",
  // The document has an SPDX identifier, and OpenAPI 3.1 allows only an identifier or a URL.
  "license-url": "off",
  // The RateLimit fields describe the checked key and not the caller. Therefore they are in the body.
  "owasp:api4:2023-rate-limit": "off",
  // Tokens must not be used in browsers. Therefore no origin is allowed.
  "owasp:api8:2023-define-cors-origin": "off",
} as const;

/** Rules that are off in some places of a document. */
interface Override {
  readonly files: readonly string[];
  readonly rules: Readonly<Record<string, "off">>;
}

const schemasOf = (file: string, names: readonly string[]): string[] =>
  names.map((name) => `${file}#/components/schemas/${name}`);

const anyText = { "owasp:api4:2023-string-restricted": "off" } as const;

const checkOverrides: readonly Override[] = [
  {
    // The denial of a check is a regular answer with status 200. Only operations with `deny` have a 429.
    files: ["openapi.json#/paths"],
    rules: { "owasp:api4:2023-rate-limit-responses-429": "off" },
  },
  {
    // These texts can have any characters: keys are opaque, unknown ids are accepted, names of invalid fields are
    // quoted, and bodies of `onDeny` are configured.
    files: schemasOf("openapi.json", [
      "KeyPart",
      "Settle/properties/id",
      "Problem/properties/errors/items/properties/field",
      "OwnWords",
    ]),
    rules: anyText,
  },
  {
    // These operations require no token and have no input.
    files: ["health", "openapi.json"].map((path) => `openapi.json#/paths/~1${path}/get`),
    rules: {
      "owasp:api2:2023-read-restricted": "off",
      "owasp:api8:2023-define-error-responses-401": "off",
      "owasp:api8:2023-define-error-validation": "off",
    },
  },
];

const adminOverrides: readonly Override[] = [
  {
    // Keys, names, notes and metrics can have any characters.
    files: schemasOf("admin-openapi.json", [
      "KeyPart",
      "PlainKey",
      "EntryText",
      "Note",
      "Name",
      "Tenant",
      "Exposition",
      "Problem/properties/errors/items/properties/field",
    ]),
    rules: anyText,
  },
  {
    // A ticket replaces the token, and an open WebSocket is the success response.
    files: ["admin-openapi.json#/paths/~1tail/get"],
    rules: { "owasp:api2:2023-read-restricted": "off", "operation-success-response": "off" },
  },
];

const all = [
  [oas, "all"],
  [owasp, "all"],
] as const;

export const everyRule = { extends: all };

/** Each file with its rules, and the codes of the rules that are off in some places. */
export const documents = [
  ["openapi.json", checkOverrides],
  ["admin-openapi.json", adminOverrides],
] as const;

export const rulesetWith = (overrides: readonly Override[]) => ({
  extends: all,
  rules: off,
  overrides,
});

export const exceptedBy = (overrides: readonly Override[]): string[] => [
  ...Object.keys(off),
  ...overrides.flatMap(({ rules }) => Object.keys(rules)),
];
