import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { clockName } from "../../../src/limiter/clock.ts";
import type { RenewCall } from "../../../src/limiter/protocol.ts";
import { startMs, TestClock } from "../../fakes/isolate.ts";
import { from, type Headgate, headgate, statusOf } from "../harness.ts";

const address = "203.0.113.7";
const visitor = from(address);
const slots = { limit: 3, window: "1m", strategy: "concurrency" };

afterEach(() => void vi.restoreAllMocks());

/** The remaining units of each limit of a policy. */
async function remainingOf({ check }: Headgate, policy = "default"): Promise<number[]> {
  const key = policy === "watch" ? "" : `&key=${address}`;
  const response = await check("GET", `/check?policy=${policy}${key}`);
  const { limits } = await response.json<{ limits: { remaining: number }[] }>();
  return limits.map(({ remaining }) => remaining);
}

/** Makes the origin answer with these responses, one after the other. */
const mockOrigin = (...responses: Response[]): ReturnType<typeof vi.spyOn> =>
  responses.reduce((fetching, response) => fetching.mockResolvedValueOnce(response), vi.spyOn(globalThis, "fetch"));

/** A response whose body the test writes. */
function streamed(init?: ResponseInit): { response: Response; body: WritableStreamDefaultWriter } {
  const { readable, writable } = new IdentityTransformStream();
  return { response: new Response(readable, init), body: writable.getWriter() };
}

const bytes = (size: number): Uint8Array => new Uint8Array(size).fill(120);

describe("a response's body", () => {
  it("without a concurrency limit, the origin's body stream is passed on unchanged", async () => {
    const { response: origin } = streamed();
    const { body } = origin;
    mockOrigin(origin);
    const { begin } = headgate({
      POLICIES: [{ name: "p", limits: "5/minute", count: { status: [401] } }],
    });
    expect((await begin("/", visitor).response).body).toBe(body);
  });

  it("a body of up to 64 KiB releases its slot as soon as the origin ends it, even before the client reads it", async () => {
    const own = headgate({ LIMITS: slots });
    const { response: origin, body } = streamed();
    mockOrigin(origin);
    const { response, finished } = own.begin("/", visitor);
    const unread = await response;
    await body.write(bytes(40_000));
    await body.write(bytes(25_536));
    expect(await remainingOf(own)).toEqual([2]);
    await body.close();
    await finished();
    expect(await remainingOf(own)).toEqual([3]);
    expect((await unread.arrayBuffer()).byteLength).toBe(65_536);
  });

  it("a body of more than 64 KiB holds its slot until the client has read it", async () => {
    const own = headgate({ LIMITS: slots });
    mockOrigin(new Response(bytes(1_000_000)));
    const { response, finished } = own.begin("/", visitor);
    const unread = await response;
    expect(await remainingOf(own)).toEqual([2]);
    expect((await unread.arrayBuffer()).byteLength).toBe(1_000_000);
    await finished();
    expect(await remainingOf(own)).toEqual([3]);
  });

  it.each([
    ["with Content-Length", { headers: { "Content-Length": "100" } }],
    ["in chunks", {}],
  ])("a body %s that the client cancels releases its slot and cancels the origin's body", async (_, init) => {
    const own = headgate({ LIMITS: slots });
    const { response: origin, body } = streamed(init);
    mockOrigin(origin);
    const { response, finished } = own.begin("/", visitor);
    const reader = (await response).body?.getReader();
    await Promise.all([body.write(bytes(10)), reader?.read()]);
    expect(await remainingOf(own)).toEqual([2]);
    await reader?.cancel("enough");
    // When a reader in the same isolate cancels, workerd reports the cancellation only at the next write.
    await body.write(bytes(10));
    await finished();
    expect(await remainingOf(own)).toEqual([3]);
    await expect(body.write(bytes(10))).rejects.toThrow("connection lost");
  });

  it("a body is read from the origin in chunks of 64 KiB", async () => {
    const sizes: (number | undefined)[] = [];
    const body = new ReadableStream({
      type: "bytes",
      pull(controller) {
        const { byobRequest } = controller;
        sizes.push(byobRequest?.view?.byteLength);
        if (sizes.length === 2) {
          controller.close();
          byobRequest?.respond(0);
        } else byobRequest?.respond(10);
      },
    });
    mockOrigin(new Response(body));
    const { send } = headgate({ LIMITS: slots });
    expect((await (await send("/", visitor)).arrayBuffer()).byteLength).toBe(10);
    expect(sizes).toEqual([65_536, 65_536]);
  });
});

describe("reservations of a request", () => {
  /** A time ahead of the real clock, which alarms follow, so that no alarm is overdue. */
  beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
  afterEach(() => void vi.useRealTimers());

  /** The real objects with a record of their renewals, and a clock for the isolate. */
  function recordRenewals() {
    const renewals: Promise<unknown>[] = [];
    const clock = new TestClock();
    const pass = async (ms: number): Promise<void> => {
      vi.setSystemTime(clock.now() + ms);
      await clock.pass(ms);
      await Promise.all(renewals);
    };
    const getByName: typeof env.RATE_LIMITER.getByName = (name, options) => {
      const stub = env.RATE_LIMITER.getByName(name, options);
      return new Proxy(stub, {
        get: (_, method: "renew") =>
          method === "renew"
            ? (call: RenewCall) => {
                const renewed = stub.renew(call);
                renewals.push(renewed);
                return renewed;
              }
            : stub[method],
      });
    };
    return { objects: { getByName, [clockName]: clock }, renewals, pass };
  }

  it.each([
    ["10s", 5_000],
    ["1h", 30_000],
  ])("a slot with a window of %s is renewed every %i ms while the response streams", async (window, everyMs) => {
    const { objects, renewals, pass } = recordRenewals();
    const own = headgate({ LIMITS: { ...slots, window }, RATE_LIMITER: objects });
    const { response: origin, body } = streamed();
    mockOrigin(origin);
    const { response, finished } = own.begin("/", visitor);
    const reader = (await response).body?.getReader();
    for (let renewal = 1; renewal <= 5; renewal++) {
      // oxlint-disable no-await-in-loop
      await pass(everyMs - 1);
      expect(renewals).toHaveLength(renewal - 1);
      await pass(1);
      expect(renewals).toHaveLength(renewal);
      expect(await remainingOf(own)).toEqual([2]);
      // oxlint-enable no-await-in-loop
    }
    await Promise.all([body.close(), reader?.read()]);
    await finished();
    expect(await remainingOf(own)).toEqual([3]);
    await pass(everyMs);
    expect(renewals).toHaveLength(5);
  });

  it("a cost is settled even when the origin answers after 5 minutes", async () => {
    const { objects, pass } = recordRenewals();
    const login = { name: "login", limits: "5/day", count: { status: ["401"] } };
    const own = headgate({ POLICIES: [login], RATE_LIMITER: objects });
    const { promise: slow, resolve: respond } = Promise.withResolvers<Response>();
    const fetching = vi.spyOn(globalThis, "fetch").mockReturnValueOnce(slow);
    const { response, finished } = own.begin("/", visitor);
    await expect.poll(() => fetching.mock.calls.length).toBe(1);
    for (let renewal = 0; renewal < 10; renewal++) {
      // oxlint-disable-next-line no-await-in-loop
      await pass(30_000);
    }
    expect(await remainingOf(own, "login")).toEqual([4]);
    respond(new Response("welcome"));
    expect(await statusOf(response)).toBe(200);
    await finished();
    expect(await remainingOf(own, "login")).toEqual([5]);
  });
});

describe("a WebSocket whose origin never closes", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
  afterEach(() => void vi.useRealTimers());

  it("a WebSocket whose origin does not answer the client's close frame releases its slot after 10 seconds", async () => {
    const own = headgate({ LIMITS: slots });
    const { 0: fromOrigin, 1: origin } = new WebSocketPair();
    mockOrigin(new Response(null, { status: 101, webSocket: fromOrigin }));
    const { promise: closed, resolve: onClose } = Promise.withResolvers<CloseEvent>();
    origin.addEventListener("close", onClose);
    origin.accept({ allowHalfOpen: true });
    const { response, finished } = own.begin("/", {
      headers: { ...visitor.headers, Upgrade: "websocket" },
    });
    const client = (await response).webSocket;
    client?.accept();
    client?.close(1000, "enough");
    expect((await closed).reason).toBe("enough");
    vi.advanceTimersByTime(9_999);
    expect(await remainingOf(own)).toEqual([2]);
    vi.advanceTimersByTime(1);
    await finished();
    expect(await remainingOf(own)).toEqual([3]);
    origin.close();
  });
});

describe("several policies with reservations", () => {
  const api = { name: "api", limits: "100/day" };
  const global = { name: "watch", key: "global", limits: [{ ...slots, limit: 1 }], dryRun: true };

  it("a dry run of a concurrency limit denies nothing, and releases its slots", async () => {
    const warned = vi.spyOn(console, "warn").mockReturnValue(undefined);
    const own = headgate({ POLICIES: [{ ...api, limits: [slots] }, global] });
    const [first, second] = [streamed(), streamed()];
    mockOrigin(first.response, second.response);
    const requests = [own.begin("/", visitor), own.begin("/", visitor)];
    for (const { response } of requests) {
      // oxlint-disable-next-line no-await-in-loop
      expect((await response).status).toBe(200);
    }
    const dryRunLines = (): string[] =>
      warned.mock.calls.map(String).filter((line) => line.includes('"event":"dry-run-denied"'));
    await expect.poll(dryRunLines).toEqual([expect.stringContaining('"policy":"watch"')]);
    expect([await remainingOf(own, "api"), await remainingOf(own, "watch")]).toEqual([[1], [0]]);
    await Promise.all([first.body.close(), second.body.close()]);
    await Promise.all(requests.map(({ finished }) => finished()));
    expect([await remainingOf(own, "api"), await remainingOf(own, "watch")]).toEqual([[3], [1]]);
  });
});

describe("a client that is gone before the decision", () => {
  it("a request whose client leaves before the decision is not forwarded, and stays charged unless the charge was reserved", async () => {
    const own = headgate({ LIMITS: "5/day" });
    const fetching = vi.spyOn(globalThis, "fetch");
    const client = new AbortController();
    const { response, finished } = own.begin("/", { ...visitor, signal: client.signal });
    client.abort();
    expect((await response).status).toBe(499);
    await finished();
    expect(fetching).not.toHaveBeenCalled();
    expect(await remainingOf(own)).toEqual([4]);
  });
});
