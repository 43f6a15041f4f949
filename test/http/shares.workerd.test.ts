/** Guaranteed shares and classes in the proxy and in `/check`, with real Durable Objects. */
import { CompactSign } from "jose";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { headgate, type Headgate, statusOf } from "./harness.ts";

// A tenant stays active for 10 s, which the requests of a test must not exceed.
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) }));
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const log = { strategy: "sliding-log" };
const secret = "a secret of at least thirty-two bytes";
const batch = { when: "header:X-Batch=1", upTo: "50%" };
const free = { when: "jwt:plan=free", upTo: "70%" };
const backend = { name: "backend", key: "global", limits: "10/hour", classes: [free, batch], ...log };
const model = { name: "model", key: "global", limits: "12/hour", ...log };
const tenant = {
  name: "tenant",
  within: "model",
  key: "header:X-Tenant",
  limits: "12/hour",
  guaranteed: "fair",
  ...log,
};

const gateOf = (...POLICIES: readonly object[]): Headgate => headgate({ POLICIES, JWT_KEY: secret });

async function onPlan(plan: string): Promise<{ headers: Record<string, string> }> {
  const payload = new TextEncoder().encode(JSON.stringify({ plan }));
  const token = await new CompactSign(payload)
    .setProtectedHeader({ alg: "HS256" })
    .sign(new TextEncoder().encode(secret));
  return { headers: { Authorization: `Bearer ${token}` } };
}

const of = (name: string): { headers: Record<string, string> } => ({ headers: { "X-Tenant": name } });

/** The statuses of requests that are sent one after the other. */
async function statusesOf({ send }: Headgate, requests: readonly { headers: Record<string, string> }[]) {
  const statuses: number[] = [];
  for (const request of requests) {
    // oxlint-disable-next-line no-await-in-loop
    statuses.push(await statusOf(send("/", request)));
  }
  return statuses;
}

const times = <Value>(count: number, value: Value): Value[] => Array.from({ length: count }, () => value);

interface Answer {
  readonly allowed: boolean;
  readonly reason: string;
  readonly violated: readonly string[];
  readonly limits: readonly { readonly remaining: number }[];
}

const answerTo = async ({ check }: Headgate, body: object): Promise<Answer> =>
  (await check("POST", "/check", body)).json<Answer>();

describe("classes of requests", () => {
  it("a class holds free users at their part of a limit, and paying users may use the rest", async () => {
    const gate = gateOf(backend);
    const [unpaid, paid] = [await onPlan("free"), await onPlan("pro")];
    expect(await statusesOf(gate, times(8, unpaid))).toEqual([...times(7, 200), 429]);
    const denied = await gate.send("/", unpaid);
    expect(denied.headers.get("RateLimit")).toMatch(/^"backend";r=0;t=\d+$/);
    expect(Number(denied.headers.get("Retry-After"))).toBeGreaterThan(3_000);
    expect(await denied.json()).toMatchObject({
      status: 429,
      title: "Quota Exceeded",
      detail: expect.stringMatching(
        /^The request exceeds the quota of "backend"\. Requests of this class may use 70 % of it\. Retry in \d+ seconds\.$/,
      ),
      reason: "class",
      "violated-policies": ["backend"],
    });
    expect(await statusesOf(gate, times(4, paid))).toEqual([200, 200, 200, 429]);
    expect(await (await gate.send("/", paid)).json()).toMatchObject({ reason: "limit" });
  });

  it("concurrent requests of a class get exactly its part of a limit, and all requests exactly the limit", async () => {
    const gate = gateOf(backend);
    const [unpaid, paid] = [await onPlan("free"), await onPlan("pro")];
    const allowed = async (request: typeof paid): Promise<number> => {
      const statuses = await Promise.all(times(20, request).map(async (each) => statusOf(gate.send("/", each))));
      return statuses.filter((status) => status === 200).length;
    };
    expect(await allowed(unpaid)).toBe(7);
    expect(await allowed(paid)).toBe(3);
  });

  it("a request of two classes has the least of their parts, and its response states what remains of that", async () => {
    const gate = gateOf(backend);
    const { headers } = await onPlan("free");
    const both = { headers: { ...headers, "X-Batch": "1" } };
    const first = await gate.send("/", both);
    expect(first.headers.get("RateLimit")).toMatch(/^"backend";r=4;t=\d+$/);
    expect(await statusesOf(gate, times(5, both))).toEqual([...times(4, 200), 429]);
    expect(await statusesOf(gate, times(3, { headers }))).toEqual([200, 200, 429]);
  });

  it("a cost above the part of a class can never be allowed, and the response says so", async () => {
    const gate = gateOf({ ...backend, cost: 6 });
    const denied = await gate.send("/", { headers: { "X-Batch": "1" } });
    expect([denied.status, denied.headers.get("Retry-After")]).toEqual([429, null]);
    expect(await denied.json()).toMatchObject({
      detail: expect.stringMatching(/may use 50 % of it\. Its cost exceeds that; therefore it can never be allowed\.$/),
      reason: "class",
    });
  });

  it("a check is of the classes that its attributes meet, and of none without attributes", async () => {
    const gate = gateOf({ ...backend, key: "ip" });
    const ask = async (cost: number, attributes?: Record<string, string>): Promise<Answer> =>
      answerTo(gate, { key: "192.0.2.1", cost, ...(attributes !== undefined && { attributes }) });
    expect(await ask(6, { "header:X-Batch": "1" })).toMatchObject({
      allowed: false,
      reason: "class",
      violated: ["backend"],
      retryAfterMs: null,
      limits: [{ remaining: 5 }],
    });
    expect(await ask(6, { "jwt:plan": "free" })).toMatchObject({ allowed: true, limits: [{ remaining: 1 }] });
    expect(await ask(2, { "jwt:plan": "free" })).toMatchObject({ allowed: false, reason: "class" });
    expect(await ask(4)).toMatchObject({ allowed: true, reason: "limit", limits: [{ remaining: 0 }] });
  });

  it("each check of a batch has the class of its own attributes", async () => {
    const gate = gateOf({ ...backend, key: "ip" });
    const named = (cost: number, plan: string) => ({ key: "192.0.2.1", cost, attributes: { "jwt:plan": plan } });
    const response = await gate.check("POST", "/check/batch", {
      checks: [named(7, "free"), named(1, "free"), named(3, "pro"), named(1, "pro")],
    });
    const { results } = await response.json<{ results: Answer[] }>();
    expect(results.map(({ reason, allowed }) => [reason, allowed])).toEqual([
      ["limit", true],
      ["class", false],
      ["limit", true],
      ["limit", false],
    ]);
  });

  it("a class bounds reservations, and their settlement makes room again", async () => {
    const gate = gateOf({ ...backend, key: "ip" });
    const named = { key: "192.0.2.1", attributes: { "jwt:plan": "free" } };
    const opened = await gate.check("POST", "/check/reserve", { ...named, cost: 7, ttlMs: 60_000 });
    const { id } = await opened.json<{ id: string }>();
    expect(await answerTo(gate, { ...named, cost: 1 })).toMatchObject({ allowed: false, reason: "class" });
    expect(await (await gate.check("POST", "/check/settle", { id, cost: 2 })).json()).toEqual({ settled: true });
    expect(await answerTo(gate, { ...named, cost: 5 })).toMatchObject({ allowed: true, limits: [{ remaining: 0 }] });
  });
});

describe("fair shares of three tenants", () => {
  it("a tenant that is active alone uses the whole limit", async () => {
    const gate = gateOf(model, tenant);
    expect(await statusesOf(gate, times(13, of("acme")))).toEqual([...times(12, 200), 429]);
    expect(await (await gate.send("/", of("acme"))).json()).toMatchObject({ reason: "limit" });
  });

  it("each of three active tenants gets its third of a limit, and the denial of more names the shares", async () => {
    const gate = gateOf(model, tenant);
    expect(await statusesOf(gate, ["acme", "bolt", "cog", "acme", "acme", "acme"].map(of))).toEqual(times(6, 200));
    const denied = await gate.send("/", of("acme"));
    expect(denied.status).toBe(429);
    expect(Number(denied.headers.get("Retry-After"))).toBeGreaterThan(0);
    expect(await denied.json()).toMatchObject({
      detail: expect.stringMatching(
        /^The request exceeds the quota of "model"\. Other keys are guaranteed the rest\. Retry in \d+ seconds?\.$/,
      ),
      reason: "share",
      "violated-policies": ["model"],
    });
    const rest = [...times(3, of("bolt")), ...times(3, of("cog"))];
    expect(await statusesOf(gate, rest)).toEqual(times(6, 200));
    expect(await statusesOf(gate, [of("bolt"), of("cog"), of("acme")])).toEqual(times(3, 429));
  });

  it("a stated number is guaranteed to each tenant, and the rest is first come, first served", async () => {
    const gate = gateOf(model, { ...tenant, guaranteed: "3/hour" });
    expect(await statusesOf(gate, [of("bolt"), ...times(10, of("acme"))])).toEqual([...times(10, 200), 429]);
    expect(await statusesOf(gate, times(3, of("bolt")))).toEqual([200, 200, 429]);
  });

  it("a denial by shares is logged with its reason", async () => {
    const lines = vi.spyOn(console, "log").mockReturnValue();
    const gate = headgate({ POLICIES: [model, tenant], LOG_DENIALS: true });
    await statusesOf(gate, [of("bolt"), ...times(7, of("acme"))]);
    const events = lines.mock.calls.map(([line]) => JSON.parse(String(line)) as { event: string });
    expect(events.filter(({ event }) => event === "request-denied")).toMatchObject([
      { policy: "model", reason: "share", violated: ["model"] },
    ]);
  });

  it("a tenant that has sent no request for 10 s withholds nothing", async () => {
    const gate = gateOf(model, tenant);
    expect(await statusesOf(gate, [of("bolt"), ...times(7, of("acme"))])).toEqual([...times(7, 200), 429]);
    vi.setSystemTime(Date.now() + 9_999);
    expect(await statusOf(gate.send("/", of("acme")))).toBe(429);
    vi.setSystemTime(Date.now() + 1);
    expect(await statusesOf(gate, times(6, of("acme")))).toEqual([...times(5, 200), 429]);
  });
});

describe("weighted shares in /check", () => {
  const weighted = { ...tenant, weight: [{ when: "jwt:plan=pro", weight: 3 }] };
  const named = (name: string, cost: number, plan?: string) => ({
    policy: "tenant",
    key: ["all", name],
    cost,
    ...(plan !== undefined && { attributes: { "jwt:plan": plan } }),
  });

  it("the attributes of a check state the weight of its tenant, which is 1 without attributes", async () => {
    const gate = gateOf(model, weighted);
    await answerTo(gate, named("acme", 1, "pro"));
    await answerTo(gate, named("bolt", 1));
    // acme is guaranteed 9 of 12 units, and bolt 3.
    expect(await answerTo(gate, named("bolt", 3))).toMatchObject({
      allowed: false,
      reason: "share",
      violated: ["model"],
      limits: [{ name: "model", remaining: 2 }, { name: "tenant" }],
    });
    expect(await answerTo(gate, named("acme", 8, "pro"))).toMatchObject({ allowed: true });
    expect(await answerTo(gate, named("bolt", 2))).toMatchObject({ allowed: true, limits: [{ remaining: 0 }, {}] });
  });

  it("a batch decides each check within the share of its tenant", async () => {
    const gate = gateOf(model, tenant);
    const checks = [named("acme", 1), named("bolt", 1), named("acme", 6), named("acme", 5), named("bolt", 5)];
    const { results } = await (await gate.check("POST", "/check/batch", { checks })).json<{ results: Answer[] }>();
    expect(results.map(({ reason, allowed }) => (allowed ? "allowed" : reason))).toEqual([
      "allowed",
      "allowed",
      "share",
      "allowed",
      "allowed",
    ]);
  });

  it("a settled reservation gives its units back to the share of the tenant", async () => {
    const gate = gateOf(model, tenant);
    const opened = await gate.check("POST", "/check/reserve", { ...named("acme", 11), ttlMs: 60_000 });
    const { id } = await opened.json<{ id: string }>();
    expect(await answerTo(gate, named("bolt", 1))).toMatchObject({ allowed: true });
    expect(await (await gate.check("POST", "/check/settle", { id, cost: 2 })).json()).toEqual({ settled: true });
    // Both are guaranteed 6 units: acme has used 2 of its own, and bolt 1.
    expect(await answerTo(gate, named("acme", 5))).toMatchObject({ allowed: false, reason: "share" });
    expect(await answerTo(gate, named("acme", 4))).toMatchObject({ allowed: true });
    expect(await answerTo(gate, named("bolt", 5))).toMatchObject({ allowed: true, limits: [{ remaining: 0 }, {}] });
  });
});

it("200 requests of three tenants at once spend no unit too many, and each tenant has its share after one window", async () => {
  const { send } = gateOf({ ...model, limits: "90/minute" }, { ...tenant, limits: "1000/minute" });
  const ask = (name: string) => statusOf(send("/", of(name)));
  /** How many of the requests are allowed, by tenant. They are sent in turns. */
  const allowed = async (requests: Readonly<Record<string, number>>): Promise<Record<string, number>> => {
    const senders = Object.entries(requests)
      .flatMap(([name, count]) => Array.from({ length: count }, (_each, index) => ({ name, at: index / count })))
      .toSorted((one, other) => one.at - other.at);
    const statuses = await Promise.all(senders.map(({ name }) => ask(name)));
    return Object.fromEntries(
      Object.keys(requests).map((name) => [
        name,
        statuses.filter((status, index) => status === 200 && senders[index]?.name === name).length,
      ]),
    );
  };
  const startMs = Date.now();
  // One tenant alone may use everything, and nothing is taken back from it.
  expect(await allowed({ greedy: 100 })).toEqual({ greedy: 90 });
  vi.setSystemTime(startMs + 59_000);
  expect(await allowed({ one: 1, two: 1 })).toEqual({ one: 0, two: 0 });
  vi.setSystemTime(startMs + 60_000);
  expect(await allowed({ greedy: 140, one: 40, two: 20 })).toEqual({ greedy: 30, one: 30, two: 20 });
  expect(await allowed({ two: 20 })).toEqual({ two: 10 });
});
