/** The rules for the OpenAPI document: all rules of Spectral and OWASP, except for those listed here. */
import owasp from "@stoplight/spectral-owasp-ruleset";
import { oas } from "@stoplight/spectral-rulesets";

const file = "openapi.json";

/** Rules that are off for the whole document. */
const off = {
  // The contact depends on the deployment.
  "info-contact": "off",
  // The document has an SPDX identifier; OpenAPI 3.1 allows only one of the two.
  "license-url": "off",
  // The RateLimit fields describe the checked key and not the caller; therefore they are in the body.
  "owasp:api4:2023-rate-limit": "off",
  // A denial is an answer. Only operations with `deny` have a 429.
  "owasp:api4:2023-rate-limit-responses-429": "off",
  // Tokens must not be used in browsers; therefore no origin is allowed.
  "owasp:api8:2023-define-cors-origin": "off",
} as const;

/** Rules that are off in some places. */
const overrides = [
  {
    // These texts can have any characters: keys are opaque, unknown ids are accepted, names of invalid fields are quoted, and
    // bodies of `onDeny` are configured.
    files: [
      "KeyPart",
      "Settle/properties/id",
      "Problem/properties/errors/items/properties/field",
      "OwnWords",
    ].map((schema) => `${file}#/components/schemas/${schema}`),
    rules: { "owasp:api4:2023-string-restricted": "off" },
  },
  {
    // These operations require no token and have no input.
    files: ["health", "openapi.json"].map((path) => `${file}#/paths/~1${path}/get`),
    rules: {
      "owasp:api2:2023-read-restricted": "off",
      "owasp:api8:2023-define-error-responses-401": "off",
      "owasp:api8:2023-define-error-validation": "off",
    },
  },
] as const;

const all = [
  [oas, "all"],
  [owasp, "all"],
] as const;

export const everyRule = { extends: all };
export const ruleset = { extends: all, rules: off, overrides };

export const excepted = [
  ...Object.keys(off),
  ...overrides.flatMap(({ rules }) => Object.keys(rules)),
];
