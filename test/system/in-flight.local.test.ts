import { once } from "node:events";
import { beforeAll, describe, expect, it } from "vitest";
import { randomFrom } from "../random.ts";
import { type Proxied, startProxied } from "./proxied.ts";

const slots = { limit: 3, window: "1h", strategy: "concurrency" };
const queue = { limit: 1, window: "1m", strategy: "leaky-bucket" };

const policies = [
  { name: "slots", limits: [slots, { limit: 100, window: "1h", strategy: "sliding-log" }] },
  { name: "plain", limits: "100/hour" },
  { name: "brief", limits: [{ ...slots, window: "1s" }] },
  { name: "many", limits: [{ ...slots, limit: 2_000 }] },
  { name: "queue", limits: [queue] },
  { name: "quick", limits: [{ ...queue, limit: 5, window: "1s" }] },
  { name: "login", limits: "5/minute", count: { status: ["401"] } },
  { name: "responses-login", limits: [slots, "5/minute"], count: { status: ["401"] } },
];

let proxied: Proxied;
beforeAll(async () => {
  proxied = await startProxied(policies);
  return proxied.close;
});

let keys = 0;
/** A key and a path that no other test uses. */
const own = (policy: string): { policy: string; key: string; path: string } => {
  const key = `key-${(keys += 1)}`;
  return { policy, key, path: `/${policy}/${key}/` };
};

describe("the slot of a request", () => {
  it("a request takes its slot before the origin is called, and frees the slot when the response has ended", async () => {
    const { policy, key, path } = own("slots");
    const client = proxied.send(path, key);
    const { response } = await proxied.origin.nextExchange(path);
    expect(await proxied.remaining(policy, key)).toEqual([2, 99]);
    response.write("begun");
    expect(await client.firstBytes()).toBe("begun");
    expect(await proxied.remaining(policy, key)).toEqual([2, 99]);
    response.end();
    await proxied.untilRemaining(policy, key, 3);
    expect(await proxied.remaining(policy, key)).toEqual([3, 99]);
  });

  it("a fourth concurrent request is denied until one of the three has ended and freed its slot", async () => {
    const { policy, key, path } = own("slots");
    const three = [1, 2, 3].map(() => proxied.send(path, key));
    const exchanges = await Promise.all(three.map(() => proxied.origin.nextExchange(path)));
    const refused = await proxied.send(path, key).answer;
    expect([refused.statusCode, refused.headers["retry-after"]]).toEqual([429, "1"]);
    expect(proxied.origin.requestCount(path)).toBe(3);
    exchanges[0]?.response.end();
    await proxied.untilRemaining(policy, key, 1);
    const next = proxied.send(path, key);
    const { response } = await proxied.origin.nextExchange(path);
    for (const each of [response, ...exchanges.map((exchange) => exchange.response)]) each.end();
    expect(await next.status()).toBe(200);
    await proxied.untilRemaining(policy, key, 3);
  });

  it.each([
    ["204", 204],
    ["304", 304],
  ])("a slot is free immediately after a %s, which has no body", async (_, status) => {
    const { policy, key, path } = own("slots");
    const client = proxied.send(path, key);
    const { response } = await proxied.origin.nextExchange(path);
    response.writeHead(status).end();
    expect(await client.status()).toBe(status);
    await proxied.untilRemaining(policy, key, 3);
  });

  it("a response that streams for longer than the limit's window keeps its slot", async () => {
    const { policy, key, path } = own("brief");
    const client = proxied.send(path, key);
    const { response } = await proxied.origin.nextExchange(path);
    response.write("begun");
    await client.firstBytes();
    const untilMs = Date.now() + 2_500;
    const seen = new Set<number | undefined>();
    // Each look calls the object, and must find that the slot is taken.
    // oxlint-disable-next-line no-await-in-loop
    while (Date.now() < untilMs) seen.add((await proxied.remaining(policy, key))[0]);
    expect([...seen]).toEqual([2]);
    response.end();
    await proxied.untilRemaining(policy, key, 3);
  });
});

describe("a client that disconnects", () => {
  it("when a client disconnects before the response head, its slot is freed, the origin's request aborted, and its cost not refunded", async () => {
    const { policy, key, path } = own("slots");
    const client = proxied.send(path, key);
    const { ended, response } = await proxied.origin.nextExchange(path);
    await client.disconnect("resetAndDestroy");
    await ended;
    expect(response.headersSent).toBe(false);
    await proxied.untilRemaining(policy, key, 3);
    expect(await proxied.remaining(policy, key)).toEqual([3, 99]);
  });

  it("when a client half-closes its connection before the response begins, the Worker notices at the latest when it sends the response", async () => {
    const { policy, key, path } = own("slots");
    const client = proxied.send(path, key);
    const { response } = await proxied.origin.nextExchange(path);
    await client.disconnect("destroy");
    response.end("nobody reads this");
    await proxied.untilRemaining(policy, key, 3);
  });

  it.each([
    ["a body with a Content-Length", 5, { "Content-Length": 1_000 }],
    ["a body in chunks", 5, {}],
    // Large enough that the platform forwards the body in several chunks.
    ["a large body with a Content-Length", 2_000_000, { "Content-Length": 5_000_000 }],
    ["a large body in chunks", 2_000_000, {}],
  ])(
    "a client that disconnects during %s frees its slot, and the origin's other requests continue",
    async (_, bytes, headers) => {
      const { policy, key, path } = own("slots");
      const client = proxied.send(path, key);
      const { response, ended } = await proxied.origin.nextExchange(path);
      response.writeHead(200, headers).write(Buffer.alloc(bytes));
      await client.received(bytes);
      expect(await proxied.remaining(policy, key)).toEqual([2, 99]);
      await client.disconnect("resetAndDestroy");
      await ended;
      expect(response.writableFinished).toBe(false);
      await proxied.untilRemaining(policy, key, 3);
    },
  );

  it("the Worker notices that a client half-closed its connection during a body when it sends more of the body", async () => {
    const { policy, key, path } = own("slots");
    const client = proxied.send(path, key);
    const { response, ended } = await proxied.origin.nextExchange(path);
    response.write("begun");
    await client.received(5);
    await client.disconnect("destroy");
    const ticks = setInterval(() => response.write("more"), 10);
    await ended;
    clearInterval(ticks);
    await proxied.untilRemaining(policy, key, 3);
  });

  it.each(["destroy", "resetAndDestroy"] as const)(
    "a client that disconnects during its request body frees its slot, and the origin's other requests continue: %s",
    async (how) => {
      const { policy, key, path } = own("slots");
      const client = proxied.send(path, key, { method: "POST", body: "begun" });
      const { request } = await proxied.origin.nextExchange(path);
      const cut = new Promise((resolve) => void request.on("error", resolve));
      expect(String((await once(request, "data"))[0])).toBe("begun");
      await client.disconnect(how);
      expect(await cut).toMatchObject({ code: "ECONNRESET" });
      await proxied.untilRemaining(policy, key, 3);
    },
  );

  it.each(["destroy", "resetAndDestroy"] as const)(
    "a client that disconnects with most of a large body unread frees its slot, and the origin's other requests continue: %s",
    async (how) => {
      const { policy, key, path } = own("slots");
      const client = proxied.send(path, key);
      const { response, ended } = await proxied.origin.nextExchange(path);
      response.end(Buffer.alloc(50_000_000));
      (await client.answer).pause().on("error", () => undefined);
      expect(await proxied.remaining(policy, key)).toEqual([2, 99]);
      await client.disconnect(how);
      await ended;
      expect(response.writableFinished).toBe(false);
      await proxied.untilRemaining(policy, key, 3);
    },
  );

  it("a client that disconnects during a response is refunded if the policy does not count such responses", async () => {
    const { policy, key, path } = own("responses-login");
    const client = proxied.send(path, key);
    const { response } = await proxied.origin.nextExchange(path);
    response.write("welcome");
    await client.firstBytes();
    await client.disconnect("resetAndDestroy");
    await proxied.untilRemaining(policy, key, 3);
    expect(await proxied.remaining(policy, key)).toEqual([3, 5]);
  });
});

describe("a client that disconnects without a slot or reservation", () => {
  it("the origin's request is aborted when a client without a slot disconnects before the response head", async () => {
    const { key, path } = own("plain");
    const client = proxied.send(path, key);
    const { ended, response } = await proxied.origin.nextExchange(path);
    await client.disconnect("resetAndDestroy");
    await ended;
    expect(response.writableEnded).toBe(false);
  });

  it("the origin's request is aborted when a client without a slot disconnects during the body", async () => {
    const { key, path } = own("plain");
    const client = proxied.send(path, key);
    const { ended, response } = await proxied.origin.nextExchange(path);
    response.write("begun");
    expect(await client.firstBytes()).toBe("begun");
    await client.disconnect("resetAndDestroy");
    await ended;
    expect(response.writableEnded).toBe(false);
  });
});

describe("an origin that fails", () => {
  it("when an origin closes the connection before its response head, the client gets a 502 and the slot is freed", async () => {
    const { policy, key, path } = own("slots");
    // A request on a reused connection may be retried, so the test makes every attempt fail.
    proxied.origin.answers.set(path, ({ response }) => response.socket?.resetAndDestroy());
    expect(await proxied.send(path, key).status()).toBe(502);
    await proxied.untilRemaining(policy, key, 3);
  });

  it.each([
    ["with a Content-Length", { "Content-Length": 1_000 }],
    ["in chunks", {}],
  ])("an origin that fails during a body %s ends the response and frees the slot", async (_, headers) => {
    const { policy, key, path } = own("slots");
    const client = proxied.send(path, key);
    const { response } = await proxied.origin.nextExchange(path);
    response.writeHead(200, headers).write("begun");
    expect(await client.firstBytes()).toBe("begun");
    const cut = new Promise((resolve) => void client.answer.then((each) => each.on("error", resolve)));
    response.socket?.resetAndDestroy();
    expect(await cut).toMatchObject({ code: "ECONNRESET" });
    await proxied.untilRemaining(policy, key, 3);
  });

  it("when the origin is unreachable, the client gets a 502 and the slot is freed", async () => {
    const { policy, key, path } = own("slots");
    const { origin } = proxied;
    const port = Number(new URL(origin.url).port);
    await origin.close();
    expect(await proxied.send(path, key).status()).toBe(502);
    await proxied.untilRemaining(policy, key, 3);
    await origin.listen(port);
  });
});

describe("a thousand requests whose clients disconnect at random times", () => {
  const moments = ["at once", "before the head", "in the midst of the body", "after it", "never"];

  it("after a thousand requests with random disconnects, every slot is free and no request is open at the origin", async () => {
    const { policy, key, path } = own("many");
    const next = randomFrom(7);
    const below = (most: number): number => Math.floor(next() * most);
    const statuses = new Set<number>();
    let open = 0;
    proxied.origin.answers.set(`${path}gone/`, ({ response }) => response.end("0123456789"));

    const request = async (number: number): Promise<void> => {
      const moment = moments[below(moments.length)];
      const how = below(2) === 0 ? "destroy" : "resetAndDestroy";
      const headers = below(2) === 0 ? {} : { "Content-Length": 20 };
      if (moment === "at once") {
        const turns = below(30);
        const client = proxied.send(`${path}gone/${number}`, key);
        await client.socket;
        // oxlint-disable-next-line no-await-in-loop
        for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate);
        return client.disconnect(how);
      }
      const client = proxied.send(`${path}${number}`, key);
      const { response, ended } = await proxied.origin.nextExchange(`${path}${number}`);
      open += 1;
      void ended.then(() => (open -= 1));
      if (moment === "before the head") await client.disconnect(how);
      response.writeHead(200, headers).write("0123456789");
      if (moment === "in the midst of the body") {
        await client.firstBytes();
        await client.disconnect(how);
      }
      response.end("0123456789");
      if (moment === "after it" || moment === "never") statuses.add(await client.status());
      if (moment === "after it") await client.disconnect(how);
    };

    let number = 0;
    const inTurn = async (): Promise<void> => {
      // oxlint-disable-next-line no-await-in-loop
      while (number < 1_000) await request((number += 1));
    };
    await Promise.all(Array.from({ length: 40 }, inTurn));
    await proxied.untilRemaining(policy, key, 2_000);
    await expect.poll(() => open).toBe(0);
    expect([...statuses]).toEqual([200]);
  });
});

describe("a leaky-bucket queue", () => {
  it("a queued request waits in the Worker for its departure slot", async () => {
    const { key, path } = own("quick");
    const startMs = performance.now();
    const { origin } = proxied;
    origin.answers.set(path, ({ response }) => response.end());
    const three = [1, 2, 3].map(async () => {
      expect(await proxied.send(path, key).status()).toBe(200);
      return performance.now() - startMs;
    });
    const [first = 0, second = 0, third = 0] = (await Promise.all(three)).toSorted((a, b) => a - b);
    expect(first).toBeLessThan(second);
    expect(second).toBeGreaterThan(199);
    expect(third).toBeGreaterThan(399);
  });

  it("when a queued client disconnects, its departure slot is refunded, and its request never reaches the origin", async () => {
    const { policy, key, path } = own("queue");
    const first = proxied.send(path, key);
    const { response } = await proxied.origin.nextExchange(path);
    response.end();
    expect(await first.status()).toBe(200);
    const before = await proxied.remaining(policy, key);
    const second = proxied.send(path, key);
    await proxied.untilRemaining(policy, key, (before[0] ?? 0) - 1);
    await second.disconnect("resetAndDestroy");
    await proxied.untilRemaining(policy, key, before[0] ?? 0);
    expect(proxied.origin.requestCount(path)).toBe(1);
  });
});

describe("a cost that depends on the response", () => {
  it("a client that disconnects before the response head is charged the reserved cost", async () => {
    const { policy, key, path } = own("login");
    const client = proxied.send(path, key);
    const { ended } = await proxied.origin.nextExchange(path);
    await client.disconnect("resetAndDestroy");
    await ended;
    await proxied.untilRemaining(policy, key, 4);
  });
});
