/** Requests whose checks share calls to one object, in real isolates, where calls and timers end with their request. */
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Client, type Exchange, type Origin, type Proxied, startProxied } from "./proxied.ts";

const limits = [{ limit: 100_000, window: "1h", strategy: "sliding-log" }];

const policies = [
  { name: "first", limits, timeout: "30s" },
  { name: "second", limits, timeout: "30s" },
  { name: "open", limits, onError: "open", timeout: "30s" },
  { name: "closed", limits, onError: "closed", timeout: "30s" },
];

/**
 * Objects that complete each flat call when the test's origin responds, and abort when the origin responds with 500.
 */
const entryFor = ({ url }: Origin): string => `
  import { RateLimiter as Own } from "./index.js";
  export * from "./index.js";
  export { default } from "./index.js";

  export class RateLimiter extends Own {
    async decide(texts, checks) {
      const replies = super.decide(texts, checks);
      const keys = checks.filter((value) => typeof value === "string");
      const { ok } = await fetch(["${url}/objects", keys[0], keys.length].join("/"));
      if (!ok) this.ctx.abort("the host goes away");
      return replies;
    }
  }
`;

let proxied: Proxied;
/** Everything that workerd prints. */
let printed = "";
beforeAll(async () => {
  const print = (text: string): void => void (printed += text);
  proxied = await startProxied(policies, (origin) => ({ entry: entryFor(origin), print }));
  return proxied.close;
});

/** A delayed call to an object, which the test completes. */
interface HeldCall {
  readonly checks: number;
  readonly exchange: Exchange;
}

let held: HeldCall[] = [];
const answerCall = ({ exchange }: HeldCall): unknown => exchange.response.end();
const letDown = ({ exchange }: HeldCall): unknown => exchange.response.writeHead(500).end();

/** Objects delay every call until the test completes it. The origin answers requests at once. */
beforeEach(() => {
  held = [];
  printed = "";
  proxied.origin.answers.set("/", ({ response }) => response.end());
  proxied.origin.answers.set("/objects/", (exchange) => {
    const checks = Number(exchange.request.url?.split("/").at(-1));
    held.push({ checks, exchange });
  });
});
afterEach(() => proxied.origin.answers.clear());

/** Waits until the delayed calls contain this number of checks, and returns these calls. */
async function heldCalls(checks: number): Promise<HeldCall[]> {
  const heldChecks = (): number => held.reduce((sum, call) => sum + call.checks, 0);
  await expect.poll(heldChecks, { timeout: 10_000, interval: 5 }).toBe(checks);
  return held;
}

const answerAtOnce = (): void => void proxied.origin.answers.set("/objects/", ({ response }) => response.end());

let keys = 0;
const newKey = (): string => `key-${(keys += 1)}`;

const send = (policy: string, key: string, count = 1): Client[] =>
  Array.from({ length: count }, () => proxied.send(`/${policy}/${key}`, key));

const statusesOf = (clients: readonly Client[]): Promise<number[]> =>
  Promise.all(clients.map((client) => client.status()));

describe("requests that wait for a call together", () => {
  it("when clients disconnect while their checks share a call, the other clients of the call get their answers", async () => {
    const key = newKey();
    const [first] = send("first", key);
    await heldCalls(1);
    const leaving = send("second", key, 10);
    const staying = send("second", key, 10);
    const alsoLeaving = send("second", key, 10);
    await heldCalls(31);
    expect(held.length).toBeLessThan(31);
    await Promise.all([...leaving, ...alsoLeaving].map((each) => each.disconnect("resetAndDestroy")));
    // This request makes the Worker notice that all of them have disconnected.
    answerAtOnce();
    await statusesOf(send("first", newKey()));
    for (const call of held) answerCall(call);
    expect(await statusesOf(staying)).toEqual(staying.map(() => 200));
    expect(await first?.status()).toBe(200);
    // Each check is charged once. A decision is final when the client disconnects during it.
    expect(await proxied.remaining("second", key)).toEqual([99_970]);
    expect(proxied.origin.requestCount(`/second/${key}`)).toBe(10);
    expect(printed).not.toContain("object-silent");
  });

  it("a client that disconnects before its check is sent delays no other client", async () => {
    const key = newKey();
    send("first", key);
    await heldCalls(1);
    // The check of this client is the first in the queue, so that its request would send the next call.
    const [leaving] = send("second", key);
    await leaving?.disconnect("destroy");
    const staying = send("second", key, 5);
    await expect.poll(() => held.length, { timeout: 10_000, interval: 5 }).toBeGreaterThan(1);
    answerAtOnce();
    for (const call of held) answerCall(call);
    expect(await statusesOf(staying)).toEqual([200, 200, 200, 200, 200]);
  });

  it("when an object fails during a shared call, the onError of each request's policy decides that request", async () => {
    const key = newKey();
    send("first", key);
    await heldCalls(1);
    const open = send("open", key, 3);
    const closed = send("closed", key, 3);
    await heldCalls(7);
    for (const call of held) letDown(call);
    expect(await statusesOf(open)).toEqual([200, 200, 200]);
    expect(await statusesOf(closed)).toEqual([503, 503, 503]);
  });

  it("a call that is never answered delays no later request", async () => {
    const key = newKey();
    send("first", key);
    await heldCalls(1);
    answerAtOnce();
    expect(await statusesOf(send("second", key, 5))).toEqual([200, 200, 200, 200, 200]);
    for (const call of held) answerCall(call);
  });
});
