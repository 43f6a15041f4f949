/** Every fault is one line in the log, which names what failed and nothing secret. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { errorText, type Event, report } from "../../src/observability/events.ts";
import { from, headgate, statusOf, token } from "./harness.ts";

const lines: string[] = [];
beforeEach(() => {
  lines.length = 0;
  vi.spyOn(console, "error").mockImplementation((line: string) => void lines.push(line));
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const visitor = from("203.0.113.7");
const unlimited = { LIMITS: "1000/minute" };
const events = (): unknown[] => lines.map((line) => JSON.parse(line) as unknown);

describe("a fault of the origin", () => {
  it("is reported when its response does not begin in time", async () => {
    const { send } = headgate({ ...unlimited, ORIGIN_TIMEOUT: "100ms" });
    expect(await statusOf(send("/slow?token=canary", visitor))).toBe(504);
    expect(events()).toEqual([{ event: "origin-too-slow", timeoutMs: 100 }]);
  });

  it("is reported when it cannot be reached, without the query of the request", async () => {
    const { send } = headgate(unlimited);
    const failure = new TypeError("fetch https://u:p@origin.example/x?token=canary#y failed");
    vi.spyOn(globalThis, "fetch").mockRejectedValue(failure);
    expect(await statusOf(send("/x?token=canary", visitor))).toBe(502);
    expect(events()).toEqual([
      {
        event: "origin-unreachable",
        error: "TypeError: fetch https://origin.example/x failed",
      },
    ]);
  });

  it("is reported when its status is none", async () => {
    const { send } = headgate(unlimited);
    const response = new Response("odd");
    Object.defineProperty(response, "status", { value: 999 });
    vi.spyOn(globalThis, "fetch").mockResolvedValue(response);
    expect(await statusOf(send("/", visitor))).toBe(502);
    expect(events()).toEqual([{ event: "origin-response-invalid", status: 999 }]);
  });

  it("is reported when the body of a response that holds a slot breaks off", async () => {
    const slots = { limit: 5, window: "1m", strategy: "concurrency" };
    const { begin } = headgate({ LIMITS: slots });
    const body = new ReadableStream({
      type: "bytes",
      pull: (controller) => controller.error(new Error("connection lost")),
    });
    vi.spyOn(globalThis, "fetch").mockResolvedValue(new Response(body));
    const { response } = begin("/", visitor);
    await expect((await response).text()).rejects.toThrow("connection lost");
    expect(events()).toEqual([
      { event: "origin-response-broken", error: "Error: connection lost" },
    ]);
  });

  it("is not one when the client goes away", async () => {
    const { begin } = headgate({ ...unlimited, ORIGIN_TIMEOUT: "10s" });
    const leaving = new AbortController();
    const { response } = begin("/slow", { ...visitor, signal: leaving.signal });
    leaving.abort();
    await response.catch(() => undefined);
    expect(events()).toEqual([]);
  });
});

describe("a loop", () => {
  it("is reported once a minute, whether ORIGIN is the Worker's own host or Via names it", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) });
    const self = headgate({ ...unlimited, ORIGIN: "https://headgate.example" });
    expect(await statusOf(self.send("/", visitor))).toBe(508);
    expect(await statusOf(self.send("/", visitor))).toBe(508);
    expect(events()).toEqual([{ event: "origin-loop", reason: "origin-is-self" }]);
    vi.setSystemTime(Date.UTC(2100, 0, 1) + 60_000);
    expect(await statusOf(self.send("/", visitor))).toBe(508);
    expect(lines).toHaveLength(2);
    lines.length = 0;
    const { send } = headgate(unlimited);
    const fetched = vi.spyOn(globalThis, "fetch");
    await statusOf(send("/", visitor));
    const [[forwarded] = []] = fetched.mock.calls;
    const headers = { Via: new Request(forwarded ?? "").headers.get("Via") ?? "" };
    expect(await statusOf(send("/", { headers }))).toBe(508);
    expect(events()).toEqual([{ event: "origin-loop", reason: "via" }]);
  });
});

describe("a gateway that describes no request", () => {
  it("is reported with the fields that are wrong, and without what they hold", async () => {
    const { send } = headgate(unlimited);
    const headers = {
      Authorization: `Bearer ${token}`,
      "X-Original-Method": "GET",
      "X-Original-URI": "canary",
    };
    expect(await statusOf(send("/check/forward", { headers }))).toBe(422);
    expect(events()).toEqual([{ event: "forward-request-invalid", fields: ["X-Original-URI"] }]);
    lines.length = 0;
    const stranger = { ...headers, Authorization: "Bearer another" };
    expect(await statusOf(send("/check/forward", { headers: stranger }))).toBe(401);
    expect(events()).toEqual([]);
  });
});

describe("the level of an event", () => {
  it.for<["log" | "warn" | "error", Event]>([
    ["warn", { event: "configuration-warning", warnings: ["w"] }],
    ["warn", { event: "dry-run-denied", policy: "p", violated: ["p"] }],
    [
      "log",
      { event: "request-denied", policy: "p", reason: "limit", violated: ["p"], retryAfterMs: 1 },
    ],
    ["log", { event: "denials-omitted", omitted: 1 }],
    ["error", { event: "internal-error", error: "e" }],
    ["error", { event: "origin-unreachable", error: "e" }],
  ])("is %s: %j", ([level, event]) => {
    const levels: string[] = [];
    for (const each of ["log", "warn", "error"] as const) {
      vi.spyOn(console, each).mockImplementation(() => void levels.push(each));
    }
    report(event);
    expect(levels).toEqual([level]);
  });
});

describe("the text of an error", () => {
  it.for<[unknown, string]>([
    [new RangeError("too far"), "RangeError: too far"],
    ["a text", "a text"],
    [new Error('no "https://a.example/b?key=1#c"'), 'Error: no "https://a.example/b"'],
    [new Error("wss://me:secret@a.example:1/b/c?d=e next"), "Error: wss://a.example:1/b/c next"],
    [
      new Error("http://a.example#frag, http://b.example?x"),
      "Error: http://a.example http://b.example",
    ],
    [new Error(`https://a.example/?${"k".repeat(2_000)}`), "Error: https://a.example/"],
    [new Error("x".repeat(2_000)), `Error: ${"x".repeat(493)}`],
  ])("of %s is %s", ([error, expected]) => {
    expect(errorText(error)).toBe(expected);
  });
});
