/**
 * Compares the requests of one key in two isolates with a list of allowed requests. The key's limits change from
 * request to request.
 */
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { createLimiter } from "../../../src/sdk/package/limiter.ts";
import { createTestLimiter } from "../../../src/sdk/package/test.ts";
import { forAll } from "../../for-all.ts";

const windowMs = 10_000;

const request = fc.record({
  limit: fc.integer({ min: 1, max: 12 }),
  cost: fc.integer({ min: 1, max: 3 }),
  afterMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 3_000 })),
  isolate: fc.integer({ min: 0, max: 1 }),
});

/** Two isolates that use the same objects. */
function isolates() {
  const { env, clock } = createTestLimiter();
  return { clock, envs: [env, { ...env, LOG_DENIALS: "true" }] };
}

/** The units that count at a time. */
const unitsAt = (spent: readonly { atMs: number; cost: number }[], nowMs: number): number =>
  spent.reduce((sum, { atMs, cost }) => sum + (nowMs - atMs < windowMs ? cost : 0), 0);

const limiterWith = (consistency: "strict" | "leased") =>
  createLimiter({
    name: `bound-${consistency}`,
    limits: () => "1/10s",
    strategy: "sliding-log",
    consistency,
    denyCache: true,
  });

const strict = limiterWith("strict");
const leased = limiterWith("leased");

it(
  "a strict request is allowed exactly when the limit that it states has room for its cost",
  forAll(
    [fc.array(request, { minLength: 20, maxLength: 40 })],
    async (requests) => {
      const { clock, envs } = isolates();
      const spent: { atMs: number; cost: number }[] = [];
      for (const { limit, cost, afterMs, isolate } of requests) {
        // oxlint-disable no-await-in-loop
        await clock.advance(afterMs);
        const nowMs = clock.now();
        const fits = unitsAt(spent, nowMs) + cost <= limit;
        const input = { key: "a", cost, limits: `${limit}/10s` };
        const { allowed, limits } = await strict.check(envs[isolate] ?? {}, input);
        // oxlint-enable no-await-in-loop
        expect([allowed, limits[0]?.limit]).toEqual([fits, limit]);
        if (allowed) spent.push({ atMs: nowMs, cost });
      }
    },
    15,
  ),
);

it(
  "a leased request is never allowed beyond the limit that it states, whatever other requests have stated",
  forAll(
    [fc.array(request, { minLength: 20, maxLength: 40 })],
    async (requests) => {
      const { clock, envs } = isolates();
      const spent: { atMs: number; cost: number }[] = [];
      for (const { limit, cost, afterMs, isolate } of requests) {
        // oxlint-disable no-await-in-loop
        await clock.advance(afterMs);
        const nowMs = clock.now();
        const input = { key: "a", cost, limits: `${limit}/10s` };
        const { allowed } = await leased.check(envs[isolate] ?? {}, input);
        // oxlint-enable no-await-in-loop
        if (!allowed) continue;
        expect(unitsAt(spent, nowMs) + cost).toBeLessThanOrEqual(limit);
        spent.push({ atMs: nowMs, cost });
      }
      fc.pre(spent.length > 0);
    },
    15,
  ),
);
