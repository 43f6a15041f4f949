/** The contestants: their requests and the responses that they must give. */
import { strategies, token } from "./headgates.ts";
import { keyMark } from "./load.ts";

/** One key for all requests, a thousand keys that take turns, or a new key for each request. */
export type Keys = "one" | "thousand" | "new";

export interface Contestant {
  readonly id: string;
  readonly group: string;
  readonly title: string;
  /** The name of the socket that receives the requests. */
  readonly socket: string;
  readonly path: string;
  /** The policy of a `/check` call; a plain GET without one. */
  readonly policy?: string;
  readonly keys: Keys;
  /** The status that every response must have. */
  readonly status: 200 | 429;
  /** Whether it forwards requests to the origin. Its ratios are then to contestants that do so too. */
  readonly isProxy?: boolean;
  /** How many responses of a turn may have another status. */
  readonly strays?: number;
  /**
   * Work that follows a turn. Rows are written a second later. A thousand objects are evicted ten seconds later, which
   * blocks workerd for seconds, so such a contestant has its own process for each turn.
   */
  readonly leaves?: "rows" | "objects";
}

type ResponseOptions = Partial<Pick<Contestant, "keys" | "status" | "strays" | "leaves">>;

type Answering = (
  id: string,
  title: string,
  socket: string,
  path: string,
  responseOptions?: ResponseOptions,
) => Contestant;

const defaults = { keys: "one", status: 200 } as const;

const of =
  (group: string): Answering =>
  (id, title, socket, path, responseOptions) => ({
    id,
    group,
    title,
    socket,
    path,
    ...defaults,
    ...responseOptions,
  });

const passing =
  (group: string): Answering =>
  (...of_) => ({ ...of(group)(...of_), isProxy: true });

const floor = of("no rate limiter");
const passed = passing("no rate limiter");
const proxied = passing("Headgate, proxy");
const peer = of("other rate limiters on workerd");
const node = of("Node with Redis");

const checked = (
  id: string,
  title: string,
  socket: string,
  policy: string,
  responseOptions?: ResponseOptions,
): Contestant => {
  // Gateways that read only the status ask for a 429.
  const path = responseOptions?.status === 429 ? "/check?deny=429" : "/check";
  return { ...of("Headgate, /check")(id, title, socket, path, responseOptions), policy };
};

const denied = { status: 429 } as const;
const thousand = { keys: "thousand" } as const;
const thousandObjects = { keys: "thousand", leaves: "objects" } as const;
const newObjects = { keys: "new", leaves: "objects" } as const;
const thousandRows = { keys: "thousand", leaves: "rows" } as const;
const newRows = { keys: "new", leaves: "rows" } as const;
/** The binding's periods are minutes of the clock. One request of each key is allowed when a minute begins. */
const byTheClock = { status: 429, strays: 1 } as const;

export const contestants: readonly Contestant[] = [
  floor("plain", "JSON response", "floor", "/plain"),
  {
    ...floor("plain-json", "JSON request and response", "floor", "/plain-json"),
    policy: "any",
  },
  floor("noop", "no-op object call", "floor", "/noop"),
  {
    ...floor("noop-json", "no-op object call, JSON request", "floor", "/noop-json"),
    policy: "any",
  },
  floor("noop-thousand", "no-op object call, 1,000 keys", "floor", "/noop", thousandObjects),
  passed("pass", "pass-through", "pass", "/"),
  passed("pass-noop", "pass-through and no-op object call", "pass-noop", "/"),

  checked("check", "strict", "strict", "allowed"),
  checked("check-leased", "leased", "leased", "allowed"),
  checked("check-eventual", "eventual", "eventual", "allowed"),
  checked("check-confirmed", "strict, confirmed", "confirmed", "allowed"),
  checked("check-denied", "denied", "strict", "denied", denied),
  checked("check-denied-strict", "denied, denyCache = false", "unremembered", "denied", denied),
  checked("check-denied-leased", "denied, leased", "leased", "denied", denied),
  checked("check-denied-eventual", "denied, eventual", "eventual", "denied", denied),
  checked(
    "check-thousand",
    "1,000 keys, one object per key",
    "per-key",
    "allowed",
    thousandObjects,
  ),
  checked("check-thousand-sharded", "1,000 keys in 32 shards", "sharded", "allowed", thousandRows),
  checked(
    "check-thousand-leased",
    "1,000 keys in 32 shards, leased",
    "leased-sharded",
    "allowed",
    thousandRows,
  ),
  checked(
    "check-thousand-eventual",
    "1,000 keys in 32 shards, eventual",
    "eventual-sharded",
    "allowed",
    thousandRows,
  ),
  checked("check-new", "new keys, one object per key", "per-key", "allowed", newObjects),
  checked("check-new-sharded", "new keys in 32 shards", "sharded", "allowed", newRows),
  ...Object.keys(strategies).map((strategy) =>
    checked(`check-${strategy}`, `strict, ${strategy}`, "strategies", strategy),
  ),

  proxied("proxy", "strict", "strict", "/allowed"),
  proxied("proxy-leased", "leased", "leased", "/allowed"),
  proxied("proxy-eventual", "eventual", "eventual", "/allowed"),
  proxied("proxy-concurrency", "strict, concurrency", "strategies", "/concurrency"),
  proxied("proxy-thousand-sharded", "1,000 keys in 32 shards", "sharded", "/allowed", thousandRows),
  proxied("proxy-new-sharded", "new keys in 32 shards", "sharded", "/allowed", newRows),
  // A denied request is not forwarded.
  { ...proxied("proxy-denied", "denied", "strict", "/denied", denied), isProxy: false },
  {
    ...proxied(
      "proxy-denied-strict",
      "denied, denyCache = false",
      "unremembered",
      "/denied",
      denied,
    ),
    isProxy: false,
  },

  peer("store", "hono-rate-limiter", "peers", "/store/allowed"),
  peer("store-denied", "hono-rate-limiter, denied", "peers", "/store/denied", denied),
  peer(
    "store-thousand",
    "hono-rate-limiter, 1,000 keys",
    "peers",
    "/store/allowed",
    thousandObjects,
  ),
  peer("binding", "rate limiting binding", "peers", "/binding/allowed"),
  peer("binding-denied", "rate limiting binding, denied", "peers", "/binding/denied", byTheClock),
  peer(
    "binding-thousand",
    "rate limiting binding, 1,000 keys",
    "peers",
    "/binding/allowed",
    thousand,
  ),

  node("node-plain", "JSON response, no rate limiter", "node", "/plain"),
  node("redis", "rate-limiter-flexible", "node", "/allowed"),
  node("redis-denied", "rate-limiter-flexible, denied", "node", "/denied", denied),
  node("redis-denied-memory", "denied, inMemoryBlockOnConsumed", "node", "/remembered", denied),
  node("redis-thousand", "rate-limiter-flexible, 1,000 keys", "node", "/allowed", thousand),
  node("redis-new", "rate-limiter-flexible, new keys", "node", "/allowed", { keys: "new" }),
];

/** The parts of a contestant's requests other than the URL and the key. */
export function requestOf(contestant: Contestant): {
  method: "GET" | "POST";
  fields: Record<string, string>;
  body: string;
} {
  const { policy } = contestant;
  if (policy === undefined) return { method: "GET", fields: { "X-Key": keyMark }, body: "" };
  return {
    method: "POST",
    fields: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body: JSON.stringify({ policy, key: keyMark }),
  };
}
