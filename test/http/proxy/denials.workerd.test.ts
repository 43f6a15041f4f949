import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf } from "../harness.ts";

const startMs = Date.UTC(2100, 0, 1);
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const at = (offsetMs: number): unknown => vi.setSystemTime(startMs + offsetMs);
const visitor = from("203.0.113.7");
const strict = { name: "p", limits: "1/minute", strategy: "fixed-window" };

const factsOf = (response: Response, ...names: string[]): (string | number | null)[] => [
  response.status,
  ...names.map((name) => response.headers.get(name)),
];

describe("a ban", () => {
  const banned = { ...strict, ban: { after: 2, within: "10m", for: "1h" } };

  it("is told by its own problem type, with how long it lasts", async () => {
    const { send } = headgate({ POLICIES: [banned] });
    await statusOf(send("/", visitor));
    const first = await send("/", visitor);
    expect(await first.json()).toMatchObject({ type: expect.stringMatching(/#quota-exceeded$/) });
    const second = await send("/", visitor);
    expect(factsOf(second, "Retry-After", "RateLimit", "Content-Type", "Cache-Control")).toEqual([
      429,
      "3600",
      '"p";r=0;t=60',
      "application/problem+json",
      "no-store",
    ]);
    expect(await second.json()).toEqual({
      type: "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
      title: "Abnormal Usage Detected",
      status: 429,
      detail: "Temporarily blocked after repeated rate-limit violations. Retry in 3600 seconds.",
      reason: "ban",
      "violated-policies": ["p"],
    });
  });

  it("refuses when no limit would: none is violated, and RateLimit lists none", async () => {
    const { send } = headgate({ POLICIES: [banned] });
    for (let request = 0; request < 3; request++) {
      // oxlint-disable-next-line no-await-in-loop
      await statusOf(send("/", visitor));
    }
    at(1_800_000);
    const response = await send("/", visitor);
    expect(factsOf(response, "Retry-After", "RateLimit", "RateLimit-Policy")).toEqual([
      429,
      "1800",
      null,
      '"p";q=1;w=60',
    ]);
    expect(await response.json()).toMatchObject({ "violated-policies": [] });
    expect(await statusOf(send("/", from("203.0.113.8")))).toBe(200);
    at(3_600_000);
    expect(await statusOf(send("/", visitor))).toBe(200);
  });

  it("is one of /check too, which tells it, looks at it and lifts it", async () => {
    const { send, check } = headgate({ POLICIES: [{ ...strict, ban: "10m" }] });
    const key = "203.0.113.7";
    await statusOf(check("POST", "/check", { key }));
    const denied = await check("POST", "/check", { key });
    expect(await denied.json()).toMatchObject({
      allowed: false,
      bannedForMs: 600_000,
      retryAfterMs: 600_000,
      violated: ["p"],
      headers: { "Retry-After": "600" },
    });
    at(60_000);
    expect(await statusOf(send("/", visitor))).toBe(429);
    const looked = await check("GET", `/check?key=${key}`);
    expect(await looked.json()).toMatchObject({
      allowed: false,
      bannedForMs: 540_000,
      violated: [],
      limits: [{ allowed: true, remaining: 1 }],
    });
    expect(await statusOf(check("DELETE", `/check?key=${key}`))).toBe(204);
    expect(await statusOf(send("/", visitor))).toBe(200);
  });
});

describe("onDeny", () => {
  it("answers with a status and a body of its own, and the fields of a denial", async () => {
    const onDeny = { status: 503, body: "<p>Later!</p>", contentType: "text/html; charset=utf-8" };
    const { send } = headgate({ POLICIES: [{ ...strict, onDeny }] });
    expect(await statusOf(send("/", visitor))).toBe(200);
    const response = await send("/", visitor);
    expect(factsOf(response, "Content-Type", "Retry-After", "RateLimit", "Cache-Control")).toEqual([
      503,
      "text/html; charset=utf-8",
      "60",
      '"p";r=0;t=60',
      "no-store",
    ]);
    expect(await response.text()).toBe("<p>Later!</p>");
  });

  it("keeps the problem details without a body, under its status", async () => {
    const { send } = headgate({ POLICIES: [{ ...strict, onDeny: { status: 403 } }] });
    await statusOf(send("/", visitor));
    const response = await send("/", visitor);
    expect(factsOf(response, "Content-Type")).toEqual([403, "application/problem+json"]);
    expect(await response.json()).toMatchObject({ status: 403, title: "Quota Exceeded" });
  });

  it("is plain text with 429 where only a body is given, and empty where that is", async () => {
    for (const body of ["Slow down, naïve one", ""]) {
      const { send } = headgate({ POLICIES: [{ ...strict, onDeny: { body } }] });
      // oxlint-disable-next-line no-await-in-loop
      await statusOf(send("/", visitor));
      // oxlint-disable-next-line no-await-in-loop
      const response = await send("/", visitor);
      expect(factsOf(response, "Content-Type")).toEqual([429, "text/plain; charset=utf-8"]);
      // oxlint-disable-next-line no-await-in-loop
      expect(await response.text()).toBe(body);
    }
  });

  it("is that of the first policy that denies and has one; who is on a list gets none", async () => {
    const policies = [
      { ...strict, name: "wide", limits: "9/minute", onDeny: { status: 418 } },
      { ...strict, name: "plain" },
      { ...strict, name: "own", onDeny: { status: 420 }, deny: ["198.51.100.1"] },
    ];
    const { send } = headgate({ POLICIES: policies });
    expect(await statusOf(send("/", visitor))).toBe(200);
    expect(await statusOf(send("/", visitor))).toBe(420);
    expect(await statusOf(send("/", from("198.51.100.1")))).toBe(403);
  });
});

describe("a dry run", () => {
  const shadow = { ...strict, name: "shadow", dryRun: true };

  it("refuses nothing, and is absent from the fields", async () => {
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    const { send } = headgate({ POLICIES: [{ ...strict, limits: "3/minute" }, shadow] });
    const answers = [];
    for (let request = 0; request < 4; request++) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await send("/", visitor);
      // oxlint-disable-next-line no-await-in-loop
      await response.body?.cancel();
      answers.push(factsOf(response, "RateLimit-Policy", "RateLimit"));
    }
    const policy = '"p";q=3;w=60';
    expect(answers).toEqual([
      [200, policy, '"p";r=2;t=60'],
      [200, policy, '"p";r=1;t=60'],
      [200, policy, '"p";r=0;t=60'],
      [429, policy, '"p";r=0;t=60'],
    ]);
  });

  it("alone has no fields at all", async () => {
    const { send } = headgate({ POLICIES: [shadow] });
    const response = await send("/", visitor);
    await response.body?.cancel();
    expect(factsOf(response, "RateLimit-Policy", "RateLimit")).toEqual([200, null, null]);
  });

  it.for([
    ["on the key of a policy that is enforced", "ip"],
    ["on a key of its own", "global"],
  ])("logs what it would have denied, %s, and no key", async ([, key]) => {
    const warn = vi.spyOn(console, "warn").mockReturnValue(undefined);
    const { send, check } = headgate({
      POLICIES: [
        { ...strict, limits: "9/minute" },
        { ...shadow, key },
      ],
    });
    expect(await statusOf(send("/", visitor))).toBe(200);
    expect(warn).not.toHaveBeenCalledWith(expect.stringContaining("dry-run"));
    expect(await statusOf(send("/", visitor))).toBe(200);
    const lines = warn.mock.calls.map(([line]) => String(line));
    expect(lines.filter((line) => line.includes("dry-run"))).toEqual([
      expect.stringMatching(
        /^\{"event":"dry-run-denied","policy":"shadow","violated":\["shadow"\],"key":"[\w-]{16}"\}$/,
      ),
    ]);
    const looked = await check(
      "GET",
      `/check?policy=shadow${key === "ip" ? "&key=203.0.113.7" : ""}`,
    );
    expect(await looked.json()).toMatchObject({ limits: [{ remaining: 0 }] });
  });

  it("neither delays, bans, refuses who is listed, nor asks for a key", async () => {
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    const wait = vi.spyOn(scheduler, "wait").mockResolvedValue(undefined);
    const queue = { limit: 1, window: "1m", strategy: "leaky-bucket" };
    const policies = [
      { ...shadow, name: "queue", limits: queue },
      { ...shadow, name: "ban", ban: "1h" },
      { ...shadow, name: "list", deny: ["203.0.113.0/24"] },
      { ...shadow, name: "key", key: "header:x-key", onMissingKey: "deny" },
      { ...shadow, name: "answer", onDeny: { status: 418 } },
      { ...shadow, name: "closed", onError: "closed" },
    ];
    const { send } = headgate({ POLICIES: policies });
    const statuses = [];
    for (let request = 0; request < 4; request++) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push(await statusOf(send("/", visitor)));
    }
    expect([statuses, wait.mock.calls]).toEqual([[200, 200, 200, 200], []]);
  });

  it("lets in under /check too, which names what it would have denied", async () => {
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    const { check } = headgate({ POLICIES: [shadow] });
    const spend = { key: "203.0.113.7" };
    await statusOf(check("POST", "/check", spend));
    const response = await check("POST", "/check?deny=429", spend);
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({
      allowed: true,
      retryAfterMs: 0,
      violated: ["shadow"],
      headers: {},
      limits: [{ allowed: false, remaining: 0, retryAfterMs: 60_000 }],
    });
  });

  it("admits while its object gives no answer, whatever it does on errors", async () => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    const call = (): Promise<never> => Promise.reject(new Error("gone"));
    const closed = { ...shadow, onError: "closed" };
    const { send } = headgate({
      POLICIES: [closed, { ...strict, onError: "open" }],
      RATE_LIMITER: { getByName: () => ({ check: call }) },
    });
    expect(await statusOf(send("/", visitor))).toBe(200);
  });
});
