import { listDurableObjectIds, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { isFull } from "../../mode.ts";
import { from, headgate, type Headgate, statusOf } from "../harness.ts";

type Init = NonNullable<Parameters<Headgate["send"]>[1]>;
type SentRequest = [path: string, init?: Init];

const strategy = "fixed-window";
const visitor = from("203.0.113.7");

/** A Worker with one policy of one request per hour and key. */
const onePerHour = (fields: object): Headgate =>
  headgate({ POLICIES: [{ name: "a", limits: "1/hour", strategy, ...fields }] });

/** The statuses of requests, one after the other. */
async function statusesOf({ send }: Headgate, requests: readonly SentRequest[]): Promise<number[]> {
  const statuses = [];
  for (const [path, init] of requests) {
    // oxlint-disable-next-line no-await-in-loop
    statuses.push(await statusOf(send(path, init)));
  }
  return statuses;
}

const withHeaders = (headers: Record<string, string>): SentRequest => ["/", { headers }];

describe("key parts", () => {
  it.for<[string, SentRequest[], number[]]>([
    [
      "cookie:sid",
      ["sid=a", "x=1; sid=b", "sid=a; x=2", 'sid="a"', "sid=%61", "SID=a"].map((Cookie) => withHeaders({ Cookie })),
      [200, 200, 429, 429, 429, 200],
    ],
    [
      "query:key",
      [["/?key=a"], ["/?key=b"], ["/other?x=1&key=a"], ["/?key=%61"], ["/?KEY=a"]],
      [200, 200, 429, 429, 200],
    ],
    ["method", [["/"], ["/", { method: "PUT" }], ["/x"], ["/", { method: "put" }]], [200, 200, 429, 429]],
    [
      "host",
      [["https://a.example/"], ["https://b.example/"], ["https://A.example./x"], ["https://a.example:8443/"]],
      [200, 200, 429, 429],
    ],
    ["path, method", [["/a"], ["/b"], ["/a", { method: "PUT" }], ["/x/..//%61/"]], [200, 200, 200, 429]],
  ])("each value of the key part %s has its own limit", async ([key, requests, expected]) => {
    expect(await statusesOf(onePerHour({ key }), requests)).toEqual(expected);
  });

  it.for<["country" | "continent" | "asn" | "colo", unknown, unknown]>([
    ["country", "DE", "FR"],
    ["continent", "EU", "AS"],
    ["asn", 3320, 13_335],
    ["colo", "FRA", "CDG"],
  ])("each value of the key part %s, from Cloudflare's request data, has its own limit", async ([key, here, there]) => {
    const at = (value: unknown): SentRequest => [
      "/",
      { cf: { [key]: value } as unknown as IncomingRequestCfProperties },
    ];
    const requests = [at(here), at(there), at(here), at(undefined), ["/"] as SentRequest];
    expect(await statusesOf(onePerHour({ key }), requests)).toEqual([200, 200, 429, 200, 429]);
  });

  it("a check that names each key part charges the same counter as the proxy", async () => {
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

describe("K04: many API keys from one address", () => {
  it("K04: one address cannot exceed the limit of the address by sending new API keys", async () => {
    const { send } = headgate({
      POLICIES: [
        { name: "each", key: "header:X-Api-Key", limits: "5/hour", objects: "sharded", shards: 4 },
        { name: "address", key: "ip", limits: "20/hour", strategy: "sliding-log" },
      ],
    });
    let admitted = 0;
    for (let batch = 0; batch < (isFull ? 20 : 3); batch++) {
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

describe("K05: a request without its key part", () => {
  const key = "header:X-Api-Key";
  const named = withHeaders({ "X-Api-Key": "a" });
  const keyless = withHeaders({ ...visitor.headers });
  const other = withHeaders({ ...from("203.0.113.8").headers, "X-Api-Key": "" });

  it("K05: requests without the key part share one limit by default", async () => {
    const requests = [keyless, other, named, named];
    expect(await statusesOf(onePerHour({ key }), requests)).toEqual([200, 429, 200, 429]);
  });

  it.for(["ip", "cookie:a", "query:a", "country", "continent", "asn", "colo"])(
    "K05: a request without the key part %s is limited",
    async (part) => {
      expect(await statusesOf(onePerHour({ key: part }), [["/"], ["/x"], ["/y"]])).toEqual([200, 429, 429]);
    },
  );

  it('K05: with onMissingKey = "ip" a request without the key part is charged to its address', async () => {
    const policy = onePerHour({ key, onMissingKey: "ip" });
    const requests = [keyless, keyless, other, other, named, ["/"] as SentRequest, ["/x"] as SentRequest];
    expect(await statusesOf(policy, requests)).toEqual([200, 429, 200, 429, 200, 200, 429]);
    // An API key with the text of the address is another key.
    const addressAsKey = await statusesOf(policy, [withHeaders({ "X-Api-Key": "203.0.113.7" })]);
    expect(addressAsKey).toEqual([200]);
  });

  it('K05: with onMissingKey = "ip" the policy is decided together with policies on the address', async () => {
    const { send } = headgate({
      POLICIES: [
        { name: "named", key, onMissingKey: "ip", limits: "1/hour", strategy },
        { name: "address", key: "ip", limits: "5/hour", strategy },
      ],
    });
    expect((await send(...keyless)).headers.get("RateLimit")).toBe('"named";r=0;t=3600, "address";r=4;t=3600');
    const denied = await send(...keyless);
    expect(denied.headers.get("RateLimit")).toBe('"named";r=0;t=3600');
    const withKey = await send(...withHeaders({ ...visitor.headers, "X-Api-Key": "a" }));
    expect(withKey.headers.get("RateLimit")).toBe('"named";r=0;t=3600, "address";r=3;t=3600');
  });

  it(`K05: with onMissingKey = "deny", a request is denied with 403 and the missing part, and charged nothing`, async () => {
    const { send, check } = headgate({
      POLICIES: [
        { name: "address", key: "ip", limits: "5/hour", strategy },
        { name: "a", key: [key, "cookie:sid"], onMissingKey: "deny", limits: "5/hour" },
        { name: "b", key: ["cookie:sid", "path"], onMissingKey: "deny", limits: "5/hour" },
      ],
    });
    const denied = await send(...withHeaders({ ...visitor.headers, "X-Api-Key": "canary" }));
    expect([denied.status, denied.headers.get("Content-Type")]).toEqual([403, "application/problem+json"]);
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

  it('K05: onMissingKey = "skip" exempts requests without the key part', async () => {
    const policy = onePerHour({ key, onMissingKey: "skip" });
    expect(await statusesOf(policy, [keyless, keyless, named, named])).toEqual([200, 200, 200, 429]);
    const response = await policy.send(...keyless);
    expect([response.headers.has("RateLimit"), response.headers.has("RateLimit-Policy")]).toEqual([false, false]);
  });
});

describe("K06: keys of several parts", () => {
  it("K06: two keys are equal only if all their parts are, even if the parts contain separators", async () => {
    const piece = fc.constantFrom("a", ":", ";", '"', "\\", "|", "[", "]", "/", "null", "=");
    const value = fc.oneof(
      fc.constant(null),
      fc.string({ unit: piece, minLength: 1, maxLength: 3 }).filter((text) => text.trim() !== ""),
    );
    const pairs = fc.sample(fc.tuple(value, value), { numRuns: 40, seed: 6 });
    const policy = onePerHour({ key: "header:a, header:b", objects: "sharded", shards: 2 });
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

describe("K08: key values", () => {
  it("K08: no object name, row, log line, header or body contains a key value", async () => {
    const canary = "canary-5f2b";
    const idsOfOthers = new Set((await listDurableObjectIds(env.RATE_LIMITER)).map(String));
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
    const sendTo = (path: string): Promise<Response> => send(`${path}?key=${canary}`, { headers });
    const admitted = await sendTo(`/${canary}`);
    await admitted.body?.cancel();
    const outputs: string[] = [JSON.stringify([...admitted.headers])];
    for (const path of [`/${canary}`, `/deny/${canary}`]) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await sendTo(path);
      expect([429, 403]).toContain(response.status);
      // oxlint-disable-next-line no-await-in-loop
      outputs.push(JSON.stringify([...response.headers]), await response.text());
    }
    for (const id of await listDurableObjectIds(env.RATE_LIMITER)) {
      if (idsOfOthers.has(String(id))) continue;
      // oxlint-disable-next-line no-await-in-loop
      await runInDurableObject(env.RATE_LIMITER.get(id), async (_, state) => {
        const rows = await state.storage.list();
        outputs.push(String(state.id.name), JSON.stringify([...rows]));
      });
    }
    outputs.push(JSON.stringify(logs.flatMap((log) => log.mock.calls)));
    vi.restoreAllMocks();
    expect(outputs.length).toBeGreaterThan(7);
    for (const secret of [canary, "203.0.113.7"]) expect(outputs.join("\n")).not.toContain(secret);
  });
});

describe("K10: a key part that occurs twice", () => {
  it.for<[string, (random: string) => SentRequest]>([
    ["header:X-Api-Key", (random) => withHeaders({ "X-Api-Key": `real, ${random}` })],
    ["header:X-Api-Key", (random) => withHeaders({ "X-Api-Key": `${random},real` })],
    ["cookie:sid", (random) => withHeaders({ Cookie: `sid=real; sid=${random}` })],
    ["cookie:sid", (random) => withHeaders({ Cookie: `sid=${random}, sid=real` })],
    ["query:key", (random) => [`/?key=real&key=${random}`]],
    ["query:key", (random) => [`/?key=${random}&key=`]],
  ])(
    "K10: a duplicate %s counts as missing, so that requests with random duplicates share one limit",
    async ([key, duplicate]) => {
      const policy = onePerHour({ key });
      const requests = Array.from({ length: 5 }, () => duplicate(crypto.randomUUID()));
      expect(await statusesOf(policy, [["/"], ...requests])).toEqual([200, 429, 429, 429, 429, 429]);
    },
  );

  it("K10: a header that is sent on two lines counts as missing", async () => {
    const policy = onePerHour({ key: "header:X-Api-Key" });
    const lines = (random: string): SentRequest => [
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
