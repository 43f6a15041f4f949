/** The events of failures. Each names what failed, and contains no key, token or query. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
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

describe("failures of the origin", () => {
  it("an origin that does not respond in time is reported", async () => {
    const { send } = headgate({ ...unlimited, ORIGIN_TIMEOUT: "100ms" });
    expect(await statusOf(send("/slow?token=canary", visitor))).toBe(504);
    expect(events()).toEqual([{ event: "origin-too-slow", timeoutMs: 100 }]);
  });

  it("an unreachable origin is reported without the query of the request", async () => {
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

  it("an invalid status of the origin is reported", async () => {
    const { send } = headgate(unlimited);
    const response = new Response("odd");
    Object.defineProperty(response, "status", { value: 999 });
    vi.spyOn(globalThis, "fetch").mockResolvedValue(response);
    expect(await statusOf(send("/", visitor))).toBe(502);
    expect(events()).toEqual([{ event: "origin-response-invalid", status: 999 }]);
  });

  it("a response body that breaks off is reported for a request with a slot", async () => {
    const slots = { limit: 5, window: "1m", strategy: "concurrency" };
    const { begin } = headgate({ LIMITS: slots });
    const body = new ReadableStream({
      type: "bytes",
      pull: (controller) => controller.error(new Error("connection lost")),
    });
    vi.spyOn(globalThis, "fetch").mockResolvedValue(new Response(body));
    const { response } = begin("/", visitor);
    await expect((await response).text()).rejects.toThrow("connection lost");
    expect(events()).toEqual([{ event: "origin-response-broken", error: "Error: connection lost" }]);
  });

  it("a client that goes away is not reported as a failure of the origin", async () => {
    const { begin } = headgate({ ...unlimited, ORIGIN_TIMEOUT: "10s" });
    const client = new AbortController();
    const { response } = begin("/slow", { ...visitor, signal: client.signal });
    client.abort();
    await response.catch(() => undefined);
    expect(events()).toEqual([]);
  });
});

describe("loops", () => {
  it("a forwarding loop is reported at most once a minute, whether ORIGIN or Via reveals it", async () => {
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

describe("invalid descriptions of a gateway", () => {
  it("an invalid description of a request by a gateway is reported with field names, without values", async () => {
    const { send } = headgate(unlimited);
    const headers = {
      Authorization: `Bearer ${token}`,
      "X-Original-Method": "GET",
      "X-Original-URI": "canary",
    };
    expect(await statusOf(send("/check/forward", { headers }))).toBe(422);
    expect(events()).toEqual([{ event: "forward-request-invalid", fields: ["X-Original-URI"] }]);
    lines.length = 0;
    const unauthorized = { ...headers, Authorization: "Bearer another" };
    expect(await statusOf(send("/check/forward", { headers: unauthorized }))).toBe(401);
    expect(events()).toEqual([]);
  });
});
