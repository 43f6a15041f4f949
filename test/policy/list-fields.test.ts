/** Values that fields about lists, overrides, bans, objects and denials accept and reject. */
import { describeField, type Rejected } from "./field-cases.ts";

/** Values that every field for texts or numbers rejects. */
const otherTypes = [null, true, [], {}];
const lists = [null, true, 5, {}, "", "203.0.113.7", { 0: "203.0.113.7" }];
const addresses = (length: number): string[] =>
  Array.from({ length }, (_, index) => `10.0.${index >> 8}.${index & 255}`);

const key = "198.51.100.1";
const limits = "9/minute";

/** Values that every duration rejects. */
const noDurations = [
  [...otherTypes, 0, 500, 1.5, Number.NaN, "", " ", "0s", "-5s", "1.5s", "500", "NaN", "soon"],
  ["5 moons", "1h 30m", "1e3ms", "5s\n6s", "99999999999999999s", ["5s"]],
].flat();

/**
 * Values that `allow`, `deny` and the key of an override reject as the second entry of their list, in a policy with
 * the key `ip`.
 */
const noEntries = (at: string, of: (entry: unknown) => unknown): Rejected[] => [
  {
    at,
    of,
    accepted: /^an address, an IPv4 address with "\*" .*, or a CIDR block such as "10\.0\.0\.0\/8"/,
    values: [
      "somebody 203.0.113 203.0.113.256 203.0.113.07 203.0.113.7:80 ::g [::1]".split(" "),
      "203.0.113.7/33 203.0.113.7/-1 203.0.113.7/ 203.0.113.0/24/24 ::/129".split(" "),
      "203.0.113.0/255.255.255.0 64:ff9b::/96 ::ffff:0:0/96 2001:db8::1%eth0".split(" "),
      [" 203.0.113.7", "203.0.113.7, 203.0.113.8", ["nobody"], ["203.0.113.0/33"]],
    ].flat(),
  },
  {
    at,
    of,
    accepted: /^an address, an IPv4 address with "\*" .*, or a CIDR block such as "10\.0\.0\.0\/8"/,
    values: ["203.0.*", "203.0.113.1*", "256.0.0.*", "2001:db8:*", "**", "*.example", ["*:*"]],
  },
  {
    at,
    of,
    accepted: /^a well-formed text of 1 to 1024 characters for ip$/,
    values: [null, true, 5, {}, "", [""], [null], [[]], "7".repeat(1_025), "\ud800"],
  },
  { at, of, accepted: /^an address, a CIDR block, or a text for ip$/, values: [[], ["a", "b"]] },
];

for (const [field, kind] of [
  ["allow", "exempt"],
  ["deny", "blocked"],
] as const) {
  describeField({
    field,
    good: [
      [[], ["198.51.100.1"], ["198.51.100.0/24", "::/0", "2001:db8::1"], ["198.51.100.*"]],
      [["64:ff9b::198.51.100.1"], [["198.51.100.0/24"]], addresses(256)],
    ].flat(),
    resolved: [
      ["203.0.113.7", "203.0.113.9/24", "0.0.0.0/0", "::ffff:203.0.113.7", "*"],
      ["203.0.113.*", "*.*.*.7", ["203.0.113.7"], ["203.0.113.*"]],
    ]
      .flat()
      .map((entry) => [[entry], kind] as const),
    bad: [
      {
        accepted: /^a list of up to 256 keys, addresses and CIDR blocks$/,
        values: [...lists, addresses(257)],
      },
      ...noEntries("[1]", (entry) => ["198.51.100.1", entry]),
    ],
  });

  describeField({
    field,
    beside: { key: ["header:X-Api-Key", "ip"] },
    good: [[["partner", "203.0.113.7"]], [["partner", "*"]], ["198.51.100.1"]],
    resolved: [[["203.0.113.7"], kind]],
    bad: [
      {
        at: "[0]",
        accepted: /^an address, a CIDR block, or a list of 2 texts for header:x-api-key, ip$/,
        values: ["partner", ["partner"], ["partner", key, key], [], null, 5],
        of: (entry) => [entry],
      },
      {
        at: "[0]",
        accepted: /^a value without "\*" for header:x-api-key, because callers can invent it/,
        values: ["*", "part*", "**"],
        of: (text) => [[text, key]],
      },
    ],
  });
}

describeField({
  field: "overrides",
  good: [
    [],
    [{ key, limits }],
    [{ key: "203.0.113.7", limits: ["9/minute", { limit: 9, window: "1h" }] }],
    [{ when: "jwt:plan=pro", limits, strategy: "token-bucket" }],
    ...["country=DE", "ip=203.0.113.*", "asn=13335", "jwt:sub=*"].map((when) => [{ when, limits }]),
    addresses(256).map((each) => ({ key: each, limits })),
  ],
  resolved: [[[{ key: "203.0.113.7", limits: { limit: 1, window: "1h" } }], "charge"]],
  bad: [
    {
      accepted: /^a list of up to 256 overrides such as \{ key = "partner-42"/,
      values: [...lists, addresses(257).map((each) => ({ key: each, limits }))],
    },
    {
      at: "[1]",
      accepted: /^a list of up to 256 overrides such as \{ key = "partner-42"/,
      values: [null, true, 5, [], "203.0.113.7", ["203.0.113.7"]],
      of: (override) => [{ key, limits }, override],
    },
    {
      at: "[0].key",
      accepted: /^either the field key with a key of the policy, or the field when with a condition$/,
      values: [{}, { key, when: "jwt:plan=pro" }, { key, when: null }, { key: 5, when: 5 }],
      of: (target) => [{ ...(target as object), limits }],
    },
    ...noEntries("[1].key", (each) => [
      { key, limits },
      { key: each, limits },
    ]),
    {
      at: "[0].when",
      accepted: /^"<part>=<value>" with a part that callers cannot invent, such as "jwt:plan=pro"/,
      values: [
        [...otherTypes, 5, "", "jwt:plan", "jwt=gold", "=gold", "plan=gold", "header:x=gold"],
        ["cookie:x=gold", "query:x=gold", "path=/gold", "host=gold.example", "method=GET"],
        ["global=gold", "Country=DE", "jwt:a b=gold", ["jwt:plan=gold"]],
      ].flat(),
      of: (when) => [{ when, limits }],
    },
    {
      at: "[0].when",
      accepted: /^a well-formed text of 1 to 1024 characters for jwt:plan$/,
      values: ["jwt:plan=", "jwt:plan= ", "jwt:plan=\udfff", `jwt:plan=${"x".repeat(1_025)}`],
      of: (when) => [{ when, limits }],
    },
    {
      at: "[0].limits",
      accepted: /^limits such as "10\/minute".*, or an object$/,
      values: [undefined, null, true, 5],
      of: (each) => [{ key, limits: each }],
    },
    {
      at: "[0].limits.limit",
      accepted: /^an integer from 1 to 999999999999999$/,
      values: ["0/minute", "-1/minute", "1.5/minute", "NaN/minute", { limit: "5", window: "1m" }],
      of: (each) => [{ key, limits: each }],
    },
    ...["[0].strategy", "[0].limits.strategy"].map((at): Rejected => ({
      at,
      accepted: /^one of "fixed-window", .*"concurrency"$/,
      values: ["magic", "", null, 5, ["sliding-log"]],
      of: (strategy) =>
        at === "[0].strategy" ? [{ key, limits, strategy }] : [{ key, limits: { limit: 5, window: "1m", strategy } }],
    })),
    {
      at: "[0].cost",
      accepted: /^one of the fields key, when, limits, strategy$/,
      values: [5, null, "viel"],
      of: (cost) => [{ key, limits, cost }],
    },
  ],
});

const ban = { after: 3, within: "10m", for: "1h" };
describeField({
  field: "ban",
  good: [
    [ban, "10m", "1ms", "3650d", "day", { after: 1, within: "1ms", for: "1ms" }],
    [{ after: 1_000, within: "3650d", for: "3650d" }],
  ].flat(),
  bad: [
    {
      accepted: /^a duration such as "10m" for a ban after the first denial; or \{ after = 3/,
      values: [...noDurations, "month", "1 year", "3651d"].filter(
        (value) => typeof value !== "object" || value === null,
      ),
    },
    { accepted: /^an object$/, values: [[], ["10m"], [ban]] },
    {
      at: ".after",
      accepted: /^an integer from 1 to 1000$/,
      values: [...otherTypes, 0, -1, 1.5, 1_001, Number.NaN, Infinity, "3", "NaN", undefined],
      of: (after) => ({ ...ban, after }),
    },
    ...["within", "for"].map((name): Rejected => ({
      at: `.${name}`,
      accepted: /^a duration from 1 ms to 10 years such as/,
      values: [...noDurations, "month", "1 year", "3651d", undefined],
      of: (value) => ({ ...ban, [name]: value }),
    })),
    {
      at: ".until",
      accepted: /^one of the fields after, within, for$/,
      values: [null, 5, "tomorrow"],
      of: (until) => ({ ...ban, until }),
    },
  ],
});

describeField({
  field: "dryRun",
  good: [true, false],
  bad: [
    {
      accepted: /^true or false$/,
      values: [null, [], {}, 0, 1, "", "true", "false", "yes", "TRUE", [true]],
    },
  ],
});

describeField({
  field: "onError",
  good: ["local", "open", "closed"],
  bad: [
    {
      accepted: /^one of "local", "open", "closed"$/,
      values: [...otherTypes, 5, "", "Open", "ajar", "open ", "fail-open", ["open"]],
    },
  ],
});

describeField({
  field: "timeout",
  good: ["10ms", "1s", "30s", "500 Milliseconds", "second", "30000ms"],
  bad: [
    {
      accepted: /^a duration from 10 ms to 30 s such as "500ms" or "1s"$/,
      values: [...noDurations, "9ms", "30001ms", "31s", "1m", "month"],
    },
  ],
});

describeField({
  field: "objects",
  good: ["per-key", "sharded"],
  bad: [
    {
      accepted: /^one of "per-key", "sharded"$/,
      values: [...otherTypes, 5, "", "Sharded", "single", "per_key", "shared", ["sharded"]],
    },
  ],
});

describeField({
  field: "shards",
  beside: { objects: "sharded" },
  good: [1, 32, 4_096],
  bad: [
    {
      accepted: /^an integer from 1 to 4096$/,
      values: [...otherTypes, 0, -1, 1.5, 4_097, 1e21, Number.NaN, Infinity, "32", "NaN", ""],
    },
  ],
});

describeField({
  field: "shards",
  good: [],
  bad: [{ accepted: /^nothing unless objects is "sharded"$/, values: [1, 32, 0, "32", null] }],
});

describeField({
  field: "locationHint",
  good: "wnam enam sam weur eeur apac apac-ne apac-se oc afr me".split(" "),
  bad: [
    {
      accepted: /^one of "wnam", "enam", .* "afr", "me"$/,
      values: [...otherTypes, 5, "", "WEUR", "europe", "weur ", "moon", ["weur"]],
    },
  ],
});

describeField({
  field: "jurisdiction",
  good: ["eu", "us", "fedramp", "fedramp-high"],
  bad: [
    {
      accepted: /^one of "eu", "us", "fedramp", "fedramp-high"$/,
      values: [...otherTypes, 5, "", "EU", "de", "eu ", "fedramp_high", ["eu"]],
    },
  ],
});

describeField({
  field: "durability",
  good: ["relaxed", "confirmed"],
  bad: [
    {
      accepted: /^"relaxed" or "confirmed"$/,
      values: [...otherTypes, 5, "", "Confirmed", "strict", "none", ["confirmed"]],
    },
  ],
});

describeField({
  field: "maxDelay",
  beside: { strategy: "leaky-bucket" },
  good: ["1ms", "5s", "1h", "60 minutes"],
  bad: [
    {
      accepted: /^a duration from 1 ms to 1 hour such as "5s"$/,
      values: [...noDurations, "3600001ms", "61m", "2h", "day", "month"],
    },
  ],
});

describeField({
  field: "maxDelay",
  beside: {
    limits: ["5/minute", { limit: 9, window: "1m", strategy: "leaky-bucket", mode: "police" }],
  },
  good: [],
  bad: [
    {
      accepted: /^nothing without a leaky-bucket limit in mode "queue"$/,
      values: ["1ms", "5s", "1h"],
    },
  ],
});

describeField({
  field: "onDeny",
  good: [
    [{}, { status: 400 }, { status: 599, body: "Later.", contentType: "text/html" }],
    [{ body: "" }, { body: "ä".repeat(2_048) }, { contentType: "text/html; charset=utf-8" }],
  ].flat(),
  bad: [
    { accepted: /^an object$/, values: [null, true, 429, "Later.", [], ["Later."]] },
    {
      at: ".status",
      accepted: /^an integer from 400 to 599$/,
      values: [...otherTypes, 0, 200, 302, 399, 600, 429.5, -429, Number.NaN, "429", "NaN", ""],
      of: (status) => ({ status }),
    },
    {
      at: ".body",
      accepted: /^a well-formed text of at most 4096 bytes$/,
      values: [...otherTypes, 5, { error: "zu viel" }, "ä".repeat(2_049), "z".repeat(4_097), "\ud800"],
      of: (body) => ({ body }),
    },
    {
      at: ".contentType",
      accepted: /^a media type such as "text\/html; charset=utf-8"$/,
      values: [
        [...otherTypes, 5, "", "text", "text/", "/plain", "text /plain", "text/plain, a/b"],
        ["text/plain\r\nX-Evil: 1", "text/plain; a\r\nX-Evil: 1", "text/plain; ü", ["a/b"]],
      ].flat(),
      of: (contentType) => ({ contentType }),
    },
    {
      at: ".headers",
      accepted: /^one of the fields status, body, contentType$/,
      values: [{}, null, "X-Evil: 1"],
      of: (headers) => ({ headers }),
    },
  ],
});
