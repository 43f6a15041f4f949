import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { from, headgate, type Headgate, statusOf } from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) }));
afterEach(() => void vi.useRealTimers());

const policy = { name: "p", limits: "9/hour", strategy: "fixed-window" };
const CHECK_TOKENS = [
  "open",
  { token: "of-a", tenant: "a" },
  { token: "also-of-a", tenant: "a" },
  { token: "of-b", tenant: "b" },
  { token: "reader", may: ["look"] },
  { token: "spender", may: ["check"] },
  { token: "cleaner", may: ["forget"] },
];

const gate = (): Headgate => headgate({ POLICIES: [policy], CHECK_TOKENS });

const ask = (
  { send }: Headgate,
  token: string,
  method: string,
  path: string,
  body?: unknown,
): Promise<Response> =>
  send(path, {
    method,
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });

const key = "203.0.113.7";

async function remaining(own: Headgate, token: string): Promise<unknown> {
  const response = await ask(own, token, "GET", `/check?key=${key}`);
  return (await response.json<{ limits: { remaining: number }[] }>()).limits[0]?.remaining;
}

describe("S07: a key of the same name", () => {
  it("is another with each tenant: nobody reads, spends or forgets another's", async () => {
    const own = gate();
    await statusOf(own.send("/", from(key)));
    await statusOf(ask(own, "of-a", "POST", "/check", { key, cost: 3 }));
    await statusOf(ask(own, "of-b", "POST", "/check", { key, cost: 5 }));
    const all = async (): Promise<unknown[]> => [
      await remaining(own, "open"),
      await remaining(own, "of-a"),
      await remaining(own, "also-of-a"),
      await remaining(own, "of-b"),
    ];
    expect(await all()).toEqual([8, 6, 6, 4]);
    expect(await statusOf(ask(own, "of-a", "DELETE", `/check?key=${key}`))).toBe(204);
    expect(await all()).toEqual([8, 9, 9, 4]);
  });

  it("is another for limits of a call's own", async () => {
    const own = gate();
    const adhoc = { key: "k", limits: "5/hour" };
    const left = async (token: string): Promise<unknown> => {
      const response = await ask(own, token, "POST", "/check", adhoc);
      return (await response.json<{ limits: { remaining: number }[] }>()).limits[0]?.remaining;
    };
    expect([
      await left("open"),
      await left("of-a"),
      await left("of-b"),
      await left("of-a"),
    ]).toEqual([4, 4, 4, 3]);
  });

  it("is reserved by one tenant, and settled by no other", async () => {
    const own = gate();
    const reserved = await ask(own, "of-a", "POST", "/check/reserve", {
      key,
      cost: 4,
      ttlMs: 9_000,
    });
    const { id } = await reserved.json<{ id: string }>();
    const settled = async (token: string): Promise<unknown> =>
      (await ask(own, token, "POST", "/check/settle", { id, cost: 0 })).json();
    expect(await settled("of-b")).toEqual({ settled: false });
    expect(await settled("open")).toEqual({ settled: false });
    expect(await settled("also-of-a")).toEqual({ settled: true });
    expect(await remaining(own, "of-a")).toBe(9);
  });
});

describe("what a token may", () => {
  const body = { key, cost: 1 };
  const calls: [string, string, string, unknown][] = [
    ["check", "POST", "/check", body],
    ["check", "POST", "/check/reserve", { ...body, ttlMs: 1_000 }],
    ["check", "POST", "/check/settle", { id: "x", cost: 1 }],
    ["look", "GET", `/check?key=${key}`, undefined],
    ["forget", "DELETE", `/check?key=${key}`, undefined],
  ];

  it.each(calls)("is asked for by %s: %s %s", async (right, method, path, sent) => {
    const own = gate();
    const holders = { check: "spender", look: "reader", forget: "cleaner" };
    for (const [may, token] of Object.entries(holders)) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await ask(own, token, method, path, sent);
      expect([may, response.status]).toEqual([
        may,
        may === right ? (right === "forget" ? 204 : 200) : 403,
      ]);
    }
  });

  it("is told where it is not enough, and nothing is spent", async () => {
    const own = gate();
    const response = await ask(own, "reader", "POST", "/check", body);
    expect(response.headers.get("Content-Type")).toBe("application/problem+json");
    expect(await response.json()).toEqual({
      type: "about:blank",
      title: "Forbidden",
      status: 403,
      detail: 'The token lacks the right "check": its "may" in CHECK_TOKENS does not list it.',
    });
    expect(await remaining(own, "open")).toBe(9);
  });

  it("is limits of a call's own only where it says so", async () => {
    const own = gate();
    const adhoc = { key: "k", limits: "5/hour" };
    expect(await statusOf(ask(own, "spender", "POST", "/check", adhoc))).toBe(403);
    const reserving = { ...adhoc, ttlMs: 1_000 };
    expect(await statusOf(ask(own, "spender", "POST", "/check/reserve", reserving))).toBe(403);
    expect(await statusOf(ask(own, "open", "POST", "/check", adhoc))).toBe(200);
  });
});
