/** The options of `rateLimit`: what they accept, and the errors for everything else. */
import { expect, it } from "vitest";
import { policyFields } from "../../../src/policy/policy.ts";
import { ConfigProblems, rateLimit, type RateLimitOptions } from "../../../src/sdk/package/hono.ts";
import { readOptions } from "../../../src/sdk/middleware/read-options.ts";

/** The lines of the error that options cause; empty if they are accepted. */
function errorsOf(...options: readonly unknown[]): readonly string[] {
  try {
    rateLimit(...(options as RateLimitOptions[]));
    return [];
  } catch (error) {
    if (!(error instanceof ConfigProblems)) throw error;
    return error.message.split("\n");
  }
}

/** A valid value for each policy field that the options and the configuration have in common. */
const shared: Readonly<Record<string, unknown>> = {
  name: "all",
  match: { methods: ["GET"], path: "/api/*", host: "*.example.com", header: { "X-Beta": true } },
  key: ["ip", "header:X-User"],
  onMissingKey: "ip",
  ipv6Prefix: 56,
  trustedProxies: 1,
  limits: ["5/minute", { limit: 9, window: "1h", strategy: "token-bucket", burst: 20 }],
  strategy: "sliding-log",
  onError: "closed",
  timeout: "500ms",
  cost: { from: "header:X-Rows", max: 100 },
  count: { status: ["401"] },
  overrides: [{ key: ["192.0.2.1", "a"], limits: "9/minute" }],
  allow: ["192.0.2.0/24"],
  deny: ["198.51.100.1"],
  ban: { after: 3, within: "10m", for: "1h" },
  dryRun: true,
  onDeny: { status: 403, body: "Later", contentType: "text/plain" },
  objects: "sharded",
  shards: 64,
  locationHint: "weur",
  jurisdiction: "eu",
  consistency: "strict",
  denyCache: false,
  durability: "confirmed",
  pathMatching: "exact",
};
/** Fields that are not valid in the policy above. */
const elsewhere = [
  { limits: "5/minute", consistency: "eventual", syncEvery: "500ms" },
  { limits: { limit: 5, window: "1m", strategy: "leaky-bucket" }, maxDelay: "5s" },
];

const organisation = { name: "organisation", key: () => "acme", limits: "9/minute" };
const user = { name: "user", within: "organisation", key: () => "carol", limits: "5/minute" };

it("a policy may be within an earlier named policy of the same limiter, and each may have a key function", () => {
  const [root, child] = readOptions([organisation, user]);
  expect(root?.written["within"]).toBeUndefined();
  expect(child?.written["within"]).toBe("organisation");
  const missing = 'within: expected the name of an earlier policy, and there is none, got "organisation"';
  expect(errorsOf(user)).toEqual([`rateLimit.${missing}`]);
  expect(errorsOf(user, organisation)).toEqual([`rateLimit[0].${missing}`]);
  expect(errorsOf({ limits: "9/minute" }, { ...user, within: "default" })).toEqual([
    expect.stringMatching(/^rateLimit\[1\]\.within: expected the name of an earlier policy/),
  ]);
});

it("every field of a policy is an option", () => {
  const { match, ...others } = shared;
  expect(errorsOf({ ...others, match })).toEqual([]);
  for (const options of elsewhere) expect(errorsOf(options)).toEqual([]);
  const sharing = { ...user, guaranteed: "fair", weight: 2, classes: [{ when: "header:X-Batch=1", upTo: "50%" }] };
  expect(errorsOf(organisation, sharing)).toEqual([]);
  const covered = [shared, ...elsewhere, sharing].flatMap((options) => Object.keys(options));
  expect(new Set(covered)).toEqual(new Set(policyFields));
});

it("limit and windowMs are a short form of the option limits", () => {
  const [short] = readOptions([{ limit: 100, windowMs: 900_000 }]);
  expect(short?.written).toEqual({ name: "default", limits: [{ limit: 100, window: "900000ms" }] });
});

it.each<readonly [options: unknown, ...errors: string[]]>([
  [
    {},
    'rateLimit.limits is missing: expected limits such as "10/minute", "10 per 2 minutes" or "100/hour; 5/second" (ms, second, minute, hour, day, week, month, year); or limit and windowMs',
  ],
  [undefined, 'rateLimit is missing: expected an object such as { limits: "100/minute" }'],
  [
    { limits: "100/parsec" },
    'rateLimit.limits.window: expected a duration from 1 ms to 10 years such as "30s", "10m", "1h", "2 minutes" or "day" (ms, s, m, h, d, w), or the calendar\'s "month" (mo) or "year" (y), got "100/parsec"',
  ],
  [{ limit: 5 }, "rateLimit.windowMs is missing: expected an integer of milliseconds from 1"],
  [
    { limit: 0, windowMs: 0.5 },
    "rateLimit.limit: expected an integer from 1 to 999999999999999, got 0",
    "rateLimit.windowMs: expected an integer of milliseconds from 1, got 0.5",
  ],
  [
    { limits: "5/minute", limit: 5, windowMs: 1000 },
    'rateLimit.limits: expected nothing beside limit and windowMs, got "5/minute"',
  ],
  [{ limits: "5/minute", skip: true }, "rateLimit.skip: expected a function (c) => boolean, got true"],
  [{ limits: "5/minute", reserve: 1 }, "rateLimit.reserve: expected true or false, got 1"],
  [
    { limits: "5/minute", reserve: true, consistency: "leased" },
    'rateLimit.consistency: expected "strict", because the policy has reserve, got "leased"',
  ],
  [
    { limits: "5/minute", reserve: true, count: { status: ["401"] } },
    "rateLimit.reserve: expected nothing beside count, got true",
  ],
])("%j is rejected, and the error names the option, the value and what is accepted", (options, ...errors) => {
  expect(errorsOf(options)).toEqual(errors);
});

const circular: Record<string, unknown> = { limits: "5/minute" };
circular["match"] = circular;

it.each([
  [{ limits: "5/minute", cost: 1n }, /^rateLimit\.cost: expected an integer .*, got bigint$/],
  [{ limit: Number.NaN, windowMs: 1_000 }, /^rateLimit\.limit: expected an integer .*, got "NaN"$/],
  [circular, /^rateLimit\.match\./],
  [{ limits: "5/minute", name: Object.create(null) }, /^rateLimit\.name: expected a name/],
  [{ limits: "5/minute", skipp: true }, /, limit, windowMs, reserve, skip, got true; did you mean skip\?/],
  [{ limits: "5/minute", count: {} }, /expected \{ status: \[\.\.\.\] \} or/],
  [{ limits: "5/minute", onDeny: "no" }, /expected an object; or a function of the context, got/],
])("the error for the options %# is plain, whatever their values", (options, error) => {
  expect(errorsOf(options)[0]).toMatch(error);
});

it("problems of several policies are reported together, each with the policy's position", () => {
  expect(errorsOf({ limits: "5/minute" }, { limits: "5/minute", onErorr: "open" })).toEqual([
    expect.stringMatching(/^rateLimit\[1\]\.onErorr: .*; did you mean onError\?$/),
    'rateLimit[1].name: expected a name that no other policy has, got "default"',
  ]);
  expect(errorsOf()).toEqual(['rateLimit is missing: expected at least one policy such as { limits: "100/minute" }']);
});

it.each([
  ["keyGenerator", () => "k", "key"],
  ["handler", () => new Response(), "onDeny"],
  ["standardHeaders", "draft-6", "nothing: responses always have the RateLimit fields"],
  ["store", {}, "nothing: the Durable Object RATE_LIMITER stores the counters"],
  ["max", 5, "limit"],
])("the option %s of other libraries is rejected with the option to use", (name, value, use) => {
  const [error = ""] = errorsOf({ limit: 5, windowMs: 1000, [name]: value });
  expect(error).toMatch(`rateLimit.${name}: expected ${use}, got`);
});
