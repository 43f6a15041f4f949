/** What Spectral asks of the OpenAPI document: all that its own and OWASP's rules do, but for what is excepted here. */
import owasp from "@stoplight/spectral-owasp-ruleset";
import { oas } from "@stoplight/spectral-rulesets";

const file = "openapi.json";

/** Rules that nothing here can keep. */
const off = {
  // Whom to ask is up to whoever deploys it.
  "info-contact": "off",
  // An SPDX identifier stands in its place: OpenAPI 3.1 allows one of them.
  "license-url": "off",
  // The fields are of the key that is asked about, not of who asks: they are in the body, to be passed on.
  "owasp:api4:2023-rate-limit": "off",
  // A denial is an answer: only what can be asked to deny by its status has a 429.
  "owasp:api4:2023-rate-limit-responses-429": "off",
  // Tokens have no business in a browser: no origin is allowed.
  "owasp:api8:2023-define-cors-origin": "off",
} as const;

/** Rules that are kept but for these places. */
const overrides = [
  {
    // A key is taken byte for byte, what is no id is not refused but settles nothing, a name that is wrong is told as it
    // was written, and a policy's words are its own.
    files: [
      "KeyPart",
      "Settle/properties/id",
      "Problem/properties/errors/items/properties/field",
      "OwnWords",
    ].map((schema) => `${file}#/components/schemas/${schema}`),
    rules: { "owasp:api4:2023-string-restricted": "off" },
  },
  {
    // Open to all, and nothing is asked of them that could be wrong.
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
