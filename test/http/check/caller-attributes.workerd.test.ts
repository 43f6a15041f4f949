/** The `attributes` of a check, to which `overrides`, `allow` and `deny` apply as in the proxy. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Headgate, headgate, token } from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) }));
afterEach(() => void vi.useRealTimers());

const policy = {
  name: "p",
  key: "header:x-api-key",
  limits: "1/hour",
  strategy: "fixed-window",
  overrides: [
    { when: "jwt:plan=pro", limits: "5/hour" },
    { when: "country=DE", limits: "7/hour" },
    { when: "ip=2001:db8::/32", limits: "9/hour" },
    { when: "asn=3320", limits: "11/hour" },
    { when: "jwt:beta=true", limits: "13/hour" },
    { key: "198.51.100.0/24", limits: "15/hour" },
  ],
  allow: ["192.0.2.0/24"],
  deny: ["203.0.113.66", "stolen"],
};

const own = (): Headgate => headgate({ POLICIES: [policy], JWT_KEY: "s".repeat(32) });

interface Answer {
  readonly allowed: boolean;
  readonly reason: string;
  readonly limits: { limit: number; remaining: number }[];
}

/** Describes the decision on a check, such as `allowed by limit of 5`. */
async function decisionOf(attributes: unknown, { check }: Headgate = own(), fields: object = {}): Promise<string> {
  const response = await check("POST", "/check", { key: "k", attributes, ...fields });
  expect(response.status).toBe(200);
  const { allowed, reason, limits } = await response.json<Answer>();
  return `${allowed ? "allowed" : "denied"} by ${reason} of ${limits[0]?.limit}`;
}

async function errorsOf(response: Response): Promise<{ field: string; accepted: string }[]> {
  expect(response.status).toBe(422);
  const { errors } = await response.json<{ errors: { field: string; accepted: string }[] }>();
  return errors;
}

describe("a check with attributes", () => {
  it.for<[unknown, string]>([
    [undefined, "allowed by limit of 1"],
    [{}, "allowed by limit of 1"],
    [{ "jwt:plan": "pro" }, "allowed by limit of 5"],
    [{ "jwt:plan": ["free", "pro"] }, "allowed by limit of 5"],
    [{ "jwt:plan": "PRO" }, "allowed by limit of 1"],
    [{ "jwt:plan": "pro", country: "DE" }, "allowed by limit of 5"],
    [{ country: "DE" }, "allowed by limit of 7"],
    [{ country: "de" }, "allowed by limit of 7"],
    [{ country: "FR" }, "allowed by limit of 1"],
    [{ ip: "2001:DB8:0::1" }, "allowed by limit of 9"],
    [{ asn: 3320 }, "allowed by limit of 11"],
    [{ asn: "AS3320" }, "allowed by limit of 11"],
    [{ "jwt:beta": true }, "allowed by limit of 13"],
    [{ "jwt:beta": "true" }, "allowed by limit of 13"],
    [{ "jwt:beta": false }, "allowed by limit of 1"],
    [{ ip: "::ffff:198.51.100.9" }, "allowed by limit of 15"],
    [{ ip: "192.0.2.9" }, "allowed by allow of 1"],
    [{ ip: "203.0.113.66" }, "denied by deny of 1"],
    [{ ip: "203.0.113.67", colo: "FRA", continent: "EU" }, "allowed by limit of 1"],
  ])("a check with attributes %j is %s", async ([attributes, expected]) => {
    expect(await decisionOf(attributes)).toBe(expected);
  });

  it("a check charges the same key with any attributes", async () => {
    const one = own();
    await decisionOf({ "jwt:plan": "pro" }, one, { cost: 3 });
    expect(await decisionOf({ country: "DE" }, one, { cost: 4 })).toBe("allowed by limit of 7");
    expect(await decisionOf({}, one)).toBe("denied by limit of 1");
    expect(await decisionOf({}, one, { key: "other" })).toBe("allowed by limit of 1");
  });

  it("an attribute that is also a key part must have the value that the key has", async () => {
    const parts = {
      ...policy,
      key: ["ip", "host", "country", "header:x-a"],
      overrides: [],
      deny: [],
    };
    const { check } = headgate({ POLICIES: [{ ...parts, allow: ["2001:db8::7"] }] });
    const key = ["2001:db8::1", "APP.example.", "DE", "x"];
    const same = { ip: "2001:db8::7", host: "app.EXAMPLE", country: "de", "header:X-A": ["x"] };
    const response = await check("POST", "/check", { key, attributes: same });
    expect(await response.json()).toMatchObject({ reason: "allow" });
    for (const [name, value] of [
      ["ip", "2001:db8:0:1::1"],
      ["host", "other.example"],
      ["country", "FR"],
      ["header:X-A", ["x", "y"]],
    ] as const) {
      // oxlint-disable-next-line no-await-in-loop
      const contradicting = await check("POST", "/check", { key, attributes: { [name]: value } });
      const part = name.toLowerCase();
      // oxlint-disable-next-line no-await-in-loop
      expect(await errorsOf(contradicting)).toEqual([
        {
          field: `attributes.${part}`,
          accepted: `no value, or the value that key has for ${part}`,
        },
      ]);
    }
  });

  it("attributes apply to looks, batches and reservations alike", async () => {
    const { check } = own();
    const attributes = { "jwt:plan": "pro" };
    const text = encodeURIComponent(JSON.stringify(attributes));
    const looked = await check("GET", `/check?key=k&attributes=${text}`);
    expect(await looked.json()).toMatchObject({ limits: [{ limit: 5 }] });
    const reserving = { key: "k", ttlMs: 1_000, attributes };
    const reserved = await check("POST", "/check/reserve", reserving);
    expect(await reserved.json()).toMatchObject({ limits: [{ limit: 5, remaining: 4 }] });
    const checks = [{ key: "k", attributes }, { key: "k" }, { key: "k", attributes: { ip: "192.0.2.1" } }];
    const batch = await check("POST", "/check/batch", { checks });
    expect(await batch.json()).toMatchObject({
      results: [
        { reason: "limit", limits: [{ limit: 5, remaining: 3 }] },
        { reason: "limit", allowed: false, limits: [{ limit: 1 }] },
        { reason: "allow" },
      ],
    });
  });

  it("a tenant's check with attributes charges the tenant's own keys", async () => {
    const { send, check } = headgate({
      POLICIES: [policy],
      JWT_KEY: "s".repeat(32),
      CHECK_TOKENS: [{ token }, { token: "the-tenants-token", tenant: "acme" }],
    });
    const body = { key: "k", cost: 5, attributes: { "jwt:plan": "pro" } };
    const response = await send("/check", {
      method: "POST",
      headers: { Authorization: "Bearer the-tenants-token", "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    expect(await response.json()).toMatchObject({ allowed: true, limits: [{ remaining: 0 }] });
    const looked = await check("GET", "/check?key=k");
    expect(await looked.json()).toMatchObject({ limits: [{ remaining: 1 }] });
  });
});

describe("invalid attributes", () => {
  const names = expect.stringMatching(/^the name of a key part, at most once: "ip"/) as string;
  const value = expect.stringMatching(/^a well-formed text of 1 to 1024 UTF-8 bytes/) as string;
  const whole = expect.stringMatching(/^an object of up to 16 attributes such as/) as string;
  const many = Object.fromEntries(Array.from({ length: 17 }, (_, index) => [`jwt:c${index}`, "v"]));
  const values = Array.from({ length: 65 }, () => "v");

  it.for<[unknown, string, string]>([
    ["pro", "attributes", whole],
    [["ip"], "attributes", whole],
    [null, "attributes", whole],
    [many, "attributes", whole],
    [{ plan: "pro" }, "attributes.plan", names],
    [{ global: "x" }, "attributes.global", names],
    [{ "jwt:": "x" }, "attributes.jwt:", names],
    [{ " ip": "192.0.2.1" }, "attributes. ip", names],
    [{ "JWT:plan": "pro" }, "attributes.JWT:plan", names],
    [{ "header:X-A": "1", "header:x-a": "2" }, "attributes.header:x-a", names],
    [{ constructor: "x" }, "attributes.constructor", names],
    [{ ip: "192.0.2.0/24" }, "attributes.ip", "an IPv4 or IPv6 address"],
    [{ ip: ["192.0.2.1"] }, "attributes.ip", "an IPv4 or IPv6 address"],
    [{ country: "" }, "attributes.country", value],
    [{ country: ["DE", "FR"] }, "attributes.country", value],
    [{ country: null }, "attributes.country", value],
    [{ "jwt:plan": { name: "pro" } }, "attributes.jwt:plan", value],
    [{ "jwt:plan": [] }, "attributes.jwt:plan", value],
    [{ "jwt:plan": values }, "attributes.jwt:plan", value],
    [{ "jwt:plan": [["pro"]] }, "attributes.jwt:plan", value],
    [{ "jwt:plan": "\ud800" }, "attributes.jwt:plan", value],
    [{ "jwt:plan": "ü".repeat(513) }, "attributes.jwt:plan", value],
    [{ "jwt:sub": 2 ** 53 }, "attributes.jwt:sub", value],
  ])("attributes %j are answered with 422 and the field %s", async ([attributes, field, accepted]) => {
    const { check } = own();
    const response = await check("POST", "/check", { key: "k", attributes });
    expect(await errorsOf(response)).toEqual([{ field, accepted }]);
    const looked = await check("GET", "/check?key=k");
    expect(await looked.json()).toMatchObject({ limits: [{ remaining: 1 }] });
  });

  it("the problem of a batch names each invalid attribute by the position of its check", async () => {
    const { check } = own();
    const attributes = { ip: "x", plan: "pro", "jwt:plan": "pro" };
    const checks = [{ key: "k" }, { key: "k", cost: -1, attributes }];
    const fields = (await errorsOf(await check("POST", "/check/batch", { checks }))).map(({ field }) => field);
    expect(fields).toEqual(["checks[1].cost", "checks[1].attributes.ip", "checks[1].attributes.plan"]);
  });

  it("a check accepts 16 attributes, 64 values and 1,024 bytes", async () => {
    const { "jwt:c16": _, ...sixteen } = many;
    const longest = { ...sixteen, "jwt:c0": values.slice(1), "jwt:c1": "ü".repeat(512) };
    expect(await decisionOf(longest)).toBe("allowed by limit of 1");
    expect(await decisionOf({ "jwt:sub": 2 ** 53 - 1, "jwt:score": -1.5 })).toMatch(/^allowed/);
  });

  it("a check with both attributes and ad hoc limits is answered with 422", async () => {
    const body = { key: "k", limits: "1/minute", attributes: { ip: "192.0.2.1" } };
    const errors = await errorsOf(await own().check("POST", "/check", body));
    expect(errors).toEqual([{ field: "attributes", accepted: "no value together with limits" }]);
  });

  it.for([
    ["GET", "/check?key=k&attributes=pro", "attributes"],
    ["GET", "/check?key=k&attributes=%7B%22ip%22:1%7D", "attributes.ip"],
    ["GET", "/check?key=k&attributes=%7B%7D&attributes=%7B%7D", "attributes"],
    ["GET", `/check?key=k&attributes=${"[".repeat(60)}`, "attributes"],
    ["DELETE", "/check?key=k&attributes=%7B%7D", "attributes"],
  ] as const)("invalid attributes in a query are answered with 422: %s %s", async ([method, path, field]) => {
    const [error] = await errorsOf(await own().check(method, path));
    expect(error?.field).toBe(field);
  });
});

it("attributes in a query that are nested too deep are answered with 400", async () => {
  const { check } = own();
  for (const path of ["/check?key=k", "/check/forward?"]) {
    // oxlint-disable-next-line no-await-in-loop
    const response = await check("GET", `${path}&attributes=${"[".repeat(9_000)}`);
    // oxlint-disable-next-line no-await-in-loop
    expect(await response.json()).toMatchObject({ status: 400 });
  }
});

describe("GET /check/forward with attributes", () => {
  const forward = { ...policy, key: "ip", deny: [], allow: [] };
  const ask = ({ send }: Headgate, attributes: object): Promise<Response> =>
    send(`/check/forward?attributes=${encodeURIComponent(JSON.stringify(attributes))}`, {
      headers: {
        Authorization: `Bearer ${token}`,
        "X-Original-Method": "GET",
        "X-Original-URI": "/",
        "X-Forwarded-For": "203.0.113.7",
      },
    });

  it.for<[object, number]>([
    [{}, 1],
    [{ country: "de" }, 7],
    [{ asn: "AS3320" }, 11],
    [{ "jwt:plan": "pro" }, 5],
    [{ "jwt:plan": ["free", "pro"] }, 5],
    [{ "jwt:beta": true }, 13],
  ])(
    "GET /check/forward applies the attributes that the gateway sends: with %j the limit is %d/hour",
    async ([attributes, limit]) => {
      const gateway = headgate({ POLICIES: [forward], JWT_KEY: "s".repeat(32) });
      const response = await ask(gateway, attributes);
      expect([response.status, response.headers.get("RateLimit-Policy")]).toEqual([
        204,
        expect.stringContaining(`q=${limit};`),
      ]);
    },
  );

  it("GET /check/forward charges a key that consists of the gateway's attributes", async () => {
    const keyed = { ...forward, overrides: [], key: ["country", "jwt:sub"], onMissingKey: "deny" };
    const gateway = headgate({ POLICIES: [keyed], JWT_KEY: "s".repeat(32) });
    const stated = { country: "DE", "jwt:sub": "u1" };
    const statuses = [];
    for (const attributes of [stated, stated, { ...stated, "jwt:sub": "u2" }, { country: "DE" }]) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push((await ask(gateway, attributes)).status);
    }
    expect(statuses).toEqual([204, 429, 204, 403]);
    const looked = await gateway.check("GET", "/check?key=DE&key=u1");
    expect(await looked.json()).toMatchObject({ limits: [{ remaining: 0 }] });
  });

  it.for(["ip", "host", "path", "method", "header:x-a", "cookie:a", "query:a", "plan"])(
    "GET /check/forward rejects the attribute %s, which the described request has itself",
    async (name) => {
      const gateway = headgate({ POLICIES: [forward], JWT_KEY: "s".repeat(32) });
      const errors = await errorsOf(await ask(gateway, { [name]: "192.0.2.1" }));
      expect(errors).toEqual([
        {
          field: `attributes.${name}`,
          accepted: expect.stringMatching(/^one of "country", "continent"/) as string,
        },
      ]);
    },
  );
});
