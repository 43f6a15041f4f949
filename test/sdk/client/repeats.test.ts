/** With any answers of a service, the client never repeats a charge and keeps its bounds on attempts and waits. */
import * as fc from "fast-check";
import { it } from "vitest";
import { createClientAt } from "../../../src/sdk/client/client.ts";
import type { FetchResponse } from "../../../src/sdk/client/http.ts";
import { forAll } from "../../for-all.ts";
import { allowed } from "./faulty-server.ts";
import { SkippingClock, timeoutMs } from "./skipping-clock.ts";

/** The service's answer to one attempt. */
interface Fault {
  readonly status: 200 | 302 | 400 | 422 | 429 | 500 | 502 | 503 | null;
  readonly retryAfterSeconds: number | null;
  readonly replenishSeconds: number | null;
  readonly isReadable: boolean;
}

const seconds = fc.option(fc.integer({ min: 0, max: 12 }));
const faults = fc.array(
  fc.record<Fault>({
    status: fc.constantFrom(200, 302, 400, 422, 429, 429, 500, 502, 503, null),
    retryAfterSeconds: seconds,
    replenishSeconds: seconds,
    isReadable: fc.boolean(),
  }),
  { minLength: 1, maxLength: 8 },
);

async function answer({ status, retryAfterSeconds, replenishSeconds, isReadable }: Fault): Promise<FetchResponse> {
  if (status === null) throw new TypeError("fetch failed");
  const headers = new Headers();
  if (retryAfterSeconds !== null) headers.set("Retry-After", String(retryAfterSeconds));
  if (replenishSeconds !== null) headers.set("RateLimit", `"a";r=0;t=${replenishSeconds}`);
  return new Response(isReadable ? allowed : "<html>", { status, headers });
}

/** Whether an attempt with this answer may have been charged. */
const mayBeCharged = ({ status }: Fault): boolean => status === null || status < 300 || status >= 500;

interface Attempt {
  readonly atMs: number;
  readonly fault: Fault;
}

const kinds = fc.constantFrom("check", "reserve", "look", "settle");

it(
  "no charge is repeated, and no attempt comes too early, too late or too often",
  forAll(
    [faults, kinds, fc.nat(4), fc.nat(20_000), fc.float({ min: 0, max: Math.fround(0.999), noNaN: true })],
    async (script, kind, retries, maxWaitMs, random) => {
      const clock = new SkippingClock();
      const attempts: Attempt[] = [];
      const limiter = createClientAt(clock, () => random, {
        url: "https://limits.example.com",
        token: "t",
        retries,
        maxWaitMs,
        timeoutMs,
        fetch: (): Promise<FetchResponse> => {
          const fault = script[attempts.length % script.length] as Fault;
          attempts.push({ atMs: clock.now(), fault });
          return answer(fault);
        },
      });
      const key = { policy: "api", key: "k" };
      const startMs = clock.now();
      if (kind === "settle") await limiter.settle({ id: "i", cost: 1 }).catch(String);
      else if (kind === "reserve") await limiter.reserve({ ...key, ttlMs: 1_000 }).catch(String);
      else await limiter[kind](key).catch(String);

      const repeated = attempts.slice(0, -1);
      const isCharge = kind === "check" || kind === "reserve";
      const isTooEarly = repeated.some(({ atMs, fault: { status, retryAfterSeconds } }, index) => {
        const advertisedMs = status === null ? 0 : (retryAfterSeconds ?? 0) * 1_000;
        const nextMs = attempts[index + 1]?.atMs ?? 0;
        return nextMs - atMs < Math.max(100 * 2 ** index, advertisedMs);
      });
      return (
        attempts.length >= 1 &&
        attempts.length <= retries + 1 &&
        clock.now() - startMs <= maxWaitMs &&
        !isTooEarly &&
        !(isCharge && repeated.some(({ fault }) => mayBeCharged(fault))) &&
        clock.pending === 0
      );
    },
    200,
  ),
);
