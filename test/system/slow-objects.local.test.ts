import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Decision, parseLimits } from "../../src/strategies/index.ts";
import { type Client, type Exchange, type Origin, type Proxied, startProxied } from "./proxied.ts";

const slots = { limit: 3, window: "1h", strategy: "concurrency" };
const log = { limit: 100, window: "1h", strategy: "sliding-log" };
const soon = { timeout: "50ms" };

const policies = [
  { name: "patient", limits: [slots, log], timeout: "30s" },
  { name: "queue", limits: [{ ...slots, strategy: "leaky-bucket" }], timeout: "30s" },
  { name: "plain", limits: [log], timeout: "30s" },
  { name: "watched", limits: [slots], dryRun: true, timeout: "30s" },
  { name: "open", limits: [slots], onError: "open", ...soon },
  { name: "closed", limits: [slots], onError: "closed", ...soon },
  { name: "local", limits: [slots], onError: "local", ...soon },
  { name: "pair", limits: [slots, log] },
  { name: "one", match: { path: "/pair/*" }, key: "global", limits: [{ ...slots, limit: 1 }] },
];

/** Objects that complete a decision or a settlement only when the test's origin answers for it. */
const entryFor = ({ url }: Origin): string => `
  import { RateLimiter as Own } from "./index.js";
  export * from "./index.js";
  export { default } from "./index.js";

  async function letGo(name, { key, charges: [charge] = [] }) {
    const { ok } = await fetch(["${url}/objects", name, charge?.policy ?? "any", key].join("/"));
    if (!ok) throw new Error("let down");
  }

  export class RateLimiter extends Own {
    async decide(texts, checks) {
      const verdict = super.decide(texts, checks);
      await letGo("check", { key: checks[0], charges: [JSON.parse(texts[0])] });
      return verdict;
    }
    async reserve(call) {
      const verdict = super.reserve(call);
      await letGo("reserve", call);
      return verdict;
    }
    async settle(call) {
      await letGo("settle", call);
      return super.settle(call);
    }
  }
`;

/** A Worker that calls an object directly. Headgate itself would skip an object that has just failed. */
const other = `
  export default {
    async fetch(request, { RATE_LIMITER }) {
      const { key, charges } = await request.json();
      const { decisions } = await RATE_LIMITER.getByName(key).look({ key, charges });
      return Response.json(decisions);
    },
  };
`;

let proxied: Proxied;
beforeAll(async () => {
  proxied = await startProxied(policies, (origin) => ({ entry: entryFor(origin), other }));
  return proxied.close;
});

/** Objects answer immediately, except for calls that a test holds back. */
beforeEach(() => void proxied.origin.answers.set("/objects/", ({ response }) => response.end()));
afterEach(() => proxied.origin.answers.clear());

/** The next call, once the object has executed it. Calls after it, such as that of a look, are not delayed. */
const pausedCall = (call: string): Promise<Exchange> => {
  const { promise, resolve } = Promise.withResolvers<Exchange>();
  const path = `/objects/${call}`;
  proxied.origin.answers.set(path, (exchange) => {
    proxied.origin.answers.delete(path);
    resolve(exchange);
  });
  return promise;
};

const letDown = ({ response }: Exchange): unknown => response.writeHead(500).end();

let keys = 0;
/** A key and a path that no other test uses. */
const own = (policy: string): { policy: string; key: string; path: string } => {
  const key = `key-${(keys += 1)}`;
  return { policy, key, path: `/${policy}/${key}/` };
};

/** The remaining slots of a policy, as reported by the object of this call. */
async function slotsOf(policy: string, { request }: Exchange): Promise<number | undefined> {
  const key = request.url?.split("/").at(-1);
  const charges = [{ policy, limits: parseLimits([slots]), cost: 1 }];
  const body = JSON.stringify({ key, charges });
  const response = await fetch(proxied.workerd.otherUrl, { method: "POST", body });
  const [decision] = await response.json<Decision[]>();
  return decision?.limits[0]?.remaining;
}

const allFree = (policy: string, call: Exchange): Promise<void> =>
  expect.poll(() => slotsOf(policy, call), { timeout: 10_000, interval: 10 }).toBe(3);

/** Disconnects the client. Any later request makes the Worker notice the disconnect. */
async function gone(client: Client): Promise<void> {
  await client.disconnect("resetAndDestroy");
  await proxied.remaining("plain", "any");
}

describe("a client that disconnects during the object's decision", () => {
  it("a client that disconnects during the decision is refunded, and the origin is never called", async () => {
    const { policy, key, path } = own("patient");
    const decided = pausedCall("reserve/patient");
    const client = proxied.send(path, key);
    const { response } = await decided;
    expect(await proxied.remaining(policy, key)).toEqual([2, 99]);
    await gone(client);
    response.end();
    await proxied.untilRemaining(policy, key, 3);
    expect(await proxied.remaining(policy, key)).toEqual([3, 100]);
    expect(proxied.origin.requestCount(path)).toBe(0);
  });

  it("a client that disconnects during the decision returns its departure slot in the queue", async () => {
    const { policy, key, path } = own("queue");
    const first = proxied.send(path, key);
    (await proxied.origin.nextExchange(path)).response.end();
    expect(await first.status()).toBe(200);
    const [before = 0] = await proxied.remaining(policy, key);
    const decided = pausedCall("check/queue");
    const second = proxied.send(path, key);
    const { response } = await decided;
    expect(await proxied.remaining(policy, key)).toEqual([before - 1]);
    await gone(second);
    response.end();
    await proxied.untilRemaining(policy, key, before);
    expect(proxied.origin.requestCount(path)).toBe(1);
  });
});

describe("an object that answers after the deadline", () => {
  it.each(["open", "local"])(
    "the slot of a late reply stays taken until the end of the request that was allowed before the reply arrived: %s",
    async (policy) => {
      const { key, path } = own(policy);
      const decided = pausedCall(`reserve/${policy}`);
      const client = proxied.send(path, key);
      const [late, { response }] = [await decided, await proxied.origin.nextExchange(path)];
      response.write("begun");
      await client.firstBytes();
      late.response.end();
      await late.ended;
      for (let look = 0; look < 5; look++) {
        // oxlint-disable-next-line no-await-in-loop
        expect(await slotsOf(policy, late)).toBe(2);
      }
      response.end();
      await allFree(policy, late);
    },
  );

  it.each(["open", "local"])(
    "the slot of a late reply is freed if the request has already ended: %s",
    async (policy) => {
      const { key, path } = own(policy);
      const decided = pausedCall(`reserve/${policy}`);
      const client = proxied.send(path, key);
      const [late, { response }] = [await decided, await proxied.origin.nextExchange(path)];
      response.end("done");
      expect(await client.status()).toBe(200);
      expect(await slotsOf(policy, late)).toBe(2);
      late.response.end();
      await allFree(policy, late);
    },
  );

  it("a late reply about a dry run delays no request, and the slot that it reports is freed", async () => {
    const { policy, key, path } = own("watched");
    const decided = pausedCall("reserve/watched");
    const client = proxied.send(path, key);
    const [late, { response }] = [await decided, await proxied.origin.nextExchange(path)];
    response.end("done");
    expect(await client.status()).toBe(200);
    expect(await slotsOf(policy, late)).toBe(2);
    late.response.end();
    await allFree(policy, late);
  });

  it("when a request is denied because the reply was late, the slot that the late reply reports is freed", async () => {
    const { policy, key, path } = own("closed");
    const decided = pausedCall("reserve/closed");
    const client = proxied.send(path, key);
    const late = await decided;
    expect(await client.status()).toBe(503);
    expect(await slotsOf(policy, late)).toBe(2);
    late.response.end();
    await allFree(policy, late);
    expect(proxied.origin.requestCount(path)).toBe(0);
  });
});

describe("while objects fail", () => {
  it("an isolate counts slots locally while the object fails, and frees them when requests end", async () => {
    const { key, path } = own("local");
    proxied.origin.answers.set("/objects/reserve/local", letDown);
    const four = [1, 2, 3, 4].map(() => proxied.send(path, key));
    const three = await Promise.all([1, 2, 3].map(() => proxied.origin.nextExchange(path)));
    expect(await Promise.race(four.map((client) => client.status()))).toBe(429);
    for (const { response } of three) response.end();
    await Promise.all(four.map((client) => client.status()));
    const more = [1, 2, 3].map(() => proxied.send(path, key));
    for (const { response } of await Promise.all(more.map(() => proxied.origin.nextExchange(path)))) {
      response.end();
    }
    expect(await Promise.all(more.map((client) => client.status()))).toEqual([200, 200, 200]);
  });

  it("a failed settlement is retried, and then frees the slot", async () => {
    const { policy, key, path } = own("patient");
    const failed = pausedCall("settle");
    const client = proxied.send(path, key);
    (await proxied.origin.nextExchange(path)).response.end();
    expect(await client.status()).toBe(200);
    const exchange = await failed;
    proxied.origin.answers.delete("/objects/settle");
    letDown(exchange);
    await allFree(policy, exchange);
  });
});

describe("a request with two keys", () => {
  it("when the second key denies, the charge of the first key is refunded", async () => {
    const { policy, key, path } = own("pair");
    const first = proxied.send(path, key);
    const { response } = await proxied.origin.nextExchange(path);
    const another = own("pair");
    expect(await proxied.send(another.path, another.key).status()).toBe(429);
    await proxied.untilRemaining(policy, another.key, 3);
    expect(await proxied.remaining(policy, another.key)).toEqual([3, 100]);
    response.end();
    expect(await first.status()).toBe(200);
    await proxied.untilRemaining(policy, key, 3);
    await proxied.untilRemaining("one", "", 1);
  });

  it("when the client disconnects between the calls for two keys, both keys are refunded", async () => {
    const { policy, key, path } = own("pair");
    const decided = pausedCall("reserve/one");
    const client = proxied.send(path, key);
    const { response } = await decided;
    expect(await proxied.remaining(policy, key)).toEqual([2, 99]);
    await gone(client);
    response.end();
    await proxied.untilRemaining(policy, key, 3);
    expect(await proxied.remaining(policy, key)).toEqual([3, 100]);
    await proxied.untilRemaining("one", "", 1);
    expect(proxied.origin.requestCount(path)).toBe(0);
  });
});
