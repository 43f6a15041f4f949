/** The sentences that describe a policy. */
import { describe, expect, it, vi } from "vitest";
import { policySentences } from "../../src/admin/policy-sentences.ts";
import type { PolicyPart } from "../../src/admin/wire.ts";
import { policyWithRules } from "../../src/policy/read-runtime-rules.ts";
import type { PolicyRule } from "../../src/policy/runtime-rules.ts";
import { parseConfig } from "../../src/policy/vars/config.ts";

/** The parts of the last of these policies. */
function describedParts(fields: object, rules: readonly PolicyRule[] = [], earlier: readonly object[] = []) {
  const written = { name: "api", limits: "5/minute", ...fields };
  const variables = { KEY_SECRET: "s", JWT_JWKS_URL: "https://id.example.com/keys", POLICIES: [...earlier, written] };
  const warnings = vi.spyOn(console, "warn").mockReturnValue(undefined);
  const policy = parseConfig(variables).policies.at(-1);
  warnings.mockRestore();
  if (policy === undefined) throw new Error("expected a policy");
  const state = { epoch: 7, version: rules.length, text: JSON.stringify(rules) };
  return policySentences(rules.length === 0 ? policy : policyWithRules(policy, state, 0).policy);
}

const textOf = (part: PolicyPart, fields: object, rules: readonly PolicyRule[] = []): string =>
  describedParts(fields, rules)
    .filter((each) => each.part === part)
    .flatMap(({ sentences }) => sentences)
    .join(" ");

describe("the sentences of a policy", () => {
  it("a policy with defaults has a sentence for each part that decides a request, in the order of a request", () => {
    expect(describedParts({}).map(({ part }) => part)).toEqual([
      "mode",
      "match",
      "key",
      "deny",
      "allow",
      "missing-key",
      "limits",
      "overrides",
      "cost",
      "object",
      "failure",
      "denial",
    ]);
  });

  it.each<[PolicyPart, object, string]>([
    ["mode", {}, "The policy is enforced: a request that exceeds a limit is denied."],
    ["mode", { dryRun: true }, "never denies, delays or bans"],
    ["match", {}, "The policy applies to all requests."],
    [
      "match",
      { match: { methods: ["POST", "PUT"], path: "/api/:id", host: "*.example.com" }, pathMatching: "exact" },
      "The policy applies to POST or PUT requests with the path /api/:id for the host *.example.com. The path is compared exactly as received.",
    ],
    ["match", { match: { methods: ["GET"] } }, "The policy applies to GET requests. GET includes HEAD."],
    ["match", { match: { header: { "X-Beta": true } } }, "The policy applies to all requests with a header x-beta."],
    ["key", { key: "global" }, "All requests share one key, and so one count."],
    [
      "key",
      { key: ["ip", "header:X-Api-Key"], ipv6Prefix: 56, trustedProxies: 2 },
      "Each combination of client address and header x-api-key is a key with a count of its own. The client address is entry 2 of X-Forwarded-For, counted from the right. IPv6 addresses with the same first 56 bits are one client.",
    ],
    ["deny", {}, "There are no deny entries."],
    [
      "deny",
      { deny: ["192.0.2.1", "192.0.2.2"] },
      "A request that matches one of 2 entries is denied with status 403.",
    ],
    ["allow", { allow: ["192.0.2.1"] }, "A request that matches the entry is allowed and not charged."],
    ["missing-key", { key: ["ip", "method"] }, "A request without ip shares one key with all others that lack it."],
    [
      "missing-key",
      { key: ["jwt:sub", "cookie:id"], onMissingKey: "ip" },
      "A request without jwt:sub or cookie:id is charged to its client address instead.",
    ],
    ["missing-key", { key: "jwt:sub", onMissingKey: "deny" }, "A request without jwt:sub is denied with status 403."],
    ["missing-key", { key: "jwt:sub", onMissingKey: "skip" }, "is allowed and not charged."],
    ["missing-key", { key: "path" }, ""],
    ["ban", {}, ""],
    ["ban", { ban: "10m" }, "After a denial by the limits below, a key is banned for 10 minutes."],
    [
      "ban",
      { ban: { after: 3, within: "1m", for: "1h" } },
      "After 3 denials within 1 minute by the limits below, a key is banned for 1 hour.",
    ],
    ["overrides", {}, "There are no overrides."],
    [
      "overrides",
      { overrides: [{ key: "192.0.2.1", limits: "9/minute" }] },
      "A request that matches the override has the limits of the first match instead.",
    ],
    ["cost", {}, "A request is charged 1 unit."],
    [
      "cost",
      { cost: { from: "query:rows", max: 100 } },
      "A request is charged the number in its query parameter rows, from 1 to 100 units.",
    ],
    [
      "cost",
      { cost: { from: "response-header:X-Tokens", reserve: 500, max: 9_000 } },
      "A request reserves 500 units. The response replaces them by the number in its header X-Tokens, at most 9,000.",
    ],
    [
      "cost",
      { count: { status: ["401", "5xx"] } },
      "A request is refunded unless its response has the status 401 or 500 to 599.",
    ],
    ["cost", { count: { exceptStatus: [404] } }, "A request is refunded if its response has the status 404."],
    ["delay", {}, ""],
    [
      "delay",
      { limits: "10/second", strategy: "leaky-bucket", maxDelay: "500ms" },
      "An allowed request waits for its turn, for at most 500 ms. One that would wait longer is denied.",
    ],
    ["delay", { limits: "10/second", strategy: "leaky-bucket" }, "for at most 1 s"],
    ["object", {}, "Each key has a Durable Object. The object decides each request (strict), so the limits are exact."],
    [
      "object",
      { objects: "sharded", jurisdiction: "eu", durability: "confirmed", denyCache: false, consistency: "eventual" },
      "All keys share 32 Durable Objects in the jurisdiction eu. Running copies of the Worker decide by their own copy of the counts, which they synchronize every 1 second (eventual). Meanwhile, several of them may together exceed the limits. An answer waits until its charge is stored.",
    ],
    [
      "object",
      { consistency: "leased", locationHint: "weur" },
      "in the region weur. Running copies of the Worker decide by units",
    ],
    ["failure", {}, "After 1 second without an answer, the running copy of the Worker decides by the same limits"],
    [
      "failure",
      { onError: "closed", timeout: "250ms" },
      "After 250 milliseconds without an answer, the request is denied with status 503.",
    ],
    ["failure", { onError: "open" }, "the request is allowed."],
    ["denial", {}, "A denial by a limit or a ban has the status 429, Retry-After, and problem details (JSON)."],
    [
      "denial",
      { onDeny: { status: 503, body: "Später", contentType: "text/plain" } },
      "has the status 503, Retry-After, and a configured text of 7 bytes (text/plain).",
    ],
  ])("the part %s of a policy with %j says: %s", (part, fields, text) => {
    const described = textOf(part, fields);
    // Empty for a part that the policy does not have.
    expect(
      text === "" ? described : described.slice(described.indexOf(text), described.indexOf(text) + text.length),
    ).toBe(text);
  });

  it.each<[object | string, string]>([
    [
      { strategy: "fixed-window" },
      "At most 5 requests per minute (fixed-window): a window begins with the first request of a key.",
    ],
    [{ strategy: "fixed-window", align: "clock" }, "(fixed-window): windows are aligned to the clock."],
    [{ strategy: "fixed-window", elastic: true }, "first request of a key, and each denied request restarts it."],
    [
      { window: "month", timezone: "Europe/Berlin" },
      "At most 5 requests per calendar month (fixed-window): the count begins again with each month in the time zone Europe/Berlin.",
    ],
    [
      { strategy: "sliding-window-counter", align: "clock" },
      "At most 5 requests per minute (sliding-window-counter): estimated from the counts of this window and the one before, and windows are aligned to the clock.",
    ],
    [
      { strategy: "sliding-buckets", precision: "10s", edge: "drop" },
      "At most 5 requests per minute (sliding-buckets): counted in buckets of 10 seconds, each until its start is 1 minute old.",
    ],
    [
      { strategy: "sliding-log" },
      "At most 5 requests per minute (sliding-log): each counts until it is exactly 1 minute old.",
    ],
    [
      { strategy: "token-bucket", burst: 30 },
      "At most 30 requests at once (token-bucket); they are refilled at 5 requests per minute.",
    ],
    [
      { strategy: "token-bucket", burst: 30, refill: "interval" },
      "At most 30 requests at once (token-bucket); 5 are refilled at the end of each minute.",
    ],
    [
      { strategy: "leaky-bucket", burst: 20 },
      "5 requests per minute pass, evenly spaced, and at most 20 more wait (leaky-bucket).",
    ],
    [
      { strategy: "leaky-bucket", burst: 20, mode: "police" },
      "At most 20 requests at once (leaky-bucket); they drain at 5 requests per minute.",
    ],
    [
      { strategy: "concurrency", window: "30s" },
      "At most 5 requests at once (concurrency): a slot is free again when its request ends, or after 30 seconds.",
    ],
  ])("a limit with the fields %j is described as: %s", (fields, text) => {
    const limit = { limit: 5, window: "1m", ...Object(fields) };
    expect(textOf("limits", { limits: [limit] })).toContain(text);
  });

  it("the sentences of a policy within others name them, and concern only its own missing parts", () => {
    const [org, team] = [
      { name: "org", key: "jwt:org", limits: "50/minute", objects: "per-key", jurisdiction: "eu" },
      { name: "team", within: "org", key: "jwt:team", limits: "20/minute" },
    ];
    const described = new Map(
      describedParts({ within: "team", key: "jwt:sub" }, [], [org, team]).map(({ part, sentences }) => [
        part,
        sentences.join(" "),
      ]),
    );
    expect(described.get("match")).toBe(
      "The policy applies to all requests, if org and team apply too. " +
        "If several policies apply to a request, all of them must allow it. " +
        "The policy is within org and team: a request is charged to all of them or to none.",
    );
    expect(described.get("key")).toBe(
      "Each combination of verified token claim org, verified token claim team and verified token claim sub is a key with a count of its own.",
    );
    expect(described.get("missing-key")).toBe("A request without jwt:sub shares one key with all others that lack it.");
    expect(described.get("object")).toContain("Each key of org has a Durable Object in the jurisdiction eu.");
  });

  it("several limits are described with their names, and costs other than 1 in units", () => {
    expect(textOf("limits", { limits: "5/minute; 50/day", cost: 2 })).toBe(
      "At most 5 units per minute (sliding-window-counter, api.5-per-1m): estimated from the counts of this window and the one before. " +
        "At most 50 units per day (sliding-window-counter, api.50-per-1d): estimated from the counts of this window and the one before. " +
        "A request is allowed only if all limits allow it, and otherwise charged to none of them.",
    );
  });

  it("rules of the policy change its sentences, which say how many entries come from rules", () => {
    const rules: PolicyRule[] = [
      { id: "r1", kind: "mode", mode: "off" },
      { id: "r2", kind: "limits", limits: "7/hour" },
      { id: "r3", kind: "deny", entries: ["192.0.2.8", "192.0.2.9"] },
    ];
    const fields = { deny: ["192.0.2.1"] };
    expect(textOf("mode", fields, rules)).toContain("The policy is off");
    expect(textOf("limits", fields, rules)).toContain("At most 7 requests per hour");
    expect(textOf("deny", fields, rules)).toContain("one of 3 entries (2 of rules, 1 of the configuration)");
    expect(textOf("overrides", fields, rules)).toContain("A rule of a single key comes first");
  });

  it("entries of lists, values of matched headers and texts of denials never appear, because they may be secrets", () => {
    const secret = "s3cr3t-value";
    const text = JSON.stringify(
      describedParts({
        key: "header:x-api-key",
        match: { header: { "X-Key": secret } },
        allow: [secret],
        deny: [`${secret}-2`],
        overrides: [{ key: secret, limits: "9/minute" }],
        onDeny: { body: secret },
      }),
    );
    expect(text).not.toContain(secret);
    expect(text).toContain("with the configured value of the header x-key");
  });
});
