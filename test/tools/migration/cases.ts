/**
 * The rows of the migration table: the options of another package, the options of `rateLimit` that replace them, and
 * the result that both must have.
 */
import type { Context } from "hono";
import type { RateLimitOptions } from "../../../src/sdk/package/hono.ts";
import type { PeerOptions } from "./peer-apps.ts";
import type { Answer, Ask } from "./requests.ts";

export interface Step extends Ask {
  /** The time between the previous request and this one. */
  readonly afterMs?: number;
  /** The instance of the app, such as a process or an isolate, that receives the request. Default: 0. */
  readonly copy?: 0 | 1;
}

export interface Case {
  /** The first cell of the row. */
  readonly row: string;
  /**
   * Options by the name of the package, or by the beginning of its name. A function returns the options for one run of
   * the case.
   */
  readonly peers: Readonly<Record<string, PeerOptions | (() => PeerOptions)>>;
  /** The options of `rateLimit`, in each of the forms that the row names. */
  readonly headgate: readonly RateLimitOptions[];
  /** The variables and bindings of the Worker. */
  readonly variables?: Readonly<Record<string, unknown>>;
  readonly steps: readonly Step[];
  /** The response to each step. */
  readonly statuses: readonly number[];
  /** An additional result, which equals `value` for each package. */
  readonly expected?: (answers: readonly Answer[]) => unknown;
  readonly value?: unknown;
}

/** The statuses and the additional result that a case states. */
export const resultOf = (answers: readonly Answer[], { expected }: Case): unknown => ({
  statuses: answers.map(({ status }) => status),
  value: expected?.(answers),
});

export const statedResult = ({ statuses, value }: Case): unknown => ({ statuses, value });

const times = (count: number, ask: Ask = {}): Step[] => Array.from({ length: count }, () => ask);

const last = (answers: readonly Answer[]): Answer => {
  const answer = answers.at(-1);
  if (answer === undefined) throw new Error("the case has no steps");
  return answer;
};

const header =
  (name: string) =>
  (answers: readonly Answer[]): boolean =>
    last(answers).headers.has(name);

/** The two kinds of context that the functions of a case receive. */
const byRequest = <Result>(
  read: (request: {
    readonly header: (name: string) => string | undefined;
    readonly query: (name: string) => string | undefined;
    readonly path: string;
  }) => Result,
): { hono: (c: Context) => Result; express: (request: import("express").Request) => Result } => ({
  hono: ({ req }) => read({ header: (name) => req.header(name), query: (name) => req.query(name), path: req.path }),
  express: (request) =>
    read({
      header: (name) => request.get(name),
      query: (name) => request.query[name] as string | undefined,
      path: request.path,
    }),
});

const limitOfPlan = byRequest(({ header: field }) => (field("X-Client") === "partner-42" ? 3 : 1));
const userOf = byRequest(({ query }) => query("user") ?? "");
const isHealthCheck = byRequest(({ path }) => path === "/health");

const counting: readonly Case[] = [
  {
    row: "`windowMs`",
    peers: {
      "hono-rate-limiter": { windowMs: 10_000 },
      "express-rate-limit": { windowMs: 10_000 },
    },
    headgate: [
      { windowMs: 10_000, strategy: "fixed-window" },
      { limits: "2/10s", strategy: "fixed-window" },
    ],
    steps: [...times(3), { afterMs: 10_000 }],
    statuses: [200, 200, 429, 200],
  },
  {
    row: "`limit`",
    peers: {
      "hono-rate-limiter": { limit: 1 },
      "express-rate-limit": { limit: 1 },
    },
    headgate: [{ limit: 1 }, { limits: "1/minute" }],
    steps: times(2),
    statuses: [200, 429],
  },
  {
    row: "`max`",
    peers: {
      "express-rate-limit": { limit: undefined, max: 1 },
    },
    headgate: [{ limit: 1 }],
    steps: times(2),
    statuses: [200, 429],
  },
  {
    row: "`limit` as a function",
    peers: {
      "hono-rate-limiter": { limit: limitOfPlan.hono },
      "express-rate-limit": { limit: limitOfPlan.express },
    },
    headgate: [
      { limits: (c) => `${limitOfPlan.hono(c)}/minute` },
      { limit: 1, overrides: [{ key: "partner-42", limits: "3/minute" }] },
    ],
    steps: [...times(2), ...times(4, { client: "partner-42" })],
    statuses: [200, 429, 200, 200, 200, 429],
  },
  {
    row: "`keyGenerator`",
    peers: {
      "hono-rate-limiter": { limit: 1, keyGenerator: userOf.hono },
      "express-rate-limit": { limit: 1, keyGenerator: userOf.express },
    },
    headgate: [
      { limit: 1, key: userOf.hono },
      { limit: 1, key: "query:user" },
    ],
    steps: [{ user: "a" }, { user: "b" }, { user: "a" }],
    statuses: [200, 200, 429],
  },
  {
    row: "`ipv6Subnet`",
    peers: {
      "express-rate-limit": { limit: 1, ipv6Subnet: 48 },
    },
    headgate: [{ limit: 1, key: "ip", ipv6Prefix: 48 }],
    steps: ["2001:db8:1:1::1", "2001:db8:1:2::1", "2001:db8:2::1"].map((address) => ({ address })),
    statuses: [200, 429, 200],
  },
  {
    row: "`skip`",
    peers: {
      "hono-rate-limiter": { skip: isHealthCheck.hono },
      "express-rate-limit": { skip: isHealthCheck.express },
    },
    headgate: [{ skip: isHealthCheck.hono }],
    steps: [...times(4, { path: "/health" }), ...times(3)],
    statuses: [200, 200, 200, 200, 200, 200, 429],
  },
  {
    row: "`skipFailedRequests`",
    peers: {
      "hono-rate-limiter": { skipFailedRequests: true },
      "express-rate-limit": { skipFailedRequests: true },
    },
    headgate: [{ count: { exceptStatus: ["4xx", "5xx"] } }],
    steps: [...times(2, { status: 404 }), { status: 500 }, ...times(3)],
    statuses: [404, 404, 500, 200, 200, 429],
  },
  {
    row: "`skipSuccessfulRequests`",
    peers: {
      "hono-rate-limiter": { skipSuccessfulRequests: true },
      "express-rate-limit": { skipSuccessfulRequests: true },
    },
    headgate: [{ count: { status: ["4xx", "5xx"] } }],
    steps: [...times(3), ...times(3, { status: 401 })],
    statuses: [200, 200, 200, 401, 401, 429],
  },
  {
    row: "`requestWasSuccessful`",
    peers: {
      "hono-rate-limiter": {
        skipSuccessfulRequests: true,
        requestWasSuccessful: ({ res }: Context) => res.status !== 403,
      },
      "express-rate-limit": {
        skipSuccessfulRequests: true,
        requestWasSuccessful: (_: unknown, response: { statusCode: number }) => response.statusCode !== 403,
      },
    },
    headgate: [{ count: { status: ["403"] } }],
    steps: [...times(3, { status: 401 }), ...times(3, { status: 403 })],
    statuses: [401, 401, 401, 403, 403, 429],
  },
];

const denied = { steps: times(3), statuses: [200, 200, 429] };

const responses: readonly Case[] = [
  {
    ...denied,
    row: "`message`",
    peers: {
      "hono-rate-limiter": { message: "Slow down." },
      "express-rate-limit": { message: "Slow down." },
    },
    headgate: [{ onDeny: { body: "Slow down.", contentType: "text/plain" } }],
    expected: (answers) => last(answers).body,
    value: "Slow down.",
  },
  {
    steps: denied.steps,
    row: "`statusCode`",
    peers: {
      "hono-rate-limiter": { statusCode: 503 },
      "express-rate-limit": { statusCode: 503 },
    },
    headgate: [{ onDeny: { status: 503 } }],
    statuses: [200, 200, 503],
  },
  {
    ...denied,
    row: "`handler`",
    peers: {
      "hono-rate-limiter": { handler: (c: Context) => c.json({ error: "slow down" }, 429) },
      "express-rate-limit": {
        handler: (_: unknown, response: import("express").Response) =>
          response.status(429).json({ error: "slow down" }),
      },
    },
    headgate: [{ onDeny: (c) => c.json({ error: "slow down" }, 429) }],
    expected: (answers) => last(answers).body,
    value: '{"error":"slow down"}',
  },
  {
    ...denied,
    row: "`standardHeaders`",
    peers: {
      "hono-rate-limiter": { standardHeaders: "draft-7" },
      "express-rate-limit": { standardHeaders: "draft-8" },
    },
    headgate: [{}],
    expected: (answers) => ["RateLimit", "RateLimit-Policy", "Retry-After"].map((name) => header(name)(answers)),
    value: [true, true, true],
  },
  {
    ...denied,
    row: "`identifier`",
    peers: {
      "express-rate-limit": { identifier: "login", standardHeaders: "draft-8" },
    },
    headgate: [{ name: "login" }],
    expected: (answers) => last(answers).headers.get("RateLimit-Policy")?.split(";")[0],
    value: '"login"',
  },
  {
    ...denied,
    row: "`legacyHeaders`",
    peers: {
      "express-rate-limit": { legacyHeaders: true },
    },
    headgate: [{}],
    variables: { LEGACY_HEADERS: true },
    expected: header("X-RateLimit-Remaining"),
    value: true,
  },
  {
    ...denied,
    row: "`headers`",
    peers: {
      "express-rate-limit": { headers: true },
    },
    headgate: [{}],
    variables: { LEGACY_HEADERS: true },
    expected: header("X-RateLimit-Limit"),
    value: true,
  },
  {
    ...denied,
    row: "`retryAfter`",
    peers: {
      "express-rate-limit": { retryAfter: 7 },
    },
    headgate: [{ onDeny: (c) => c.text("Slow down.", 429, { "Retry-After": "7" }) }],
    expected: (answers) => last(answers).headers.get("Retry-After"),
    value: "7",
  },
  {
    steps: times(2),
    statuses: [200, 200],
    row: "`requestPropertyName`",
    peers: {
      "hono-rate-limiter": { requestPropertyName: "quota" },
      "express-rate-limit": { requestPropertyName: "quota" },
    },
    headgate: [{}],
    expected: (answers) => answers.map(({ headers }) => headers.get("X-Known-Remaining")),
    value: ["1", "0"],
  },
];

/** A store that several instances of an app share. */
function sharedStore(): object {
  const hits = new Map<string, number>();
  return {
    increment: (key: string) => {
      const totalHits = (hits.get(key) ?? 0) + 1;
      hits.set(key, totalHits);
      return { totalHits, resetTime: new Date(Date.now() + 60_000) };
    },
    decrement: () => undefined,
    resetKey: () => undefined,
  };
}

/** A rate limiting binding with a limit of two. */
function rateLimitBinding(): object {
  const { increment } = sharedStore() as { increment: (key: string) => { totalHits: number } };
  return { limit: ({ key }: { key: string }) => ({ success: increment(key).totalHits <= 2 }) };
}

const brokenStore = {
  increment: () => Promise.reject(new Error("the store is down")),
  decrement: () => undefined,
  resetKey: () => undefined,
};

/** Objects that never answer. */
const brokenObjects = {
  getByName: () => new Proxy({}, { get: () => () => Promise.reject(new Error("down")) }),
};

const storage: readonly Case[] = [
  {
    row: "`store`",
    peers: {
      "hono-rate-limiter": () => ({ store: sharedStore() }),
      "express-rate-limit": () => ({ store: sharedStore(), validate: false }),
    },
    headgate: [{}],
    steps: [{ copy: 0 }, { copy: 1 }, { copy: 0 }],
    statuses: [200, 200, 429],
  },
  {
    ...denied,
    row: "`binding`",
    peers: { "hono-rate-limiter 0.5": () => ({ binding: rateLimitBinding() }) },
    headgate: [{ limits: "2/minute" }],
  },
  {
    ...denied,
    row: "`rateLimitBinding`",
    peers: { "@hono-rate-limiter/cloudflare": () => ({ rateLimitBinding: rateLimitBinding() }) },
    headgate: [{ limits: "2/minute" }],
  },
  {
    row: "`passOnStoreError`",
    peers: {
      "express-rate-limit": {
        store: brokenStore,
        passOnStoreError: true,
        logger: { error: () => undefined, warn: () => undefined },
      },
    },
    headgate: [{ onError: "open" }],
    variables: { RATE_LIMITER: brokenObjects },
    steps: times(3),
    statuses: [200, 200, 200],
  },
];

export const cases: readonly Case[] = [...counting, ...responses, ...storage];
