/** Other rate limiters make the same decisions in virtual time as in real use. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { comparisonPage } from "./page.ts";
import { peerLimiters } from "./limiters.ts";
import { UpstashRedis } from "./upstash-redis.ts";
import { inVirtualTime } from "./virtual-time.ts";

const startMs = 1_800_000_000_000;

describe.each(peerLimiters)("$title", ({ start }) => {
  it("each other limiter allows the limit in each window, and denies the next request", async () => {
    const decided = await inVirtualTime(startMs, async (reach) => {
      const [decide] = start({ limit: 3, windowMs: 60_000 }, 1);
      const decisions: boolean[] = [];
      for (const atMs of [0, 1, 2, 3, 180_000, 180_001, 180_002, 180_003]) {
        reach(startMs + atMs);
        decisions.push((await decide?.("a")) ?? false);
      }
      return decisions;
    });
    expect(decided).toEqual([true, true, true, false, true, true, true, false]);
  });

  it("each other limiter keeps separate counters for different keys", async () => {
    const decided = await inVirtualTime(startMs, async () => {
      const [decide] = start({ limit: 1, windowMs: 60_000 }, 1);
      return [await decide?.("a"), await decide?.("b"), await decide?.("a")];
    });
    expect(decided).toEqual([true, true, false]);
  });
});

it("only limiters that keep their counters in one place share them between isolates, processes or locations", async () => {
  const shared: string[] = [];
  for (const { title, counters, start } of peerLimiters) {
    const second = await inVirtualTime(startMs, async () => {
      const deciders = start({ limit: 1, windowMs: 60_000 }, 2);
      await deciders[0]?.("a");
      return deciders[1]?.("a");
    });
    if (second === false) shared.push(title);
    expect([title, second]).toEqual([title, counters.startsWith("each")]);
  }
  expect(shared).toHaveLength(2);
});

it("an Upstash Redis bills five commands for a first request, four for the next, and three for a denial", () => {
  const redis = new UpstashRedis();
  const billed = [1, 2, 3].map(() => {
    const before = redis.commands;
    redis.run(["a:1", "a:0", ""], [2, startMs, 60_000, 1]);
    return redis.commands - before;
  });
  expect(billed).toEqual([5, 4, 3]);
});

it("the comparison page names the installed versions of the packages", () => {
  const page = readFileSync(comparisonPage, "utf8").replaceAll("\n", " ");
  const { devDependencies } = JSON.parse(readFileSync("test/tools/package.json", "utf8")) as {
    devDependencies: Record<string, string>;
  };
  for (const name of ["hono-rate-limiter", "express-rate-limit", "rate-limiter-flexible", "@upstash/ratelimit"]) {
    expect(page).toContain(`\`${name}\` ${devDependencies[name]}`);
  }
});
