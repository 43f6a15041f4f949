/** The options of limiters. The reference of all options is generated from this file, which needs no types of Hono. */
import type { Decision } from "../../strategies/index.ts";

/** How a limit counts. */
export type StrategyName =
  | "fixed-window"
  | "sliding-log"
  | "sliding-window-counter"
  | "sliding-buckets"
  | "token-bucket"
  | "leaky-bucket"
  | "concurrency";

/** A limit as an object. Which fields it may have depends on its strategy. */
export interface LimitOptions {
  /** Units per window, from 1. */
  readonly limit: number;
  /** A duration, `"month"` or `"year"`. Durations are texts such as `"500ms"`, `"30s"`, `"2 minutes"` or `"day"`. */
  readonly window: string;
  /**
   * How the limit counts.
   * @default that of the policy
   */
  readonly strategy?: StrategyName;
  /**
   * The name in the RateLimit fields.
   * @default derived from the policy's
   */
  readonly name?: string;
  /**
   * Where windows start: at a request, or by the clock.
   * @default "first-request"
   */
  readonly align?: "first-request" | "clock" | "calendar";
  /**
   * The IANA time zone of calendar windows.
   * @default "UTC"
   */
  readonly timezone?: string;
  /**
   * Whether every request restarts the window. Deprecated.
   * @default false
   */
  readonly elastic?: boolean;
  /**
   * The number of buckets in a window, 1 to 1,000. The default is the largest number up to 60 that divides the window exactly.
   * @default up to 60
   */
  readonly buckets?: number;
  /**
   * The width of a bucket, in place of `buckets`.
   * @default set by `buckets`
   */
  readonly precision?: string;
  /**
   * Which end of a bucket decides when it stops counting. A bucket counts until its end (`"keep"`) or its start (`"drop"`) is
   * one window old.
   * @default "keep"
   */
  readonly edge?: "keep" | "drop";
  /**
   * Units that may be spent at once, or wait in a queue.
   * @default the limit
   */
  readonly burst?: number;
  /**
   * Whether a token bucket refills unit by unit, or per window.
   * @default "continuous"
   */
  readonly refill?: "continuous" | "interval";
  /**
   * Whether a leaky bucket delays requests or denies them.
   * @default "queue"
   */
  readonly mode?: "queue" | "police";
}

/** Notation such as `"100/minute; 10/second"`, an object, or a list of either. */
export type Limits = string | LimitOptions | readonly (string | LimitOptions)[];

/** The requests that a policy applies to, besides the path at which the middleware is mounted. All conditions must hold. */
export interface MatchOptions {
  /**
   * One method or several. `"GET"` covers `HEAD`.
   * @default all
   */
  readonly methods?: string | readonly string[];
  /**
   * A pattern of literals, `*` and `:name` for the whole path.
   * @default all
   */
  readonly path?: string;
  /**
   * A host name, in which `*` stands for any characters.
   * @default all
   */
  readonly host?: string;
  /**
   * Header names with their values, or `true` for any value.
   * @default all
   */
  readonly header?: string | Readonly<Record<string, string | true>>;
  /**
   * How paths are compared, as in the option `pathMatching`. Only one of the two may be set.
   * @default "lenient"
   */
  readonly pathMatching?: "lenient" | "exact";
}

/** Other limits for one key, or while a condition holds: either `key` or `when`. */
export interface OverrideOptions {
  /**
   * The key: a text, or one text for each part of the key.
   * @default none
   */
  readonly key?: string | readonly string[];
  /**
   * A condition such as `"jwt:plan=pro"`, in place of `key`.
   * @default none
   */
  readonly when?: string;
  /** The limits that apply in place of the policy's. */
  readonly limits: Limits;
  /**
   * The strategy of limits that name none.
   * @default that of the policy
   */
  readonly strategy?: StrategyName;
}

/** The decision of one policy. */
export interface PolicyDecision extends Decision {
  /** The name of the policy. */
  readonly policy: string;
  /** Whether the policy is a dry run, whose denials have no effect. */
  readonly dryRun: boolean;
}

export type MaybePromise<Value> = Value | Promise<Value>;

/** A fixed response to a denial. */
export interface DenialResponse {
  /**
   * A status from 400 to 599.
   * @default 429
   */
  readonly status?: number;
  /**
   * A text of at most 4,096 bytes.
   * @default problem details
   */
  readonly body?: string;
  /**
   * The media type of `body`.
   * @default "text/plain; charset=utf-8"
   */
  readonly contentType?: string;
}

/**
 * One policy: which requests, which key, which limits. Functions may return a promise. Their argument `c` is the context of
 * the request.
 */
export interface PolicyOptions<C = never> {
  /**
   * The name in responses, in logs and in the console. Limiters with the same name share their counters, and must have
   * the same options. A limiter without a name has its own counters. The first one is called `default`, and the others
   * `default-` with a hash of their options.
   * @default "default"
   */
  readonly name?: string;
  /**
   * The name of an earlier policy of the same limiter. This policy then applies only where that one does, its key begins
   * with the key of that one, and both are decided together in one object.
   * @default none
   */
  readonly within?: string;
  /**
   * The part of its parent's limit that a key is guaranteed. It is `"fair"`, or units such as `"500/minute"`. The key's own
   * limits are its ceiling.
   * @default none
   */
  readonly guaranteed?: string;
  /**
   * The weight of a key if `guaranteed` is `"fair"`, 1 to 1,000,000. In a list, the first condition that a request meets
   * decides.
   * @default 1
   */
  readonly weight?: number | readonly { readonly when: string; readonly weight: number }[];
  /**
   * Classes of requests that may use only a part of each limit. `upTo` is from `"1%"` to `"99%"`. If a request meets several
   * conditions, such as `"jwt:plan=free"`, the least part applies.
   * @default none
   */
  readonly classes?: readonly { readonly when: string; readonly upTo: string }[];
  /**
   * The limits of a key, 1 to 16. They are decided in one step: a denied request is charged to none of them. A function returns
   * the limits of one request, such as those of a customer in a database.
   * @default required, or `limit`
   */
  readonly limits?: Limits | ((c: C) => MaybePromise<Limits>);
  /**
   * Units per `windowMs`: a short form of `limits`.
   * @default none
   */
  readonly limit?: number;
  /**
   * The window of `limit`, in milliseconds.
   * @default none
   */
  readonly windowMs?: number;
  /**
   * The strategy of limits that name none.
   * @default "sliding-window-counter"
   */
  readonly strategy?: StrategyName;
  /**
   * The key, whose requests share the limits. It consists of key parts such as `"ip"`, `"header:X-Api-Key"` or
   * `["jwt:sub", "path"]`, or is a function that returns a text or a list of texts. A request has no key if the
   * function returns `null`, `undefined`, `""`, an empty list, or a list that contains an empty or missing part.
   * `onMissingKey` then decides.
   * @default "ip"
   */
  readonly key?:
    | string
    | readonly string[]
    | ((c: C) => MaybePromise<string | readonly (string | null | undefined)[] | null | undefined>);
  /**
   * The treatment of requests that lack a key part. With `"shared"` they share one key, with `"ip"` they are charged to the
   * client's address, with `"deny"` they get 403, and with `"skip"` they are neither charged nor denied.
   * If `key` is a function, the default is `"deny"`.
   * @default "shared"
   */
  readonly onMissingKey?: "shared" | "ip" | "deny" | "skip";
  /**
   * The units that a request is charged, 1 to 1,000,000. A function may return 0, which charges nothing. An object names a
   * request header, a query parameter or a response header, such as `{ from: "header:X-Rows", max: 100 }`.
   * @default 1
   */
  readonly cost?:
    | number
    | ((c: C) => MaybePromise<number>)
    | { readonly from: string; readonly max: number; readonly reserve?: number };
  /**
   * Whether the handler may settle the cost. It calls `c.get("headgate").settle(cost)` at any time until its response has
   * ended. Without that call, the reserved cost stays charged.
   * @default false
   */
  readonly reserve?: boolean;
  /**
   * Whether a request is neither charged nor denied.
   * @default none
   */
  readonly skip?: (c: C) => MaybePromise<boolean>;
  /**
   * The response to a denial by limits or a ban. RateLimit fields and `Retry-After` are added to it. With `"continue"`,
   * the request reaches the handler although the policy denies it. It is charged to the other policies, and
   * `c.get("headgate").allowed` is false.
   * @default problem details
   */
  readonly onDeny?: "continue" | DenialResponse | ((c: C, decision: PolicyDecision) => MaybePromise<Response>);
  /**
   * The statuses whose responses are charged. For example, `{ status: ["401"] }` charges failed logins only.
   * @default all
   */
  readonly count?:
    | { readonly status: readonly (string | number)[] }
    | { readonly exceptStatus: readonly (string | number)[] };
  /**
   * The requests that the policy applies to.
   * @default all
   */
  readonly match?: MatchOptions;
  /**
   * How `match.path` is compared. `"lenient"` compares every form in which a server may read a path, `"exact"` the path as
   * received.
   * @default "lenient"
   */
  readonly pathMatching?: "lenient" | "exact";
  /**
   * Other limits for some keys or conditions. The first match applies.
   * @default none
   */
  readonly overrides?: readonly OverrideOptions[];
  /**
   * Keys, addresses and CIDR blocks that are not charged.
   * @default none
   */
  readonly allow?: readonly (string | readonly string[])[];
  /**
   * Keys, addresses and CIDR blocks that get 403.
   * @default none
   */
  readonly deny?: readonly (string | readonly string[])[];
  /**
   * A ban of the key after repeated denials. A duration bans after the first denial.
   * @default none
   */
  readonly ban?: string | { readonly after: number; readonly within: string; readonly for: string };
  /**
   * Whether the policy only reports what it would deny.
   * @default false
   */
  readonly dryRun?: boolean;
  /**
   * The decider: the object, or the isolate. `"strict"` asks the object for each request. `"leased"` lets an isolate borrow a
   * slice of the units, and `"eventual"` lets it count by itself and sync.
   * @default "strict"
   */
  readonly consistency?: "strict" | "leased" | "eventual";
  /**
   * The interval of syncs under `"eventual"`, 100 ms to 10 s.
   * @default "1s"
   */
  readonly syncEvery?: string;
  /**
   * The decision while the object is unavailable. `"local"` applies the same limits in the isolate, `"open"` allows the
   * request, and `"closed"` denies it with 503.
   * @default "local"
   */
  readonly onError?: "local" | "open" | "closed";
  /**
   * The longest wait for the object, 10 ms to 30 s.
   * @default "1s"
   */
  readonly timeout?: string;
  /**
   * Whether isolates repeat a denial for up to one second.
   * @default true
   */
  readonly denyCache?: boolean;
  /**
   * One object per key, or a fixed number for all keys.
   * @default "per-key"
   */
  readonly objects?: "per-key" | "sharded";
  /**
   * The number of objects if they are sharded, 1 to 4,096.
   * @default 32
   */
  readonly shards?: number;
  /**
   * The region in which objects are created.
   * @default near the first caller
   */
  readonly locationHint?:
    | "wnam"
    | "enam"
    | "sam"
    | "weur"
    | "eeur"
    | "apac"
    | "apac-ne"
    | "apac-se"
    | "oc"
    | "afr"
    | "me";
  /**
   * The jurisdiction in which objects run and store.
   * @default none
   */
  readonly jurisdiction?: "eu" | "us" | "fedramp" | "fedramp-high";
  /**
   * Whether a reply waits for storage.
   * @default "relaxed"
   */
  readonly durability?: "relaxed" | "confirmed";
  /**
   * The longest delay in a leaky-bucket queue, 1 ms to 1 hour.
   * @default set by the burst
   */
  readonly maxDelay?: string;
  /**
   * The bits of an IPv6 address that identify a client, 32 to 128.
   * @default 64
   */
  readonly ipv6Prefix?: number;
  /**
   * The client's entry in `X-Forwarded-For`, from the right, 1-10. Without it, the client is the peer of Cloudflare.
   * @default off
   */
  readonly trustedProxies?: number;
}
