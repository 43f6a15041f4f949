/**
 * A stand-in for Redis that runs the sliding window of `@upstash/ratelimit` and counts the commands that Upstash bills.
 */
import { Ratelimit } from "@upstash/ratelimit";

/** The hash of the script in version 2.0.8, which `run` translates. Another version of the script has another hash. */
const slidingWindowHash = "977fb636fb5ceb7e98a96d1b3a1272ba018efdae";

type Client = ConstructorParameters<typeof Ratelimit>[0]["redis"];

export class UpstashRedis {
  commands = 0;
  readonly #counters = new Map<string, number>();

  /** The limiter of one process or isolate, with the package's default options. */
  limiter(limit: number, windowMs: number): Ratelimit {
    const client = {
      // oxlint-disable-next-line require-await
      evalsha: async (hash: string, keys: readonly string[], values: readonly unknown[]) => {
        if (hash === slidingWindowHash) return this.run(keys, values.map(Number));
        throw new Error(`expected the script ${slidingWindowHash}, got ${hash}`);
      },
    };
    return new Ratelimit({
      redis: client as unknown as Client,
      limiter: Ratelimit.slidingWindow(limit, `${windowMs} ms`),
    });
  }

  /** The script in TypeScript. Upstash bills each of its commands, and the script itself. */
  run(keys: readonly string[], values: readonly number[]): [number, number] {
    const [currentKey = "", previousKey = ""] = keys;
    const [limit = 0, nowMs = 0, windowMs = 1, cost = 1] = values;
    const current = this.#counters.get(currentKey) ?? 0;
    const elapsed = (nowMs % windowMs) / windowMs;
    const previous = Math.floor((1 - elapsed) * (this.#counters.get(previousKey) ?? 0));
    this.commands += 3;
    if (previous + current >= limit) return [-1, limit];
    this.#counters.set(currentKey, current + cost);
    // A new counter also gets an expiry time, after which Redis deletes it.
    this.commands += current === 0 ? 2 : 1;
    return [limit - (current + cost + previous), limit];
  }
}
