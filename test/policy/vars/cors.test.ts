import { describe, expect, it } from "vitest";
import { configOf, problemsIn, whole } from "../parsed.ts";

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
  ])("CORS_ORIGINS = %j allows %j", ([written, expected]) => {
    expect(originsOf(written)).toEqual(expected);
  });

  it("CORS_ORIGINS accepts 64 origins, and not 65", () => {
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
  ])("CORS_ORIGINS rejects %j", ([CORS_ORIGINS]) => {
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
  ])("PREFLIGHT_LIMITS = %j gives the limits %j", ([written, expected]) => {
    expect(limitsOf(written)).toEqual(expected);
  });

  it.for<[unknown, object]>([
    [{ limits: "5/second" }, { ipv6Prefix: 64, trustedProxies: null }],
    ['{"limits":["5/second"],"trustedProxies":2}', { ipv6Prefix: 64, trustedProxies: 2 }],
    [
      { limits: "5/second", ipv6Prefix: 48 },
      { ipv6Prefix: 48, trustedProxies: null },
    ],
  ])("PREFLIGHT_LIMITS = %j sets the address fields of the preflight policy", ([PREFLIGHT_LIMITS, addresses]) => {
    expect(limitsOf(PREFLIGHT_LIMITS)).toEqual(["5 per 1000 sliding-window-counter"]);
    expect(configOf({ PREFLIGHT_LIMITS }).preflights?.addresses).toEqual(addresses);
  });

  it("the preflight policy has the key ip, sharded objects and a name that no policy can have", () => {
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
  ])("PREFLIGHT_LIMITS rejects %j: %s", ([PREFLIGHT_LIMITS, field]) => {
    const problems = problemsIn({ ...whole, PREFLIGHT_LIMITS });
    expect(problems.map((each) => [each.variable, each.field])).toEqual([["PREFLIGHT_LIMITS", field]]);
  });

  it('PREFLIGHT_LIMITS = "off" removes the limits of preflights', () => {
    expect(configOf({ PREFLIGHT_LIMITS: "off" }).preflights).toBeNull();
    expect(problemsIn({ ...whole, PREFLIGHT_LIMITS: "of" })).toEqual([
      expect.objectContaining({ accepted: expect.stringMatching(/; or "off"$/) }),
    ]);
  });
});

describe("the trusted proxies of preflights", () => {
  const policy = (name: string, fields: object): object => ({ name, limits: "1/s", ...fields });
  const configured = (POLICIES: object[], PREFLIGHT_LIMITS?: unknown) => {
    const { preflights, warnings } = configOf({ POLICIES, PREFLIGHT_LIMITS });
    return [preflights?.addresses.trustedProxies, warnings.filter((text) => /PREFLIGHT/.test(text))];
  };

  it("preflights use the trustedProxies of policies with ip in their key, if these policies agree", () => {
    const [one, two] = [{ trustedProxies: 1 }, { trustedProxies: 2 }];
    expect(configured([policy("a", one), policy("b", { ...one, key: ["ip", "path"] })])).toEqual([1, []]);
    expect(configured([policy("a", {}), policy("b", {})])).toEqual([null, []]);
    // Policies with other keys determine trustedProxies only if no policy has the key ip.
    expect(configured([policy("a", one), policy("b", { ...two, key: "global" })])).toEqual([1, []]);
    expect(configured([policy("b", { ...two, key: "header:a", onMissingKey: "ip" })])).toEqual([2, []]);
    expect(configured([policy("a", one)], { limits: "5/s", ipv6Prefix: 48 })).toEqual([1, []]);
  });

  it("trustedProxies in PREFLIGHT_LIMITS takes precedence over that of policies", () => {
    const policies = [policy("a", { trustedProxies: 1 }), policy("b", {})];
    expect(configured(policies, { limits: "5/s", trustedProxies: 3 })).toEqual([3, []]);
    expect(configured(policies, "off")).toEqual([undefined, []]);
  });

  it("if policies differ in trustedProxies, preflights use the connecting address, and a warning is given", () => {
    const policies = [policy("a", { trustedProxies: 1 }), policy("b", {})];
    for (const written of [undefined, "5/s", { limits: "5/s" }]) {
      expect(configured(policies, written)).toEqual([
        null,
        [expect.stringMatching(/^PREFLIGHT_LIMITS: .*\(1, none\).*trustedProxies = 1 }$/)],
      ]);
    }
  });
});
