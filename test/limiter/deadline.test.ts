import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { platformClock, DeadlineExceeded, withDeadline } from "../../src/limiter/clock.ts";
import { TestClock } from "../fakes/isolate.ts";

/** Keeps the thread busy, so that timers and replies wait. */
function block(forMs: number): void {
  const untilMs = performance.now() + forMs;
  while (performance.now() < untilMs);
}

const never = new Promise<never>(() => undefined);

describe("the deadline of a call", () => {
  it("a reply that arrived while the isolate was busy is not too late", async () => {
    // A reply by setImmediate is read only after the timers that are due, like a reply of another thread or process.
    const reply = setImmediate("reply");
    const deadline = withDeadline(platformClock, reply, 1);
    block(20);
    expect(await deadline).toBe("reply");
  });

  it("a deadline missed by a busy isolate is not attributed to the object", async () => {
    const deadline = withDeadline(platformClock, never, 10);
    const caught = deadline.catch((error: unknown) => error);
    block(200);
    expect(await caught).toMatchObject({ name: "DeadlineExceeded", wasBusy: true });
  });

  it("a deadline missed by an idle isolate is attributed to the object", async () => {
    const clock = new TestClock();
    const caught = withDeadline(clock, never, 250).catch((error: unknown) => error);
    await clock.pass(250);
    const error = await caught;
    expect(error).toBeInstanceOf(DeadlineExceeded);
    expect(error).toMatchObject({ message: "no answer within 250 ms", wasBusy: false });
  });
});
