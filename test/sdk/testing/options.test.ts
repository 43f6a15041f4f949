/** The options of `createTestLimiter`. */
import { expect, it } from "vitest";
import { createTestLimiter } from "../../../src/sdk/package/test.ts";

it.each([
  [undefined, Date.UTC(2026, 0, 1)],
  [new Date(1_234_567), 1_234_567],
  ["2030-02-28T23:59:59Z", Date.UTC(2030, 1, 28, 23, 59, 59)],
  [0, 0],
])("the clock starts at the time in startAt: %j", (startAt, startMs) => {
  const { clock } = createTestLimiter({ ...(startAt !== undefined && { startAt }) });
  expect(clock.now()).toBe(startMs);
});

it.each(["soon", new Date(Number.NaN), -1, 0.5, null, {}])("a startAt that is no time is rejected: %j", (startAt) => {
  expect(() => createTestLimiter({ startAt: startAt as string })).toThrow(
    'createTestLimiter.startAt: expected a Date, a text such as "2026-01-31T23:59:00Z", or an integer of milliseconds since 1970, got',
  );
});

it("all invalid options are reported together, with their values", () => {
  const options = { startAt: "soon", policies: "5/minute", clock: 1 };
  expect(() => createTestLimiter(options as never)).toThrow(
    [
      'createTestLimiter.startAt: expected a Date, a text such as "2026-01-31T23:59:00Z", or an integer of milliseconds since 1970, got "soon"',
      'createTestLimiter.policies: expected a list of policies, got "5/minute"',
      "createTestLimiter.clock: expected one of the options startAt, policies, got 1",
    ].join("\n"),
  );
});

it("fail rejects a fault with an unknown name", () => {
  const { fail } = createTestLimiter();
  expect(() => fail("slow" as never)).toThrow('fail: expected "error" or "silent", got "slow"');
});

it("the environment of a test limiter has the types that wrangler generates for the bindings", () => {
  const { env } = createTestLimiter();
  const typed: Pick<Env, "RATE_LIMITER" | "KEY_SECRET"> = env;
  expect(typed.RATE_LIMITER.idFromName("a").name).toBe("a");
});
