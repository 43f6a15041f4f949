/** The translated script of Upstash's sliding window makes the same decisions as the original on Redis. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { mock } from "node:test";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ratelimit } from "@upstash/ratelimit";
import { Redis } from "ioredis";
import { expect, it } from "vitest";
import { randomFrom } from "../../random.ts";
import { redisVersion } from "../http/node-and-redis.ts";
import { killWithParent } from "../workerd-process.ts";
import { UpstashRedis } from "./upstash-redis.ts";

const startMs = 1_800_000_000_000;

async function withRedis<T>(run: (redis: Redis) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-redis-"));
  const path = join(folder, "socket");
  const options = ["--port", "0", "--unixsocket", path, "--save", "", "--dir", folder];
  const child = spawn("redis-server", options, { stdio: "ignore" });
  killWithParent(child);
  const redis = new Redis({ path });
  // Connections fail and are retried until the server listens.
  redis.on("error", () => undefined);
  try {
    return await run(redis);
  } finally {
    redis.disconnect();
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  }
}

const onRedis = (redis: Redis): Ratelimit =>
  new Ratelimit({
    redis: {
      evalsha: (hash: string, keys: string[], values: unknown[]) =>
        redis.evalsha(hash, keys.length, ...keys, ...values.map(String)),
      eval: (script: string, keys: string[], values: unknown[]) =>
        redis.eval(script, keys.length, ...keys, ...values.map(String)),
    } as unknown as ConstructorParameters<typeof Ratelimit>[0]["redis"],
    limiter: Ratelimit.slidingWindow(7, "60000 ms"),
    timeout: 0,
  });

it.skipIf(redisVersion() === undefined)(
  "the translated script allows the same requests and leaves as many units as the script on Redis",
  async () => {
    const random = randomFrom(9);
    const seen = new Set<boolean>();
    await withRedis(async (redis) => {
      const original = onRedis(redis);
      const translated = new UpstashRedis().limiter(7, 60_000);
      let atMs = startMs;
      for (let request = 0; request < 1_000; request++) {
        atMs += Math.floor(random() * 15_000);
        mock.timers.enable({ apis: ["Date"], now: atMs });
        try {
          const [expected, got] = [await original.limit("a"), await translated.limit("a")];
          const { success, remaining, reset } = expected;
          expect(got).toMatchObject({ success, remaining, reset });
          seen.add(success);
        } finally {
          mock.timers.reset();
        }
      }
    });
    expect(seen.size).toBe(2);
  },
  60_000,
);
