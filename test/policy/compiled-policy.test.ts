/** Compiled policies: evaluating conditions and key parts together gives the same results as evaluating each alone. */
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { enforcedPolicy, compiledPolicy } from "../../src/policy/compiled-policy.ts";
import type { RequestAttributes } from "../../src/policy/request.ts";
import { forAll } from "../for-all.ts";
import { policyOf, requestTo } from "./harness.ts";

const someRequest: fc.Arbitrary<RequestAttributes> = fc
  .record({
    method: fc.constantFrom("GET", "HEAD", "POST", "post", "OPTIONS"),
    host: fc.constantFrom("h.example", "H.example.", "other.example"),
    path: fc.constantFrom("/", "/a", "/A/", "/a/b", "/%61", "//a", "/a;x", "/z/../a/b", "/b%2Fa"),
    query: fc.constantFrom("", "?q=1", "?q=1&q=2", "?Q=1"),
    headers: fc.dictionary(
      fc.constantFrom("X-Plan", "X-Key", "Cookie", "CF-Connecting-IP", "X-Forwarded-For"),
      fc.constantFrom("free", "a, b", "sid=1", "sid=1; sid=2", "203.0.113.7", "2001:db8::1"),
    ),
    country: fc.constantFrom("DE", undefined),
  })
  .map(({ method, host, path, query, headers, country }) =>
    requestTo(`https://${host}${path}${query}`, { method, headers, cf: { country } }),
  );

const someMatch = fc.record(
  {
    methods: fc.constantFrom("GET", ["POST", "HEAD"], ["get", "OPTIONS"]),
    host: fc.constantFrom("h.example", "*.example"),
    path: fc.constantFrom("/a", "/a/*", "/", "/:x", "/*/b"),
    header: fc.constantFrom("X-Plan", { "X-Plan": "free" }, { "X-Plan": "free", "X-Key": true }),
  },
  { requiredKeys: [] },
);

it(
  "a policy with several conditions matches exactly the requests that match all conditions one by one",
  forAll(
    [someMatch, fc.constantFrom("lenient", "exact"), someRequest],
    (match, pathMatching, request) => {
      const matches = (conditions: object): boolean =>
        compiledPolicy(policyOf({ match: conditions, pathMatching })).matches(request);
      const alone = Object.entries(match).map(([name, value]) => matches({ [name]: value }));
      expect(matches(match)).toBe(alone.every(Boolean));
    },
    500,
  ),
);

it(
  "matchesTarget ignores the conditions of a policy on headers",
  forAll([someMatch, someRequest], (match, request) => {
    const { header: _, ...target } = match;
    expect(compiledPolicy(policyOf({ match })).matchesTarget(request)).toBe(
      compiledPolicy(policyOf({ match: target })).matches(request),
    );
  }),
);

const allParts = [
  "ip",
  "path",
  "method",
  "host",
  "country",
  "global",
  "header:X-Key",
  "cookie:sid",
  "query:q",
  "jwt:sub",
];

it(
  "a key of several parts has the value of each part alone, in the order of the parts",
  forAll(
    [
      fc.uniqueArray(fc.constantFrom(...allParts), { minLength: 1, maxLength: 8 }),
      fc.constantFrom({}, { sub: "u-1" }, { sub: ["u-1"] }, { sub: 7 }),
      fc.constantFrom({}, { trustedProxies: 1 }, { trustedProxies: 2 }),
      fc.constantFrom({}, { match: { path: "/a/*" } }),
      someRequest,
    ],
    (key, claims, proxies, match, request) => {
      const valuesOf = (parts: readonly string[]) =>
        compiledPolicy(policyOf({ key: parts, ...proxies, ...match })).keyValues(request, claims);
      expect(valuesOf(key)).toEqual(key.flatMap((part) => valuesOf([part])));
    },
    300,
  ),
);

it("compiledPolicy and enforcedPolicy return the same object each time, and an enforced dry run differs only in dryRun and ban", () => {
  const policy = policyOf({ dryRun: true, ban: "10m" });
  expect(compiledPolicy(policy)).toBe(compiledPolicy(policy));
  expect(enforcedPolicy(policy)).toBe(enforcedPolicy(policy));
  expect(enforcedPolicy(policy)).toEqual({ ...policy, isDryRun: false, ban: null });
});

it("a compiled policy has one policy for each override, which differs from the original policy only in its limits", () => {
  const overrides = [
    { key: "203.0.113.7", limits: "9/s" },
    { when: "country=DE", limits: "8/s" },
  ];
  const policy = policyOf({ overrides });
  const { overridden } = compiledPolicy(policy);
  expect([...overridden]).toEqual(policy.lists.overrides.map(({ limits }) => [limits, { ...policy, limits }]));
});
