/** The options of `rateLimit`. The reference of all options is generated from this file. */
import type { Context, Env } from "hono";
import type { Decision } from "../strategies/index.ts";

export type StrategyName =
  | "fixed-window"
  | "sliding-log"
  | "sliding-window-counter"
  | "sliding-buckets"
  | "token-bucket"
  | "leaky-bucket"
  | "concurrency";

/** A limit as a table. `strategies.md` lists which strategy has which field. */
export interface LimitOptions {
  /** Units per window. */
  readonly limit: number;
  /** A duration such as `"30s"` or `"1h"`, or a calendar period: `"month"` or `"year"`. */
  readonly window: string;
  /** Default: that of the policy. */
  readonly strategy?: StrategyName;
  /** The name in the RateLimit fields. Default: derived from the policy's name. */
  readonly name?: string;
  /** Where windows start. Default: `"first-request"`. */
  readonly align?: "first-request" | "clock" | "calendar";
  /** The IANA time zone of calendar windows. Default: `"UTC"`. */
  readonly timezone?: string;
  /** Whether every request restarts the window. Deprecated. Default: `false`. */
  readonly elastic?: boolean;
  /** The number of buckets in a window, 1 to 1,000. Default: the most, up to 60, that divide the window exactly. */
  readonly buckets?: number;
  /** The width of a bucket, in place of `buckets`. */
  readonly precision?: string;
  /** Whether a bucket counts until its end or its start is a window old. Default: `"keep"`. */
  readonly edge?: "keep" | "drop";
  /** Units that may be spent at once, or wait in a queue. Default: the limit. */
  readonly burst?: number;
  /** How a token bucket is refilled. Default: `"continuous"`. */
  readonly refill?: "continuous" | "interval";
  /** Whether a leaky bucket delays requests or denies them. Default: `"queue"`. */
  readonly mode?: "queue" | "police";
}

/** Notation such as `"100/minute; 10/second"`, a table, or a list of either. */
export type Limits = string | LimitOptions | readonly (string | LimitOptions)[];

/** The requests that a policy applies to, besides the path at which the middleware is mounted. */
export interface MatchOptions {
  /** One method or several. `GET` covers `HEAD`. */
  readonly methods?: string | readonly string[];
  /** A pattern of literals, `*` and `:name`, compared with the whole path. */
  readonly path?: string;
  /** A host name, in which `*` stands for any characters. */
  readonly host?: string;
  /** Header names with their values, or `true` for any value. */
  readonly header?: string | Readonly<Record<string, string | true>>;
}

export interface OverrideOptions {
  /** The key that gets these limits: a text, or one text for each part of the key. */
  readonly key?: string | readonly string[];
  /** A condition such as `"jwt:plan=pro"`, in place of `key`. */
  readonly when?: string;
  readonly limits: Limits;
  /** The strategy of limits that name none. */
  readonly strategy?: StrategyName;
}

/** The decision of one policy. */
export interface PolicyDecision extends Decision {
  /** The name of the policy. */
  readonly policy: string;
}

export type MaybePromise<Value> = Value | Promise<Value>;

/** One policy: which requests, which key, which limits. */
export interface RateLimitOptions<E extends Env = Env> {
  /**
   * The name in responses, in logs and in the console. Policies of one Worker have different names.
   * Default: `"default"`.
   */
  readonly name?: string;
  /** Limits that are decided in one step: a denied request is charged to none of them. */
  readonly limits?: Limits;
  /** Units per `windowMs`: a short form of `limits`. */
  readonly limit?: number;
  /** The window of `limit` in milliseconds. */
  readonly windowMs?: number;
  /** The strategy of limits that name none. Default: `"sliding-window-counter"`. */
  readonly strategy?: StrategyName;
  /**
   * The key, whose requests share a limit: parts such as `"ip"`, `"header:X-Api-Key"` or `["jwt:sub", "path"]`, or a function that
   * returns the key, or its parts. Return no key for a request that lacks one. Default: `"ip"`.
   */
  readonly key?:
    | string
    | readonly string[]
    | ((c: Context<E>) => MaybePromise<string | readonly string[] | null | undefined>);
  /** The treatment of requests that lack a key part. Default: `"shared"`: they share one key. */
  readonly onMissingKey?: "shared" | "ip" | "deny" | "skip";
  /**
   * The units that a request spends, from 1 to 1,000,000: a number; a function, which may return 0 to spend nothing; or
   * a number in a request header, a query parameter or a response header. Default: 1.
   */
  readonly cost?:
    | number
    | ((c: Context<E>) => MaybePromise<number>)
    | { readonly from: string; readonly max: number; readonly reserve?: number };
  /**
   * Whether the handler may settle the cost with `c.get("headgate").settle(cost)` until its response has ended.
   * Without a settlement, the cost stands. Default: `false`.
   */
  readonly reserve?: boolean;
  /** The requests whose policy does not apply: not charged, not denied. */
  readonly skip?: (c: Context<E>) => MaybePromise<boolean>;
  /** The response to a denial by limits: fields of a fixed response, or a function. Default: problem details. */
  readonly onDeny?:
    | { readonly status?: number; readonly body?: string; readonly contentType?: string }
    | ((c: Context<E>, decision: PolicyDecision) => MaybePromise<Response>);
  /** The statuses whose responses are charged, such as `{ status: ["401", "5xx"] }`. Default: all. */
  readonly count?:
    | { readonly status: readonly (string | number)[] }
    | { readonly exceptStatus: readonly (string | number)[] };
  /** The requests that the policy applies to. Default: all that reach the middleware. */
  readonly match?: MatchOptions;
  /** How `match.path` is compared. Default: `"lenient"`: in every form in which a path may be read. */
  readonly pathMatching?: "lenient" | "exact";
  /** Other limits for some keys or conditions. The first match applies. */
  readonly overrides?: readonly OverrideOptions[];
  /** Keys, addresses and CIDR blocks that are allowed and not charged. */
  readonly allow?: readonly (string | readonly string[])[];
  /** Keys, addresses and CIDR blocks that get 403. */
  readonly deny?: readonly (string | readonly string[])[];
  /** A ban of the key after repeated denials; a duration bans after the first one. */
  readonly ban?: string | { readonly after: number; readonly within: string; readonly for: string };
  /** Whether the policy only decides and reports. Default: `false`. */
  readonly dryRun?: boolean;
  /**
   * The decider: the object (`"strict"`), a borrowed slice of its units (`"leased"`), or the isolate (`"eventual"`).
   * Default: `"strict"`.
   */
  readonly consistency?: "strict" | "leased" | "eventual";
  /** The interval of syncs under `"eventual"`, 100 ms to 10 s. Default: `"1s"`. */
  readonly syncEvery?: string;
  /** How an isolate decides while the object gives no answer. Default: `"local"`: by the same limits in the isolate. */
  readonly onError?: "local" | "open" | "closed";
  /** The longest wait for the object, 10 ms to 30 s. Default: `"1s"`. */
  readonly timeout?: string;
  /** Whether isolates repeat a denial from memory for up to one second. Default: `true`. */
  readonly denyCache?: boolean;
  /** One object for each key, or a fixed number of objects for all keys. Default: `"per-key"`. */
  readonly objects?: "per-key" | "sharded";
  /** The number of objects with `objects: "sharded"`, 1 to 4,096. Default: 32. */
  readonly shards?: number;
  /** The region in which objects are created. Default: near the first caller. */
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
  /** The jurisdiction in which objects run and store. */
  readonly jurisdiction?: "eu" | "us" | "fedramp" | "fedramp-high";
  /** Whether a reply waits for storage. Default: `"relaxed"`: it does not. */
  readonly durability?: "relaxed" | "confirmed";
  /** The longest delay in a leaky-bucket queue, 1 ms to 1 hour. Default: set by the burst. */
  readonly maxDelay?: string;
  /** The bits of an IPv6 address that identify a client, 32 to 128. Default: 64. */
  readonly ipv6Prefix?: number;
  /** The entry of `X-Forwarded-For`, from the right, that is the client, 1 to 10. Default: the peer of Cloudflare. */
  readonly trustedProxies?: number;
}
