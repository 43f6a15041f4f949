/** Waits and repetitions on a clock, and the clock that objects bring with them. */
import { expect, it } from "vitest";
import { clockName, clockOf, every, platformClock, sleep } from "../../src/limiter/clock.ts";
import { TestClock } from "../fakes/isolate.ts";

it("objects that bring no clock have the platform's clock", () => {
  expect(clockOf({ getByName: () => ({}) })).toBe(platformClock);
});

it("objects in memory have the clock that they bring", () => {
  const clock = new TestClock();
  expect(clockOf({ [clockName]: clock })).toBe(clock);
});

it("a wait ends when its time has passed", async () => {
  const clock = new TestClock();
  let hasEnded = false;
  void sleep(clock, 100, new AbortController().signal).then(() => (hasEnded = true));
  await clock.pass(99);
  expect(hasEnded).toBe(false);
  await clock.pass(1);
  expect(hasEnded).toBe(true);
});

it.each([false, true])(
  "a wait ends when its signal aborts, and leaves no timer: aborted before the wait: %s",
  async (isAbortedBefore) => {
    const clock = new TestClock();
    const client = new AbortController();
    if (isAbortedBefore) client.abort();
    const wait = sleep(clock, 100, client.signal);
    client.abort();
    await wait;
    expect([clock.now(), clock.hasTimer]).toEqual([new TestClock().now(), false]);
  },
);

it("a repeated action runs once per period until it is cancelled, even by itself", async () => {
  const clock = new TestClock();
  const ranAtMs: number[] = [];
  const begunAtMs = clock.now();
  const cancel = every(clock, 30, () => {
    ranAtMs.push(clock.now() - begunAtMs);
    if (ranAtMs.length === 3) cancel();
  });
  await clock.pass(1_000);
  expect([ranAtMs, clock.hasTimer]).toEqual([[30, 60, 90], false]);
});
