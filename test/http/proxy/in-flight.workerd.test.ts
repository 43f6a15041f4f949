import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { RenewCall } from "../../../src/limiter/protocol.ts";
import { from, type Headgate, headgate, statusOf } from "../harness.ts";

const address = "203.0.113.7";
const visitor = from(address);
const slots = { limit: 3, window: "1m", strategy: "concurrency" };

afterEach(() => void vi.restoreAllMocks());

/** What is left of each limit of a policy. */
async function left({ check }: Headgate, policy = "default"): Promise<number[]> {
  const key = policy === "watch" ? "" : `&key=${address}`;
  const response = await check("GET", `/check?policy=${policy}${key}`);
  const { limits } = await response.json<{ limits: { remaining: number }[] }>();
  return limits.map(({ remaining }) => remaining);
}

/** The origin answers so, whatever it is asked. */
const originAnswers = (...answers: Response[]): ReturnType<typeof vi.spyOn> =>
  answers.reduce(
    (fetching, answer) => fetching.mockResolvedValueOnce(answer),
    vi.spyOn(globalThis, "fetch"),
  );

/** A response whose body comes when the test writes it. */
function written(init?: ResponseInit): { answer: Response; body: WritableStreamDefaultWriter } {
  const { readable, writable } = new IdentityTransformStream();
  return { answer: new Response(readable, init), body: writable.getWriter() };
}

const bytes = (size: number): Uint8Array => new Uint8Array(size).fill(120);

describe("a response's body", () => {
  it("is the very one that the origin's had, without a limit of concurrency", async () => {
    const { answer } = written();
    const { body } = answer;
    originAnswers(answer);
    const { begin } = headgate({
      POLICIES: [{ name: "p", limits: "5/minute", count: { status: [401] } }],
    });
    expect((await begin("/", visitor).response).body).toBe(body);
  });

  it("of up to 64 KiB holds its slot no longer than the origin takes, whoever reads it and when", async () => {
    const own = headgate({ LIMITS: slots });
    const { answer, body } = written();
    originAnswers(answer);
    const { response, over } = own.begin("/", visitor);
    const unread = await response;
    await body.write(bytes(40_000));
    await body.write(bytes(25_536));
    expect(await left(own)).toEqual([2]);
    await body.close();
    await over();
    expect(await left(own)).toEqual([3]);
    expect((await unread.arrayBuffer()).byteLength).toBe(65_536);
  });

  it("of more holds its slot until it has been read", async () => {
    const own = headgate({ LIMITS: slots });
    originAnswers(new Response(bytes(1_000_000)));
    const { response, over } = own.begin("/", visitor);
    const unread = await response;
    expect(await left(own)).toEqual([2]);
    expect((await unread.arrayBuffer()).byteLength).toBe(1_000_000);
    await over();
    expect(await left(own)).toEqual([3]);
  });

  it.each([
    ["of a length that is told", { headers: { "Content-Length": "100" } }],
    ["in chunks", {}],
  ])("%s that nobody wants any more frees its slot, and the origin is told", async (_, init) => {
    const own = headgate({ LIMITS: slots });
    const { answer, body } = written(init);
    originAnswers(answer);
    const { response, over } = own.begin("/", visitor);
    const reader = (await response).body?.getReader();
    await Promise.all([body.write(bytes(10)), reader?.read()]);
    expect(await left(own)).toEqual([2]);
    await reader?.cancel("enough");
    // Of a reader in the same isolate workerd tells at the next write; of a client at once.
    await body.write(bytes(10));
    await over();
    expect(await left(own)).toEqual([3]);
    await expect(body.write(bytes(10))).rejects.toThrow("connection lost");
  });

  it("is taken from the origin in large pieces", async () => {
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
    originAnswers(new Response(body));
    const { send } = headgate({ LIMITS: slots });
    expect((await (await send("/", visitor)).arrayBuffer()).byteLength).toBe(10);
    expect(sizes).toEqual([65_536, 65_536]);
  });
});

describe("what is reserved for a request", () => {
  /** Ahead of the real clock, which alarms follow. */
  beforeEach(() => {
    const toFake = ["Date", "setInterval", "clearInterval"] as const;
    vi.useFakeTimers({ toFake: [...toFake], now: Date.UTC(2100, 0, 1) });
  });
  afterEach(() => void vi.useRealTimers());

  /** The real objects, and the renewals that they are asked for. */
  function watched(): { objects: object; renewals: Promise<unknown>[] } {
    const renewals: Promise<unknown>[] = [];
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
    return { objects: { getByName }, renewals };
  }

  it.each([
    ["10s", 5_000],
    ["1h", 30_000],
  ])(
    "in a window of %s is renewed every %i ms while its response streams",
    async (window, everyMs) => {
      const { objects, renewals } = watched();
      const own = headgate({ LIMITS: { ...slots, window }, RATE_LIMITER: objects });
      const { answer, body } = written();
      originAnswers(answer);
      const { response, over } = own.begin("/", visitor);
      const reader = (await response).body?.getReader();
      for (let renewal = 1; renewal <= 5; renewal++) {
        // oxlint-disable no-await-in-loop
        vi.advanceTimersByTime(everyMs - 1);
        expect(renewals).toHaveLength(renewal - 1);
        vi.advanceTimersByTime(1);
        expect(renewals).toHaveLength(renewal);
        await Promise.all(renewals);
        expect(await left(own)).toEqual([2]);
        // oxlint-enable no-await-in-loop
      }
      await Promise.all([body.close(), reader?.read()]);
      await over();
      expect(await left(own)).toEqual([3]);
      expect(vi.getTimerCount()).toBe(0);
    },
  );

  it("is corrected however long the origin takes to answer", async () => {
    const { objects, renewals } = watched();
    const login = { name: "login", limits: "5/day", count: { status: ["401"] } };
    const own = headgate({ POLICIES: [login], RATE_LIMITER: objects });
    const { promise: slow, resolve: answer } = Promise.withResolvers<Response>();
    const asked = vi.spyOn(globalThis, "fetch").mockReturnValueOnce(slow);
    const { response, over } = own.begin("/", visitor);
    await expect.poll(() => asked.mock.calls.length).toBe(1);
    for (let renewal = 0; renewal < 10; renewal++) {
      vi.advanceTimersByTime(30_000);
      // oxlint-disable-next-line no-await-in-loop
      await Promise.all(renewals);
    }
    expect(await left(own, "login")).toEqual([4]);
    answer(new Response("welcome"));
    expect(await statusOf(response)).toBe(200);
    await over();
    expect(await left(own, "login")).toEqual([5]);
  });
});

describe("a WebSocket whose origin never answers a client that closes", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
  afterEach(() => void vi.useRealTimers());

  it("frees its slot ten seconds later", async () => {
    const own = headgate({ LIMITS: slots });
    const { 0: answered, 1: origin } = new WebSocketPair();
    originAnswers(new Response(null, { status: 101, webSocket: answered }));
    const { promise: told, resolve: tell } = Promise.withResolvers<CloseEvent>();
    origin.addEventListener("close", tell);
    origin.accept({ allowHalfOpen: true });
    const { response, over } = own.begin("/", {
      headers: { ...visitor.headers, Upgrade: "websocket" },
    });
    const client = (await response).webSocket;
    client?.accept();
    client?.close(1000, "enough");
    expect((await told).reason).toBe("enough");
    vi.advanceTimersByTime(9_999);
    expect(await left(own)).toEqual([2]);
    vi.advanceTimersByTime(1);
    await over();
    expect(await left(own)).toEqual([3]);
    origin.close();
  });
});

describe("of several policies of a request", () => {
  const login = { name: "login", limits: "5/day", count: { status: ["401"] } };
  const api = { name: "api", limits: "100/day" };
  const global = { name: "watch", key: "global", limits: [{ ...slots, limit: 1 }], dryRun: true };

  it("each is charged by the response as it says, also where they share a key", async () => {
    const own = headgate({ POLICIES: [login, api] });
    originAnswers(new Response("welcome"), new Response("wrong", { status: 401 }));
    expect(await statusOf(own.send("/", visitor))).toBe(200);
    expect([await left(own, "login"), await left(own, "api")]).toEqual([[5], [99]]);
    expect(await statusOf(own.send("/", visitor))).toBe(401);
    expect([await left(own, "login"), await left(own, "api")]).toEqual([[4], [98]]);
  });

  it("none is charged when one denies", async () => {
    const own = headgate({ POLICIES: [login, { ...api, limits: "1/day" }] });
    originAnswers(new Response("wrong", { status: 401 }));
    expect(await statusOf(own.send("/", visitor))).toBe(401);
    expect(await statusOf(own.send("/", visitor))).toBe(429);
    expect([await left(own, "login"), await left(own, "api")]).toEqual([[4], [0]]);
  });

  it("a dry run with slots holds what there is, refuses nobody, and gives it back", async () => {
    const warned = vi.spyOn(console, "warn").mockReturnValue(undefined);
    const own = headgate({ POLICIES: [{ ...api, limits: [slots] }, global] });
    const [first, second] = [written(), written()];
    originAnswers(first.answer, second.answer);
    const requests = [own.begin("/", visitor), own.begin("/", visitor)];
    for (const { response } of requests) {
      // oxlint-disable-next-line no-await-in-loop
      expect((await response).status).toBe(200);
    }
    const dryRunLines = (): string[] =>
      warned.mock.calls.map(String).filter((line) => line.includes('"event":"dry-run-denied"'));
    await expect.poll(dryRunLines).toEqual([expect.stringContaining('"policy":"watch"')]);
    expect([await left(own, "api"), await left(own, "watch")]).toEqual([[1], [0]]);
    await Promise.all([first.body.close(), second.body.close()]);
    await Promise.all(requests.map(({ over }) => over()));
    expect([await left(own, "api"), await left(own, "watch")]).toEqual([[3], [1]]);
  });
});

describe("a client that has gone away before its request is decided", () => {
  it("is not forwarded, and has spent where nothing is to be given back", async () => {
    const own = headgate({ LIMITS: "5/day" });
    const asked = vi.spyOn(globalThis, "fetch");
    const gone = new AbortController();
    const { response, over } = own.begin("/", { ...visitor, signal: gone.signal });
    gone.abort();
    expect((await response).status).toBe(499);
    await over();
    expect(asked).not.toHaveBeenCalled();
    expect(await left(own)).toEqual([4]);
  });
});
