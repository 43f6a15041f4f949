/**
 * Values that the fields of a policy accept and reject. Fields about lists and denials are in `list-fields.test.ts`.
 */
import { describe, expect, it } from "vitest";
import { describeField, reportedProblems } from "./field-cases.ts";

/** Values that every field for texts or numbers rejects. */
const otherTypes = [null, true, [], {}];

describeField({
  field: "name",
  good: ["a", "z9", "a_.-", "api.v1", `a${"0".repeat(63)}`],
  bad: [
    {
      accepted: /^a name of 1 to 64 characters from a-z, 0-9, '_', '\.' and '-' that begins with/,
      values: [
        otherTypes,
        ["", " ", "A", "Login", "log in", "1st", "_a", "-a", ".a", "a/b", "a\n", " login"],
        ["café-bar", "a".repeat(65), "a\u0000bcd", "login;", '"login"', 5, Number.NaN],
      ].flat(),
    },
  ],
});

describeField({
  field: "match",
  good: [
    {},
    ...["GET", ["GET"]].map((methods) => ({ methods })),
    { methods: ["get", "POST", "X-CUSTOM"] },
    { path: "/" },
    { path: "/*" },
    { path: "/users/:id" },
    { path: "/%61/é" },
    { host: "headgate.example" },
    { host: "*.Example.com." },
    { host: "*" },
    ...["X-Plan", { "X-Plan": "free" }].map((header) => ({ header })),
    { header: { "X-Plan": "a b", "X-Beta": true } },
    { methods: ["GET"], path: "/", host: "headgate.example", header: { "X-Plan": true } },
  ],
  bad: [
    { accepted: /^an object$/, values: [null, true, 5, "/login", [], ["/login"]] },
    {
      at: ".paths",
      accepted: /^one of the fields methods, path, host, header, pathMatching$/,
      values: ["/login", null, 5],
      of: (paths) => ({ paths, path: "/" }),
    },
    {
      at: ".methods",
      accepted: /^a list of HTTP methods such as/,
      values: [
        [null, true, {}, 5, "", [], [""], [null], [5], ["P UT"], ["GET", "PO/ST"]],
        [["GET,POST"], ["PÜT"], ["GET\n"], [["GET"]], ["X".repeat(65)]],
      ].flat(),
      of: (methods) => ({ methods }),
    },
    {
      at: ".path",
      accepted: /^a path pattern such as/,
      values: [
        [...otherTypes, 5, "", "login", "*", "https://h.example/a", "/(", "/a(", "/{a", "/:"],
        [
          "/a?b=1",
          "/(?<x",
          "/:id(",
          "/users/:id(\\d+)",
          "/a{/b}?",
          "/a{{b}}",
          ["/login"],
          " /login",
          "/*/:id(\\d+",
          "/a/+b",
        ],
      ].flat(),
      of: (path) => ({ path }),
    },
    {
      at: ".host",
      accepted: /^a host such as/,
      values: [
        [...otherTypes, 5, "", " ", "example.org:8080", "https://example.org", "example.org/a"],
        ["exämple.org", "a b.example", "user@example.org", "[2001:db8::1]", ":sub.example.org"],
        ["{a.}?example.org", ["example.org"]],
      ].flat(),
      of: (host) => ({ host }),
    },
    {
      at: ".header",
      accepted: /^an object of header names and their values, or true for any value/,
      values: [
        [null, true, [], 5, "X Plan", {}, { "X-Plan": false }, { "X-Plan": 1 }],
        [{ "X-Plan": null }, { "X-Plan": "" }, { "X-Plan": " gratis" }, { "X-Plan": "a\nb" }],
        [{ "X Plan": "gratis" }, { "": "gratis" }, { "X-Plan": ["gratis"] }],
        [{ "X-Plan": "gratis", "x-plan": "ultra" }, { "X-Plan": "grätis" }],
      ].flat(),
      of: (header) => ({ header }),
    },
  ],
});

const named = ["header", "cookie", "query", "jwt"];
describeField({
  field: "key",
  good: [
    ["ip", "path", "method", "host", "country", "continent", "asn", "colo", "global"],
    ["header:X-Api-Key", "HEADER:a", "cookie:sid", "query:filter[a]", "jwt:sub"],
    ["jwt:https://id.example/t", `header:${"h".repeat(64)}`, `query:${"q".repeat(128)}`],
    [["ip"], ["ip", "path"], " ip , path ", ["global", "ip"]],
    [Array.from({ length: 8 }, (_, index) => `header:h${index}`)],
  ].flat(),
  bad: [
    {
      accepted: /^1 to 8 different key parts from "ip", .*"jwt:<claim>"$/,
      values: [
        [...otherTypes, 5, "", " ", ",", "ip,", ",ip", "IP", "address", "ip;path", "ip path"],
        [["ip", "ip"], ["header:Kind", "header:kind"], [""], [null], [["ip"]], ["ip,path"]],
        named.flatMap((kind) => [kind, `${kind}:`, `${kind}:a b`, [`${kind}:sch\u00f6n`]]),
        ["cookie:a;b", `header:${"h".repeat(65)}`, `jwt:${"q".repeat(129)}`, "*", "ip:*"],
        [{ 0: "ip" }, Array.from({ length: 9 }, (_, index) => `header:h${index}`)],
      ].flat(),
    },
  ],
});

describeField({
  field: "onMissingKey",
  good: ["shared", "ip", "deny", "skip"],
  bad: [
    {
      accepted: /^one of "shared", "ip", "deny", "skip"$/,
      values: [...otherTypes, 5, "", "Deny", "denied", "allow", "shared ", ["skip"], "null"],
    },
  ],
});

describeField({
  field: "ipv6Prefix",
  good: [32, 48, 56, 64, 127, 128],
  bad: [
    {
      accepted: /^an integer from 32 to 128$/,
      values: [
        [...otherTypes, 31, 129, 0, -64, 56.5, 1e21, Infinity, Number.NaN],
        ["64", "/64", "NaN", "", [64]],
      ].flat(),
    },
  ],
});

describeField({
  field: "trustedProxies",
  good: [1, 2, 10],
  bad: [
    {
      accepted: /^an integer from 1 to 10$/,
      values: [
        [...otherTypes, 0, 11, -1, 1.5, 1e21, Infinity, Number.NaN],
        ["1", "NaN", "", "10.0.0.0/8", ["10.0.0.0/8"]],
      ].flat(),
    },
  ],
});

describeField({
  field: "limits",
  good: [
    ["1/ms", "5/minute", "10 per 2 minutes", "100/hour; 5/second", "5/30s,9/1m|20/1h"],
    ["999999999999999/ms", "5/3650d", "1/month; 2/year", " 5 / MINUTE "],
    ["5/minute;", ["5/minute"], { limit: 5, window: "1m" }, [{ limit: 5, window: "1m", name: "x" }, "9/h"]],
    [{ limit: 100_000, window: "1d", strategy: "sliding-log" }],
    [{ limit: 5, window: "1m", strategy: "token-bucket", burst: 9 }],
    [Array.from({ length: 16 }, (_, index) => `5/${index + 1}s`)],
  ].flat(),
  bad: [
    {
      accepted: /^limits such as "10\/minute".* year\)$/,
      values: [null, "", " ", "5", "/minute", "ten an hour", ";", "5/minute;;"],
    },
    {
      accepted: /^limits such as "10\/minute".* year\), or an object$/,
      values: [true, 5, Number.NaN],
    },
    {
      accepted: /^from 1 to 16 limits$/,
      values: [
        [],
        Array.from({ length: 17 }, (_, index) => `5/${index + 1}s`),
        Array.from({ length: 17 }, (_, index) => `5/${index + 1}s`).join(";"),
      ],
    },
    {
      at: ".limit",
      accepted: /^an integer from 1 to 999999999999999$/,
      values: [
        ..."0/minute -5/minute 1.5/minute NaN/minute 1e3/minute 0x5/minute +5/minute".split(" "),
        ..."five/minute 1000000000000000/minute 99999999999999999/minute ٥/minute".split(" "),
        ...[0, -1, 1.5, Number.NaN, Infinity, "5", null].map((limit) => ({ limit, window: "1m" })),
        { window: "1m" },
      ],
    },
    {
      at: ".limit",
      accepted: /^fewer units or a shorter window: for the strategy sliding-window-counter, /,
      values: ["999999999999989/day", "99999999999/3650d", { limit: 1e14 + 1, window: "1d" }],
    },
    {
      at: ".limit",
      accepted: /^at most 100000 for the strategy sliding-log$/,
      values: [100_001, 999_999_999_999_999],
      of: (limit) => ({ limit, window: "1d", strategy: "sliding-log" }),
    },
    {
      at: ".window",
      accepted: /^a duration from 1 ms to 10 years .*"month" \(mo\) or "year" \(y\)$/,
      values: [
        ..."5/fortnight 5/0s 5/-1m 5/1.5h 5/3651d 5/2months 5/60 5/NaN 5/1h30m 5//".split(" "),
        ...[0, 60, null, "", "soon", ["1m"]].map((window) => ({ limit: 5, window })),
        { limit: 5 },
      ],
    },
    {
      at: "[1]",
      accepted: /^limits such as .*, or an object$/,
      values: [null, 5, true, [], ["5/minute"]],
      of: (value) => ["5/minute", value],
    },
    {
      at: "[1]",
      accepted: /^limits that differ from one another in window, strategy or options$/,
      values: ["5/minute", "9 per 60s", { limit: 1, window: "1m" }],
      of: (value) => ["5/minute", value],
    },
    {
      at: "[1].strategy",
      accepted: /^one of "fixed-window", .*"concurrency"$/,
      values: ["magic", "", null, 5, ["sliding-log"]],
      of: (strategy) => ["5/minute", { limit: 5, window: "1m", strategy }],
    },
    {
      at: "[0].burst",
      accepted: /^one of the fields limit, window, strategy, name/,
      values: [5, null, "viele"],
      of: (burst) => [{ limit: 5, window: "1m", strategy: "sliding-log", burst }],
    },
    {
      at: "[0].name",
      accepted: /^a name of 1 to 64 characters/,
      values: ["", "No Name", "1st", 5, null, "a".repeat(65)],
      of: (name) => [{ limit: 5, window: "1m", name }],
    },
  ],
});

describeField({
  field: "strategy",
  good: [
    ["fixed-window", "sliding-log", "sliding-window-counter", "sliding-buckets"],
    ["token-bucket", "leaky-bucket", "concurrency"],
  ].flat(),
  bad: [
    {
      accepted: /^one of "fixed-window", .*"concurrency"$/,
      values: [
        [...otherTypes, 5, "", "magic", "Fixed-Window", "fixed_window", "gcra-bucket"],
        ["constructor", ["sliding-log"]],
      ].flat(),
    },
  ],
});

const ofResponse = { from: "response-header:X-Cost", reserve: 2, max: 5 };
describeField({
  field: "cost",
  beside: { limits: "1000000/minute" },
  good: [
    [1, 5, 1_000_000],
    [1, 1_000_000].map((max) => ({ from: "header:X-Cost", max })),
    ["query:cost", "Query:filter[n]"].map((from) => ({ from, max: 9 })),
    [ofResponse, { ...ofResponse, reserve: 5 }, { ...ofResponse, max: 1_000_000 }],
  ].flat(),
  bad: [
    {
      accepted: /^an integer from 1 to 1000000; or \{ from = "header:<name>" or "query:<name>"/,
      values: [
        [...otherTypes, 0, -1, 1.5, 1_000_001, Number.NaN, Infinity, "5", "NaN", "", [5]],
        ["header:X-Price", { from: "header:X-Price" }, { max: 5 }, { from: null, max: 5 }],
        [0, -1, 1.5, 1_000_001, "5", null].map((max) => ({ from: "header:X-Price", max })),
        ["", "X-Price", "header:", "header:a b", "cookie:price", "jwt:price", "query:a b"].map((from) => ({
          from,
          max: 5,
        })),
        [0, 6, 1.5, "2", null, -1].map((reserve) => ({ ...ofResponse, reserve })),
        [
          { ...ofResponse, least: 1 },
          { from: "header:X-Price", max: 5, reserve: 1 },
        ],
      ].flat(),
    },
  ],
});

describeField({
  field: "count",
  good: [["200"], [200], ["2xx"], ["401", "5XX"], [100, 599], ["1xx", "2xx", "3xx"]].flatMap((statuses) => [
    { status: statuses },
    { exceptStatus: statuses },
  ]),
  bad: [
    {
      accepted: /^\{ status = \[\.\.\.\] \} or \{ exceptStatus = \[\.\.\.\] \} with statuses such/,
      values: [
        [...otherTypes, 5, "404-499", "", ["404"], { statuses: ["404"] }, { Status: ["404"] }],
        [
          { status: ["404"], exceptStatus: ["500"] },
          { status: ["404"], except: true },
        ],
        [null, "404", 404, [], {}, [null], [""], ["xxx"], ["6xx"], ["0xx"], ["40x"]].map((status) => ({ status })),
        [[99], [600], [404.5], [-404], [Number.NaN], ["NaN"], ["404 "], ["400-499"]].map((exceptStatus) => ({
          exceptStatus,
        })),
      ].flat(),
    },
  ],
});

describe("the problems of a policy", () => {
  it("a policy with several invalid fields reports each field, and none of the values", () => {
    const problems = reportedProblems({
      key: "canary1",
      cost: { from: "canary2", max: 0 },
      ban: { after: 0, within: "canary3", for: "1h", until: "canary4" },
      allow: ["canary5", "203.0.113.7", "canary6"],
      onDeny: { status: 200, contentType: "canary7" },
    });
    expect(problems.map(({ variable, field }) => `${variable} ${field}`)).toEqual(
      ["key", "cost", "ban.after", "ban.within", "ban.until", "onDeny.status"]
        .concat("onDeny.contentType")
        .map((field) => `POLICIES [0].${field}`),
    );
    expect(JSON.stringify(problems)).not.toContain("canary");
  });

  it("a policy in which every field is invalid reports every field", () => {
    const wrong = {
      name: "A",
      match: 1,
      onMissingKey: 1,
      ipv6Prefix: 1,
      trustedProxies: 0,
      limits: "x",
      strategy: "x",
      cost: 0,
      count: 1,
      overrides: 1,
      allow: 1,
      deny: ["x"],
      ban: "x",
      dryRun: 1,
      onError: 1,
      timeout: 1,
      objects: 1,
      shards: 0,
      locationHint: 1,
      jurisdiction: 1,
      durability: 1,
      denyCache: 1,
      consistency: 1,
      syncEvery: 1,
      maxDelay: 1,
      onDeny: 1,
      colour: 1,
    };
    const problems = reportedProblems(wrong);
    const places = Object.keys(wrong).map((field) => (field === "deny" ? "deny[0]" : field));
    expect(problems.map(({ field }) => field).toSorted()).toEqual(places.map((place) => `[0].${place}`).toSorted());
  });

  it.for(["__proto__", "constructor", "limit", "Name", "", "on_error"])(
    'a policy rejects the unknown field "%s" without quoting its value',
    (field) => {
      const own = JSON.parse(`{ ${JSON.stringify(field)}: "canary" }`) as object;
      const problems = reportedProblems({ ...own });
      expect(problems).toEqual([
        {
          variable: "POLICIES",
          field: `[0].${field}`.replace(/\.$/, ""),
          accepted: expect.stringMatching(/^one of the fields name, match, key, /),
        },
      ]);
      expect(JSON.stringify(problems)).not.toContain("canary");
    },
  );
});
