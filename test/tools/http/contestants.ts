/** The contestants: their requests, the required responses, and the floors with which they are compared. */
import { token } from "./headgates.ts";
import { type FollowUp, idMark, keyMark } from "./load.ts";

/** One key for all requests, a thousand keys that take turns, or a new key for each request. */
export type Keys = "one" | "thousand" | "new";

export interface Contestant {
  readonly id: string;
  readonly group: string;
  readonly title: string;
  /** The name of the socket that receives the requests. */
  readonly socket: string;
  readonly path: string;
  /** The policy of a `/check` call. Without a policy, the request is a plain GET. */
  readonly policy?: string;
  /** Whether each request makes a reservation that a second request settles. */
  readonly reserves?: boolean;
  readonly keys: Keys;
  /** The status that every response must have. */
  readonly status: 200 | 429;
  /** The id of the floor, which is the contestant with the least work that could replace this contestant. */
  readonly floor?: string;
  /** How many responses of a turn may have a different status. */
  readonly strays?: number;
  /** Whether the contestant writes rows a second after a turn. */
  readonly leavesRows?: boolean;
}

type Differences = Partial<Omit<Contestant, "id" | "group" | "title" | "socket" | "path">>;

type Entry = (id: string, title: string, socket: string, path: string, differences?: Differences) => Contestant;

const of =
  (group: string): Entry =>
  (id, title, socket, path, differences) => ({
    id,
    group,
    title,
    socket,
    path,
    keys: "one",
    status: 200,
    ...differences,
  });

const floor = of("no rate limiter");
const proxied = of("Headgate, proxy");
const peer = of("other rate limiters on workerd");
const node = of("Node with Redis");

/** Calls of `/check` with the policy "allowed" or "denied". Gateways that read only the status use `deny=429`. */
const checked = (id: string, title: string, socket: string, differences: Differences): Contestant => {
  const [path, policy] = differences.status === 429 ? ["/check?deny=429", "denied"] : ["/check", "allowed"];
  return of("Headgate, /check")(id, title, socket, path, { policy, ...differences });
};

const denied = { status: 429 } as const;
const thousand = { keys: "thousand", leavesRows: true } as const;
const newKeys = { keys: "new", leavesRows: true } as const;
/** The binding's periods are minutes of the clock. When a minute begins, one request of each key is allowed. */
const byTheClock = { status: 429, strays: 1 } as const;

export const contestants: readonly Contestant[] = [
  floor("plain", "JSON response", "floor", "/plain"),
  floor("plain-json", "JSON request and response", "floor", "/plain-json", { policy: "any" }),
  floor("noop", "no-op object call", "floor", "/noop"),
  floor("noop-json", "no-op object call, JSON request", "floor", "/noop-json", { policy: "any" }),
  floor("pass", "pass-through", "pass", "/"),
  floor("pass-noop", "pass-through and no-op object call", "pass-noop", "/"),

  checked("check", "strict", "strict", { floor: "noop" }),
  checked("check-unjoined", "strict, checks not joined", "unjoined", { floor: "noop" }),
  checked("check-thousand-sharded", "strict, 1,000 keys in 32 shards", "sharded", {
    floor: "noop",
    ...thousand,
  }),
  checked("check-new-sharded", "strict, new keys in 32 shards", "sharded", {
    floor: "noop",
    ...newKeys,
  }),
  checked("check-confirmed", "strict, confirmed", "confirmed", { floor: "noop" }),
  checked("check-ban", "strict, with a ban", "ban", { floor: "noop" }),
  {
    ...checked("reserve", "strict, reserve and settle", "strict", { floor: "noop" }),
    path: "/check/reserve",
    reserves: true,
  },
  checked("check-leased", "leased", "leased", { floor: "plain-json" }),
  checked("check-eventual", "eventual", "eventual", { floor: "plain-json" }),
  checked("check-denied", "denied", "strict", { floor: "plain-json", ...denied }),
  checked("check-denied-strict", "denied, denyCache = false", "unremembered", {
    floor: "noop",
    ...denied,
  }),

  proxied("proxy", "strict", "strict", "/allowed", { floor: "pass-noop" }),
  proxied("proxy-leased", "leased", "leased", "/allowed", { floor: "pass" }),
  // A denied request is not forwarded.
  proxied("proxy-denied", "denied", "strict", "/denied", { floor: "plain", ...denied }),

  peer("store", "hono-rate-limiter", "peers", "/store/allowed", { floor: "noop" }),
  peer("store-denied", "hono-rate-limiter, denied", "peers", "/store/denied", {
    floor: "noop",
    ...denied,
  }),
  peer("binding", "rate limiting binding", "peers", "/binding/allowed", { floor: "noop" }),
  peer("binding-denied", "rate limiting binding, denied", "peers", "/binding/denied", {
    floor: "noop",
    ...byTheClock,
  }),

  node("node-plain", "JSON response, no rate limiter", "node", "/plain"),
  node("upstash", "Upstash's sliding window", "node", "/upstash/allowed", { floor: "node-plain" }),
  node("upstash-denied", "Upstash's sliding window, denied", "node", "/upstash/denied", {
    floor: "node-plain",
    ...denied,
  }),
  node("redis", "rate-limiter-flexible", "node", "/allowed", { floor: "node-plain" }),
  node("redis-denied", "rate-limiter-flexible, denied", "node", "/denied", {
    floor: "node-plain",
    ...denied,
  }),
  node("redis-denied-memory", "rate-limiter-flexible, denied in memory", "node", "/remembered", {
    floor: "node-plain",
    ...denied,
  }),
];

export function contestantOf(id: string): Contestant {
  const found = contestants.find((contestant) => contestant.id === id);
  if (found === undefined) throw new Error(`expected the id of a contestant, got "${id}"`);
  return found;
}

/** The parts of a contestant's requests other than the URL and the key. */
export function requestOf({ policy, reserves = false }: Contestant): {
  method: "GET" | "POST";
  fields: Record<string, string>;
  body: string;
  followUp?: FollowUp;
} {
  if (policy === undefined) return { method: "GET", fields: { "X-Key": keyMark }, body: "" };
  return {
    method: "POST",
    fields: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body: JSON.stringify({ policy, key: keyMark, ...(reserves && { cost: 2, ttlMs: 60_000 }) }),
    ...(reserves && {
      followUp: { path: "/check/settle", body: JSON.stringify({ id: idMark, cost: 1 }) },
    }),
  };
}
