/** The log of denials during floods: its rate, and its counts of omitted denials. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Clock } from "../../../src/limiter/clock.ts";
import { DenialLog, type LoggedDenial } from "../../../src/limiter/isolate/denial-log.ts";

const lines: { event: string; policy?: string; omitted?: number }[] = [];
beforeEach(() => {
  lines.length = 0;
  vi.spyOn(console, "log").mockImplementation((line: string) => void lines.push(JSON.parse(line)));
});
afterEach(() => void vi.restoreAllMocks());

/** A clock that the test sets, and a denial log that uses it. */
class Time implements Clock {
  nowMs = 1_000_000;
  readonly #timers = new Map<object, { readonly atMs: number; readonly act: () => void }>();
  readonly log = new DenialLog(this);
  readonly waitUntil = vi.fn<(work: Promise<unknown>) => void>();
  readonly now = (): number => this.nowMs;

  readonly after = (afterMs: number, act: () => void): (() => void) => {
    const timer = { atMs: this.nowMs + afterMs, act };
    this.#timers.set(timer, timer);
    return () => this.#timers.delete(timer);
  };

  get timers(): number {
    return this.#timers.size;
  }

  /** Ends the context of the request, and with it the request's timers. */
  cutOff(): void {
    this.#timers.clear();
  }

  async pass(ms: number): Promise<void> {
    const untilMs = this.nowMs + ms;
    for (;;) {
      const due = [...this.#timers.values()].filter(({ atMs }) => atMs <= untilMs);
      const [first] = due.toSorted((a, b) => a.atMs - b.atMs);
      if (first === undefined) break;
      this.#timers.delete(first);
      this.nowMs = Math.max(this.nowMs, first.atMs);
      first.act();
      // Lets the work run that waited for the timer.
      // oxlint-disable-next-line no-await-in-loop
      await new Promise((resolve) => void setTimeout(resolve, 0));
    }
    this.nowMs = untilMs;
  }

  deny(count = 1): void {
    for (let denial = 0; denial < count; denial++) {
      this.log.note(
        () => ({ policy: "p", reason: "limit", violated: ["p"], key: "k", retryAfterMs: 5 }),
        this.waitUntil,
      );
    }
  }
}

const omitted = (): (number | undefined)[] => lines.map((line) => line.omitted);
const denials = (): number => lines.filter(({ event }) => event === "request-denied").length;

describe("the log of denials", () => {
  it("ten denials are logged with one line each, without timers or background work", () => {
    const time = new Time();
    time.deny(10);
    expect(lines).toEqual(
      Array.from({ length: 10 }, () => ({
        event: "request-denied",
        policy: "p",
        reason: "limit",
        violated: ["p"],
        key: "k",
        retryAfterMs: 5,
      })),
    );
    expect([time.timers, time.waitUntil.mock.calls.length]).toEqual([0, 0]);
  });

  it("the log does not build the entry of a denial that it omits", () => {
    const time = new Time();
    time.deny(10);
    const denialOf = vi.fn<() => LoggedDenial>();
    time.log.note(denialOf, time.waitUntil);
    expect(denialOf).not.toHaveBeenCalled();
  });

  it("the log has at most ten lines in any second, at whatever times the denials come", async () => {
    const time = new Time();
    const writtenAtMs: number[] = [];
    for (let step = 0; step < 2_000; step++) {
      const before = lines.length;
      time.deny(step % 7 === 0 ? 5 : 0);
      for (let line = before; line < lines.length; line++) writtenAtMs.push(time.nowMs);
      const during = lines.length;
      // oxlint-disable-next-line no-await-in-loop
      await time.pass(10);
      for (let line = during; line < lines.length; line++) writtenAtMs.push(time.nowMs);
    }
    const most = Math.max(
      ...writtenAtMs.map((atMs) => writtenAtMs.filter((each) => each >= atMs && each < atMs + 990).length),
    );
    expect([most, writtenAtMs.length >= 190]).toEqual([10, true]);
  });

  it("every denial is logged, with its own line or in the count of omitted denials", async () => {
    const time = new Time();
    let count = 0;
    for (let step = 0; step < 300; step++) {
      const more = (step * 7_919) % 23;
      time.deny(more);
      count += more;
      // oxlint-disable-next-line no-await-in-loop
      await time.pass((step * 104_729) % 700);
    }
    await time.pass(2_000);
    const left = lines.reduce((sum, line) => sum + (line.omitted ?? 0), 0);
    expect(denials() + left).toBe(count);
    expect(left).toBeGreaterThan(100);
  });

  it("the next line reports the number of omitted denials", async () => {
    const time = new Time();
    time.deny(13);
    time.cutOff();
    expect(lines).toHaveLength(10);
    await time.pass(1_000);
    time.deny(2);
    expect(omitted().slice(9)).toEqual([undefined, 3, undefined]);
  });

  it("the next line reports even a single omitted denial", async () => {
    const time = new Time();
    time.deny(11);
    time.cutOff();
    await time.pass(1_000);
    time.deny();
    expect(omitted().slice(10)).toEqual([1]);
  });

  it("a count of omitted denials that a line has reported is not logged again", async () => {
    const time = new Time();
    time.deny(13);
    // The denial comes at the time of the timer, just before it fires.
    time.nowMs += 1_000;
    time.deny();
    await time.pass(2_000);
    expect([omitted().slice(10), time.timers]).toEqual([[3], 0]);
  });

  it("without further denials, the count of omitted denials is logged once, within a second of the last line", async () => {
    const time = new Time();
    time.deny(4);
    await time.pass(400);
    time.deny(13);
    expect(time.waitUntil).toHaveBeenCalledTimes(1);
    await time.pass(599);
    expect(lines).toHaveLength(10);
    await time.pass(1);
    expect(lines.slice(10)).toEqual([{ event: "denials-omitted", omitted: 7 }]);
    await time.pass(60_000);
    expect([lines.length, time.timers]).toEqual([11, 0]);
  });

  it("the log has at most one timer, and none after the flood", async () => {
    const time = new Time();
    for (let step = 0; step < 50; step++) {
      time.deny(40);
      expect(time.timers).toBeLessThanOrEqual(1);
      // oxlint-disable-next-line no-await-in-loop
      await time.pass(100);
    }
    await time.pass(1_000);
    expect(time.timers).toBe(0);
    const left = lines.reduce((sum, line) => sum + (line.omitted ?? 0), 0);
    expect(denials() + left).toBe(2_000);
  });

  it("during a long flood, a request logs the count of omitted denials for at most 10 s before another request takes over", async () => {
    const time = new Time();
    const pending = new Set<Promise<unknown>>();
    let longest = 0;
    time.waitUntil.mockImplementation((work) => {
      const beganAtMs = time.nowMs;
      pending.add(work);
      void work.finally(() => {
        pending.delete(work);
        longest = Math.max(longest, time.nowMs - beganAtMs);
      });
    });
    for (let step = 0; step < 300; step++) {
      time.deny(15);
      // oxlint-disable-next-line no-await-in-loop
      await time.pass(100);
    }
    await time.pass(2_000);
    expect([pending.size, time.waitUntil.mock.calls.length > 1]).toEqual([0, true]);
    expect(longest).toBeLessThanOrEqual(11_000);
  });

  it("when the request that would log the count is cut off, a later denial reports the count", async () => {
    const time = new Time();
    time.deny(12);
    time.cutOff();
    await time.pass(10_001);
    time.deny(12);
    expect(omitted().slice(10, 11)).toEqual([2]);
    await time.pass(1_000);
    expect(lines.at(-1)).toEqual({ event: "denials-omitted", omitted: 2 });
  });

  it("after the clock steps back, denials are logged without delay", async () => {
    const time = new Time();
    time.deny(12);
    time.nowMs -= 3_600_000;
    time.deny(11);
    expect([denials(), lines[10]?.omitted]).toEqual([20, 2]);
    await time.pass(1_000);
    expect(lines.at(-1)).toEqual({ event: "denials-omitted", omitted: 1 });
  });
});
