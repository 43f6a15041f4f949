import { listDurableObjectIds, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { from, headgate, type Headgate, statusOf } from "../harness.ts";

type Init = NonNullable<Parameters<Headgate["send"]>[1]>;
type Asked = [path: string, init?: Init];

const strategy = "fixed-window";
const visitor = from("203.0.113.7");

/** A Headgate with one policy, which lets in one request per hour and key. */
const one = (fields: object): Headgate =>
  headgate({ POLICIES: [{ name: "a", limits: "1/hour", strategy, ...fields }] });

/** The statuses of requests, one after the other. */
async function statusesOf({ send }: Headgate, requests: readonly Asked[]): Promise<number[]> {
  const statuses = [];
  for (const [path, init] of requests) {
    // oxlint-disable-next-line no-await-in-loop
    statuses.push(await statusOf(send(path, init)));
  }
  return statuses;
}

const withHeaders = (headers: Record<string, string>): Asked => ["/", { headers }];

describe("a part of a key", () => {
  it.for<[string, Asked[], number[]]>([
    [
      "cookie:sid",
      ["sid=a", "x=1; sid=b", "sid=a; x=2", 'sid="a"', "sid=%61", "SID=a"].map((Cookie) =>
        withHeaders({ Cookie }),
      ),
      [200, 200, 429, 429, 429, 200],
    ],
    [
      "query:key",
      [["/?key=a"], ["/?key=b"], ["/other?x=1&key=a"], ["/?key=%61"], ["/?KEY=a"]],
      [200, 200, 429, 429, 200],
    ],
    [
      "method",
      [["/"], ["/", { method: "PUT" }], ["/x"], ["/", { method: "put" }]],
      [200, 200, 429, 429],
    ],
    [
      "host",
      [
        ["https://a.example/"],
        ["https://b.example/"],
        ["https://A.example./x"],
        ["https://a.example:8443/"],
      ],
      [200, 200, 429, 429],
    ],
    [
      "path, method",
      [["/a"], ["/b"], ["/a", { method: "PUT" }], ["/x/..//%61/"]],
      [200, 200, 200, 429],
    ],
  ])("%s tells requests apart", async ([key, requests, expected]) => {
    expect(await statusesOf(one({ key }), requests)).toEqual(expected);
  });

  it.for<["country" | "continent" | "asn" | "colo", unknown, unknown]>([
    ["country", "DE", "FR"],
    ["continent", "EU", "AS"],
    ["asn", 3320, 13_335],
    ["colo", "FRA", "CDG"],
  ])("%s tells requests apart by what Cloudflare knows", async ([key, here, there]) => {
    const at = (value: unknown): Asked => [
      "/",
      { cf: { [key]: value } as unknown as IncomingRequestCfProperties },
    ];
    const requests = [at(here), at(there), at(here), at(undefined), ["/"] as Asked];
    expect(await statusesOf(one({ key }), requests)).toEqual([200, 200, 429, 200, 429]);
  });

  it("is what /check names, text by text", async () => {
    const { send, check } = headgate({
      POLICIES: [{ name: "a", key: ["method", "host", "cookie:sid"], limits: "3/hour", strategy }],
    });
    await statusOf(send("https://h.example./", { method: "put", headers: { Cookie: "sid=A" } }));
    const remaining = async (...key: string[]): Promise<unknown> => {
      const query = new URLSearchParams(key.map((each) => ["key", each]));
      const response = await check("GET", `/check?${query.toString()}`);
      return (await response.json<{ limits: { remaining: number }[] }>()).limits[0]?.remaining;
    };
    expect(await remaining("put", "H.Example", "A")).toBe(2);
    expect(await remaining("PUT", "h.example", "a")).toBe(3);
  });
});

describe("K04: a thousand API keys from one address", () => {
  it("are let in no oftener than the address may", async () => {
    const { send } = headgate({
      POLICIES: [
        { name: "each", key: "header:X-Api-Key", limits: "5/hour", objects: "sharded", shards: 4 },
        { name: "address", key: "ip", limits: "20/hour", strategy: "sliding-log" },
      ],
    });
    let admitted = 0;
    for (let batch = 0; batch < 20; batch++) {
      const requests = Array.from({ length: 50 }, () => {
        const headers = { ...visitor.headers, "X-Api-Key": crypto.randomUUID() };
        return statusOf(send("/", { headers }));
      });
      // oxlint-disable-next-line no-await-in-loop
      const statuses = await Promise.all(requests);
      admitted += statuses.filter((status) => status === 200).length;
    }
    expect(admitted).toBe(20);
  });
});

describe("K05: a request without its key", () => {
  const key = "header:X-Api-Key";
  const named = withHeaders({ "X-Api-Key": "a" });
  const nameless = withHeaders({ ...visitor.headers });
  const other = withHeaders({ ...from("203.0.113.8").headers, "X-Api-Key": "" });

  it("shares one limit with all others, unless told otherwise", async () => {
    const requests = [nameless, other, named, named];
    expect(await statusesOf(one({ key }), requests)).toEqual([200, 429, 200, 429]);
  });

  it.for(["ip", "cookie:a", "query:a", "country", "continent", "asn", "colo"])(
    "is limited when it lacks %s",
    async (part) => {
      expect(await statusesOf(one({ key: part }), [["/"], ["/x"], ["/y"]])).toEqual([
        200, 429, 429,
      ]);
    },
  );

  it('is charged to its address: onMissingKey = "ip"', async () => {
    const policy = one({ key, onMissingKey: "ip" });
    const requests = [nameless, nameless, other, other, named, ["/"] as Asked, ["/x"] as Asked];
    expect(await statusesOf(policy, requests)).toEqual([200, 429, 200, 429, 200, 200, 429]);
    // An address that poses as a key is another key.
    const posing = await statusesOf(policy, [withHeaders({ "X-Api-Key": "203.0.113.7" })]);
    expect(posing).toEqual([200]);
  });

  it("is decided with other policies of its address in one call, all or nothing", async () => {
    const { send } = headgate({
      POLICIES: [
        { name: "named", key, onMissingKey: "ip", limits: "1/hour", strategy },
        { name: "address", key: "ip", limits: "5/hour", strategy },
      ],
    });
    expect((await send(...nameless)).headers.get("RateLimit")).toBe(
      '"named";r=0;t=3600, "address";r=4;t=3600',
    );
    const denied = await send(...nameless);
    expect(denied.headers.get("RateLimit")).toBe('"named";r=0;t=3600');
    const apart = await send(...withHeaders({ ...visitor.headers, "X-Api-Key": "a" }));
    expect(apart.headers.get("RateLimit")).toBe('"named";r=0;t=3600, "address";r=3;t=3600');
  });

  it('is refused: onMissingKey = "deny" tells which part, charges nothing and asks nobody', async () => {
    const { send, check } = headgate({
      POLICIES: [
        { name: "address", key: "ip", limits: "5/hour", strategy },
        { name: "a", key: [key, "cookie:sid"], onMissingKey: "deny", limits: "5/hour" },
        { name: "b", key: ["cookie:sid", "path"], onMissingKey: "deny", limits: "5/hour" },
      ],
    });
    const denied = await send(...withHeaders({ ...visitor.headers, "X-Api-Key": "canary" }));
    expect([denied.status, denied.headers.get("Content-Type")]).toEqual([
      403,
      "application/problem+json",
    ]);
    expect(denied.headers.has("RateLimit")).toBe(false);
    const text = await denied.text();
    expect(text).not.toContain("canary");
    expect(JSON.parse(text)).toEqual({
      type: "about:blank",
      title: "Forbidden",
      status: 403,
      detail: "The request is missing a required key part: cookie:sid.",
      reason: "deny",
      missing_parts: ["cookie:sid"],
    });
    const look = await check("GET", "/check?policy=address&key=203.0.113.7");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 5 }] });
  });

  it('is passed over: onMissingKey = "skip" leaves it to other policies, or to none', async () => {
    const policy = one({ key, onMissingKey: "skip" });
    expect(await statusesOf(policy, [nameless, nameless, named, named])).toEqual([
      200, 200, 200, 429,
    ]);
    const response = await policy.send(...nameless);
    expect([response.headers.has("RateLimit"), response.headers.has("RateLimit-Policy")]).toEqual([
      false,
      false,
    ]);
  });
});

describe("K06: keys of several parts", () => {
  it("are one just when all parts are, with any separator, empty or absent", async () => {
    const piece = fc.constantFrom("a", ":", ";", '"', "\\", "|", "[", "]", "/", "null", "=");
    const value = fc.oneof(
      fc.constant(null),
      fc.string({ unit: piece, minLength: 1, maxLength: 3 }).filter((text) => text.trim() !== ""),
    );
    const pairs = fc.sample(fc.tuple(value, value), { numRuns: 40, seed: 6 });
    const policy = one({ key: "header:a, header:b", objects: "sharded", shards: 2 });
    const seen = new Set<string>();
    for (const [a, b] of pairs) {
      const headers = { ...(a !== null && { a }), ...(b !== null && { b }) };
      // oxlint-disable-next-line no-await-in-loop
      const [status] = await statusesOf(policy, [withHeaders(headers)]);
      const name = JSON.stringify([a, b]);
      expect([name, status]).toEqual([name, seen.has(name) ? 429 : 200]);
      seen.add(name);
    }
  });
});

describe("K08: what a key is made of", () => {
  it("is in no name, storage, log, header or body of ours", async () => {
    const canary = "canary-5f2b";
    const logs = (["log", "info", "warn", "error", "debug"] as const).map((level) =>
      vi.spyOn(console, level).mockReturnValue(undefined),
    );
    const { send } = headgate({
      POLICIES: [
        {
          name: "a",
          key: ["header:X-Api-Key", "cookie:sid", "query:key", "path"],
          limits: "1/hour",
          strategy,
        },
        {
          name: "b",
          key: "header:absent",
          onMissingKey: "deny",
          match: { path: "/deny/*" },
          limits: "1/s",
        },
      ],
    });
    const headers = { ...visitor.headers, "X-Api-Key": canary, Cookie: `sid=${canary}` };
    const ask = (path: string): Promise<Response> => send(`${path}?key=${canary}`, { headers });
    const admitted = await ask(`/${canary}`);
    await admitted.body?.cancel();
    const told: string[] = [JSON.stringify([...admitted.headers])];
    for (const path of [`/${canary}`, `/deny/${canary}`]) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await ask(path);
      expect([429, 403]).toContain(response.status);
      // oxlint-disable-next-line no-await-in-loop
      told.push(JSON.stringify([...response.headers]), await response.text());
    }
    for (const id of await listDurableObjectIds(env.RATE_LIMITER)) {
      // oxlint-disable-next-line no-await-in-loop
      await runInDurableObject(env.RATE_LIMITER.get(id), async (_, state) => {
        const rows = await state.storage.list();
        told.push(String(state.id.name), JSON.stringify([...rows]));
      });
    }
    told.push(JSON.stringify(logs.flatMap((log) => log.mock.calls)));
    vi.restoreAllMocks();
    expect(told.length).toBeGreaterThan(7);
    for (const secret of [canary, "203.0.113.7"]) expect(told.join("\n")).not.toContain(secret);
  });
});

describe("K10: a key that stands twice", () => {
  it.for<[string, (random: string) => Asked]>([
    ["header:X-Api-Key", (random) => withHeaders({ "X-Api-Key": `real, ${random}` })],
    ["header:X-Api-Key", (random) => withHeaders({ "X-Api-Key": `${random},real` })],
    ["cookie:sid", (random) => withHeaders({ Cookie: `sid=real; sid=${random}` })],
    ["cookie:sid", (random) => withHeaders({ Cookie: `sid=${random}, sid=real` })],
    ["query:key", (random) => [`/?key=real&key=${random}`]],
    ["query:key", (random) => [`/?key=${random}&key=`]],
  ])(
    "in %s is no fresh one: all of its kind share what those without it have",
    async ([key, twice]) => {
      const policy = one({ key });
      const requests = Array.from({ length: 5 }, () => twice(crypto.randomUUID()));
      expect(await statusesOf(policy, [["/"], ...requests])).toEqual([
        200, 429, 429, 429, 429, 429,
      ]);
    },
  );

  it("on two lines of a header is no fresh one either", async () => {
    const policy = one({ key: "header:X-Api-Key" });
    const lines = (random: string): Asked => [
      "/",
      {
        headers: [
          ["X-Api-Key", "real"],
          ["X-Api-Key", random],
        ],
      },
    ];
    expect(await statusesOf(policy, [lines("1"), lines("2"), ["/"]])).toEqual([200, 429, 429]);
  });
});
