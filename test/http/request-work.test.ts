/**
 * A request reads only the headers and URL parts that its policies name, and does not recompute values that depend only
 * on a policy.
 */
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { Policy } from "../../src/policy/policy.ts";
import { TestApp } from "./app.ts";

const host = "https://headgate.example";

const checkOf = (body: object): Request =>
  new Request(`${host}/check`, {
    method: "POST",
    headers: { Authorization: "Bearer the-tests-token", "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });

const proxied = (path = "/a/b?q=1", headers: Record<string, string> = {}): Request =>
  new Request(`${host}${path}`, {
    headers: { "CF-Connecting-IP": "203.0.113.7", Cookie: "sid=1", "X-Key": "k", ...headers },
  });

interface Reads {
  /** The names of the headers that were read, in lower case and sorted. */
  readonly headers: readonly string[];
  readonly isUrlParsed: boolean;
}

/** Answers a request, and returns the parts of it that were read. */
async function readsOf(app: TestApp, request: Request): Promise<Reads> {
  const names: string[] = [];
  // The methods are called with the headers that are read.
  // oxlint-disable-next-line typescript/unbound-method
  const { get, has } = Headers.prototype;
  const note = (headers: Headers, name: string): void => {
    if (headers === request.headers) names.push(name.toLowerCase());
  };
  const spies = [
    vi.spyOn(Headers.prototype, "get").mockImplementation(function noteGet(this: Headers, name) {
      note(this, name);
      return get.call(this, name);
    }),
    vi.spyOn(Headers.prototype, "has").mockImplementation(function noteHas(this: Headers, name) {
      note(this, name);
      return has.call(this, name);
    }),
  ];
  const parsed: string[] = [];
  const RealUrl = URL;
  vi.stubGlobal(
    "URL",
    class extends RealUrl {
      constructor(url: string | URL, base?: string | URL) {
        super(url, base);
        parsed.push(String(url));
      }

      static override parse(url: string | URL, base?: string | URL): URL | null {
        parsed.push(String(url));
        return RealUrl.parse(url, base);
      }
    },
  );
  const response = await app.fetch(request);
  vi.unstubAllGlobals();
  for (const spy of spies) spy.mockRestore();
  expect(response.status).toBe(200);
  return { headers: names.toSorted(), isUrlParsed: parsed.includes(request.url) };
}

const claims = { JWT_KEY: "a secret of at least thirty-two bytes" };

/** An app with one policy. */
const appWith = (policy: object): TestApp => new TestApp([{ name: "p", limits: "1000/minute", ...policy }], claims);

describe("a proxied request", () => {
  const everything = { key: "global" };

  it("a policy that matches all requests and has the key global reads no header of the client", async () => {
    const { headers, isUrlParsed } = await readsOf(appWith(everything), proxied());
    expect(isUrlParsed).toBe(false);
    const client = ["cookie", "authorization", "x-forwarded-for", "x-key"];
    expect(headers.filter((name) => client.includes(name))).toEqual([]);
  });

  it.for<[object, readonly string[]]>([
    [{ key: "ip" }, ["cf-connecting-ip"]],
    [{ key: "ip", trustedProxies: 1 }, ["x-forwarded-for"]],
    [{ key: "header:x-key" }, ["x-key"]],
    [{ key: "header:x-key", onMissingKey: "ip" }, ["x-key"]],
    [{ key: "header:x-none", onMissingKey: "ip" }, ["cf-connecting-ip", "x-none", "x-none"]],
    [{ key: "cookie:sid" }, ["cookie"]],
    [{ key: "jwt:sub" }, ["authorization"]],
    [{ key: ["path", "method", "host", "country"] }, []],
    [{ key: "global", match: { path: "/a/b", host: "headgate.example" } }, []],
    [{ key: "global", match: { path: "/a/*", methods: "GET" } }, []],
    [{ key: "global", match: { header: { "X-Key": "k" } } }, ["x-key"]],
    [{ key: "cookie:sid", match: { path: "/elsewhere" } }, []],
    [{ key: "cookie:sid", match: { path: "/elsewhere", header: "X-Key" } }, []],
    [{ key: "global", allow: ["192.0.2.0/24"] }, ["cf-connecting-ip"]],
    [{ key: "global", overrides: [{ when: "country=DE", limits: "9/s" }] }, ["cf-connecting-ip"]],
    [{ key: "global", cost: { from: "header:X-Cost", max: 9 } }, ["x-cost"]],
  ])(
    "a request under the policy %j reads only the headers %j for it, and parses no URL",
    async ([policy, expected]) => {
      // Forwarding always reads these headers, even if no policy does.
      const unnamed = await readsOf(appWith(everything), proxied());
      const { headers, isUrlParsed } = await readsOf(appWith(policy), proxied());
      expect(headers).toEqual([...unnamed.headers, ...expected].toSorted());
      expect(isUrlParsed).toBe(false);
    },
  );

  it("a policy whose key is a query parameter parses the URL", async () => {
    expect((await readsOf(appWith({ key: "query:q" }), proxied())).isUrlParsed).toBe(true);
  });
});

it.for<[object, string]>([
  [{ key: "ip" }, "203.0.113.7"],
  [{ key: "cookie:sid" }, "s"],
  [{ key: "query:q" }, "q"],
  [{ key: "jwt:sub" }, "u"],
  [{ key: "path", match: { path: "/a/*", header: "X-Key" } }, "/a/b"],
  [{ key: "header:x-key", deny: ["bad"] }, "k"],
])("a check by the policy %j reads only the token and the type of the body", async (row) => {
  const [policy, key] = row;
  expect(await readsOf(appWith(policy), checkOf({ policy: "p", key }))).toEqual({
    headers: ["authorization", "content-length", "content-type", "x-headgate-token"],
    isUrlParsed: false,
  });
});

const isPolicy = (key: unknown): key is Policy => typeof key === "object" && key !== null && "lists" in key;

/** The keys of entries that are added to any `WeakMap` while `work` runs. */
async function memoised(work: () => unknown): Promise<readonly unknown[]> {
  const spy = vi.spyOn(WeakMap.prototype, "set");
  onTestFinished(() => spy.mockRestore());
  await work();
  const keys = spy.mock.calls.map(([key]) => key);
  spy.mockRestore();
  return keys;
}

const policies = [
  { name: "all", limits: "1000/minute", key: "global" },
  { name: "a", limits: ["1000/minute", "9000/hour"], match: { path: "/a/*" } },
  { name: "exact", limits: "1000/minute", match: { path: "/b" }, pathMatching: "exact" },
  {
    name: "keyed",
    limits: "1000/minute",
    key: "header:x-key",
    onMissingKey: "ip",
    overrides: [
      { key: "k1", limits: "2000/minute" },
      { when: "ip=203.0.113.7", limits: "3000/minute" },
    ],
  },
  { name: "dry", limits: "1/minute", dryRun: true, ban: { after: 2, within: "1m", for: "1m" } },
];

/** The objects of a policy with which computed values are cached. */
const constantsOf = (policy: Policy): readonly unknown[] => [policy, policy.key, policy.limits, ...policy.limits];

async function sendHundred(app: TestApp): Promise<void> {
  for (let round = 0; round < 10; round++) {
    const key = `k${round}`;
    const requests = [
      proxied("/a/b"),
      proxied("/b?q=1"),
      proxied("/A%2fb//c", { "X-Key": key }),
      proxied("/c", { "X-Key": "" }),
      ...["all", "a", "exact", "keyed", "dry"].map((policy) => {
        const named = { all: {}, keyed: { key } }[policy] ?? { key: "203.0.113.7" };
        return checkOf({ policy, ...named });
      }),
      checkOf({ policy: "keyed", key: "k1" }),
    ];
    // oxlint-disable-next-line no-await-in-loop
    for (const request of requests) expect((await app.fetch(request)).status).toBe(200);
  }
}

describe("values derived from a policy", () => {
  it("a hundred requests compute no value that depends only on a policy, because all such values are computed at startup", async () => {
    const apps: TestApp[] = [];
    const before = await memoised(() => void apps.push(new TestApp(policies, { CONTROL_PLANE: undefined })));
    const prepared = before.filter(isPolicy);
    expect(new Set(prepared.map(({ name }) => name))).toEqual(
      new Set([...policies.map(({ name }) => name), "headgate.preflights"]),
    );
    const constants = new Set(prepared.flatMap(constantsOf));
    const during = await memoised(async () => {
      for (const app of apps) await sendHundred(app);
    });
    expect(during.filter((key) => isPolicy(key) || constants.has(key))).toEqual([]);
  });

  it("after new runtime rules, one request computes the values of the changed policy, and a hundred further requests compute none", async () => {
    const app = new TestApp(policies);
    // The second request comes after the first beat, whose reply sets the epoch of the rules.
    for (const path of ["/a/b", "/a/b"]) await app.fetch(proxied(path));
    app.setPolicyRules("keyed", [
      { kind: "limits", limits: "4000/minute" },
      { kind: "overrides", overrides: [{ key: "k2", limits: "5000/minute" }] },
    ]);
    const adopting = await memoised(() => app.fetch(proxied("/c")));
    const derived = adopting.filter(isPolicy);
    expect(new Set(derived.map(({ name }) => name))).toEqual(new Set(["keyed"]));
    const constants = new Set(derived.flatMap(constantsOf));
    const during = await memoised(() => sendHundred(app));
    expect(during.filter((key) => isPolicy(key) || constants.has(key))).toEqual([]);
  });
});
