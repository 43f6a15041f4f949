/** The performance goals of Headgate, as ratios between contestants of one run. */
import type { LoadName } from "./load.ts";

export interface Goal {
  readonly title: string;
  readonly of: string;
  readonly to: string;
  /** Under load, the ratio is that of request rates. With one request at a time, it is that of p50 latencies. */
  readonly load: LoadName;
  /** A minimum for ratios of request rates, a maximum for ratios of p50. */
  readonly bound: number;
}

const atLeast = (title: string, of: string, to: string, bound: number): Goal => ({
  title,
  of,
  to,
  load: "loaded",
  bound,
});

export const goals: readonly Goal[] = [
  atLeast("strict, one key ÷ no-op object call", "check", "noop", 1),
  atLeast("strict, one key ÷ hono-rate-limiter", "check", "store", 2.5),
  atLeast("denied ÷ JSON request and response", "check-denied", "plain-json", 0.8),
  atLeast("leased ÷ JSON request and response", "check-leased", "plain-json", 0.75),
  atLeast("proxy, denied ÷ JSON response", "proxy-denied", "plain", 0.65),
  atLeast("proxy, denied ÷ hono-rate-limiter, denied", "proxy-denied", "store-denied", 4),
  atLeast("proxy, strict ÷ pass-through and no-op object call", "proxy", "pass-noop", 0.75),
  atLeast("1,000 keys in 32 shards ÷ no-op object call", "check-thousand-sharded", "noop", 0.7),
  atLeast("new keys in 32 shards ÷ no-op object call", "check-new-sharded", "noop", 0.5),
  {
    title: "strict, p50 alone ÷ no-op object call, JSON request",
    of: "check",
    to: "noop-json",
    load: "alone",
    bound: 1.3,
  },
];
