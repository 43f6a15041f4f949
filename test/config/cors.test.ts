import { describe, expect, it } from "vitest";
import { configOf, problemsIn, whole } from "./harness.ts";

const app = "https://app.example.com";

describe("CORS_ORIGINS", () => {
  const originsOf = (CORS_ORIGINS: unknown): unknown => {
    const { corsOrigins } = configOf({ CORS_ORIGINS });
    return corsOrigins.kind === "list" ? [...corsOrigins.origins] : corsOrigins.kind;
  };

  it.for<[unknown, unknown]>([
    [undefined, "none"],
    [null, "none"],
    ["", "none"],
    ["*", "any"],
    [app, [app]],
    [
      [app, "http://localhost:3000"],
      [app, "http://localhost:3000"],
    ],
    [`["${app}","https://[2001:db8::1]:8443"]`, [app, "https://[2001:db8::1]:8443"]],
    [[app, app], [app]],
    [["https://xn--bcher-kva.example"], ["https://xn--bcher-kva.example"]],
  ])("of %j are %j", ([written, expected]) => {
    expect(originsOf(written)).toEqual(expected);
  });

  it("may be 64, and no more", () => {
    const origins = Array.from({ length: 65 }, (_, index) => `https://a${index}.example`);
    expect(originsOf(origins.slice(1))).toHaveLength(64);
    expect(problemsIn({ ...whole, CORS_ORIGINS: origins })).toHaveLength(1);
  });

  it.for<[unknown]>([
    ["app.example.com"],
    [`${app}/`],
    [`${app}/path`],
    ["https://App.example.com"],
    [`${app}:443`],
    ["https://*.example.com"],
    ["null"],
    ["https://bücher.example"],
    [`${app}, http://localhost`],
    ["file:///"],
    [`blob:${app}`],
    [" "],
    ["**"],
    [5],
    [true],
    [{}],
    [[]],
    [[app, "*"]],
    [[app, 5]],
    [[[app]]],
    [`["${app}"`],
  ])("may not be %j", ([CORS_ORIGINS]) => {
    expect(problemsIn({ ...whole, CORS_ORIGINS })).toEqual([
      {
        variable: "CORS_ORIGINS",
        field: "",
        value: CORS_ORIGINS,
        accepted: expect.stringMatching(/^"\*", or up to 64 origins such as/),
      },
    ]);
  });
});

describe("PREFLIGHT_LIMITS", () => {
  const limitsOf = (PREFLIGHT_LIMITS: unknown): unknown =>
    configOf({ PREFLIGHT_LIMITS }).preflights?.limits.map(
      ({ limit, windowMs, strategy }) => `${limit} per ${windowMs} ${strategy}`,
    );

  it.for<[unknown, string[]]>([
    [undefined, ["600 per 60000 sliding-window-counter"]],
    ["", ["600 per 60000 sliding-window-counter"]],
    ["5/second", ["5 per 1000 sliding-window-counter"]],
    [
      ["5/second", { limit: 50, window: "1h", strategy: "fixed-window" }],
      ["5 per 1000 sliding-window-counter", "50 per 3600000 fixed-window"],
    ],
    ['[{"limit":7,"window":"1m"}]', ["7 per 60000 sliding-window-counter"]],
  ])("of %j are %j", ([written, expected]) => {
    expect(limitsOf(written)).toEqual(expected);
  });

  it.for<[unknown, object]>([
    [{ limits: "5/second" }, { ipv6Prefix: 64, trustedProxies: null }],
    ['{"limits":["5/second"],"trustedProxies":2}', { ipv6Prefix: 64, trustedProxies: 2 }],
    [
      { limits: "5/second", ipv6Prefix: 48 },
      { ipv6Prefix: 48, trustedProxies: null },
    ],
  ])("say in %j by which address, as policies do", ([PREFLIGHT_LIMITS, addresses]) => {
    expect(limitsOf(PREFLIGHT_LIMITS)).toEqual(["5 per 1000 sliding-window-counter"]);
    expect(configOf({ PREFLIGHT_LIMITS }).preflights?.addresses).toEqual(addresses);
  });

  it("are by address, in shards, and of no policy's name", () => {
    const { preflights, policies } = configOf({});
    expect(preflights).toMatchObject({ key: [{ kind: "ip" }], objects: { shards: 32 } });
    expect(policies.map(({ name }) => name)).not.toContain(preflights?.name);
  });

  it.for<[unknown, string]>([
    ["0/second", "limit"],
    ["soon", ""],
    [[], ""],
    [5, ""],
    [true, ""],
    [{ limit: 5 }, "window"],
    [["5/second", { limit: 0, window: "1m" }], "[1].limit"],
    [{ limit: 5, window: "1m", burst: 9 }, "burst"],
    [{ limits: "soon" }, "limits"],
    [{ limits: "5/second", key: "global" }, "key"],
    [{ limits: "5/second", trustedProxies: 0 }, "trustedProxies"],
  ])("may not be %j: %s", ([PREFLIGHT_LIMITS, field]) => {
    const problems = problemsIn({ ...whole, PREFLIGHT_LIMITS });
    expect(problems.map((each) => [each.variable, each.field])).toEqual([
      ["PREFLIGHT_LIMITS", field],
    ]);
  });

  it('may be "off": preflights have no limits then', () => {
    expect(configOf({ PREFLIGHT_LIMITS: "off" }).preflights).toBeNull();
    expect(problemsIn({ ...whole, PREFLIGHT_LIMITS: "of" })).toEqual([
      expect.objectContaining({ accepted: expect.stringMatching(/; or "off"$/) }),
    ]);
  });
});

describe("the address that preflights are counted by", () => {
  const policy = (name: string, fields: object): object => ({ name, limits: "1/s", ...fields });
  const configured = (POLICIES: object[], PREFLIGHT_LIMITS?: unknown) => {
    const { preflights, warnings } = configOf({ POLICIES, PREFLIGHT_LIMITS });
    return [
      preflights?.addresses.trustedProxies,
      warnings.filter((text) => /PREFLIGHT/.test(text)),
    ];
  };

  it("is that of the policies by address, where they agree", () => {
    const [one, two] = [{ trustedProxies: 1 }, { trustedProxies: 2 }];
    expect(configured([policy("a", one), policy("b", { ...one, key: ["ip", "path"] })])).toEqual([
      1,
      [],
    ]);
    expect(configured([policy("a", {}), policy("b", {})])).toEqual([null, []]);
    // A policy by another key says nothing of how addresses are found, unless it is the only one that does.
    expect(configured([policy("a", one), policy("b", { ...two, key: "global" })])).toEqual([1, []]);
    expect(configured([policy("b", { ...two, key: "header:a", onMissingKey: "ip" })])).toEqual([
      2,
      [],
    ]);
    expect(configured([policy("a", one)], { limits: "5/s", ipv6Prefix: 48 })).toEqual([1, []]);
  });

  it("is that of PREFLIGHT_LIMITS first", () => {
    const policies = [policy("a", { trustedProxies: 1 }), policy("b", {})];
    expect(configured(policies, { limits: "5/s", trustedProxies: 3 })).toEqual([3, []]);
    expect(configured(policies, "off")).toEqual([undefined, []]);
  });

  it("is the connecting one, with a warning, where policies disagree", () => {
    const policies = [policy("a", { trustedProxies: 1 }), policy("b", {})];
    for (const written of [undefined, "5/s", { limits: "5/s" }]) {
      expect(configured(policies, written)).toEqual([
        null,
        [expect.stringMatching(/^PREFLIGHT_LIMITS: .*\(1, none\).*trustedProxies = 1 }$/)],
      ]);
    }
  });
});
