/** The virtual clock: which timers fire at which time, and what has happened when `advance` resolves. */
import { describe, expect, it, vi } from "vitest";
import { every, sleep } from "../../../src/limiter/clock.ts";
import { VirtualClock } from "../../../src/sdk/testing/virtual-clock.ts";

const startMs = Date.UTC(2026, 0, 1);

class Story {
  readonly clock = new VirtualClock(startMs);
  readonly log: string[] = [];

  note(text: string): void {
    this.log.push(`${this.clock.now() - startMs} ${text}`);
  }

  set(afterMs: number, text: string): () => void {
    return this.clock.after(afterMs, () => this.note(text));
  }
}

describe("advance", () => {
  it("timers fire in the order in which they are due, each at its instant", async () => {
    const story = new Story();
    story.set(30, "c");
    story.set(10, "a");
    story.set(20, "b");
    await story.clock.advance(25);
    story.note("now");
    expect(story.log).toEqual(["10 a", "20 b", "25 now"]);
  });

  it("timers that are due at the same time fire in the order in which they were set", async () => {
    const story = new Story();
    for (const text of ["a", "b", "c"]) story.set(10, text);
    await story.clock.advance(10);
    expect(story.log).toEqual(["10 a", "10 b", "10 c"]);
  });

  it("a cancelled timer never fires", async () => {
    const story = new Story();
    const cancel = story.set(10, "cancelled");
    story.set(5, "cancels");
    story.clock.after(5, cancel);
    await story.clock.advance(100);
    expect(story.log).toEqual(["5 cancels"]);
    expect(story.clock.hasTimer).toBe(false);
  });

  it("a timer that is set by another timer fires in the same advance if it is due before the end", async () => {
    const story = new Story();
    story.clock.after(10, () => {
      story.set(0, "at once");
      story.set(5, "soon");
      story.set(50, "later");
    });
    await story.clock.advance(20);
    expect(story.log).toEqual(["10 at once", "15 soon"]);
    await story.clock.advance(40);
    expect(story.log.at(-1)).toBe("60 later");
  });

  it("the work that a timer starts ends before the next timer fires, even if it awaits many promises", async () => {
    const story = new Story();
    const work = async (): Promise<void> => {
      for (let count = 0; count < 100; count++) {
        // oxlint-disable-next-line no-await-in-loop
        await Promise.resolve();
      }
      story.note("worked");
      await sleep(story.clock, 5);
      story.note("slept");
    };
    story.clock.after(10, () => void work());
    story.set(11, "next");
    await story.clock.advance(20);
    expect(story.log).toEqual(["10 worked", "11 next", "15 slept"]);
  });

  it("the virtual clock stands still while it is held for work of another thread", async () => {
    const story = new Story();
    const bytes = new Uint8Array(4_000_000);
    const digests = async (): Promise<void> => {
      for (let count = 0; count < 5; count++) {
        // oxlint-disable-next-line no-await-in-loop
        await story.clock.hold(crypto.subtle.digest("SHA-256", bytes));
      }
      story.note("digests");
      await sleep(story.clock, 10);
      story.note("slept");
    };
    void digests();
    story.set(5, "timer");
    await story.clock.advance(10);
    expect(story.log).toEqual(["0 digests", "5 timer", "10 slept"]);
  });

  it("the virtual clock goes on after work for which it was held has failed", async () => {
    const { clock } = new Story();
    const failing = clock.hold(crypto.subtle.digest("no digest", new Uint8Array(1)));
    await Promise.all([clock.advance(10), expect(failing).rejects.toThrow(/Unrecognized/)]);
    expect(clock.now()).toBe(startMs + 10);
  });

  it("when advance is called several times at once, the calls take effect one after the other", async () => {
    const story = new Story();
    story.set(15, "timer");
    await Promise.all([story.clock.advance(10), story.clock.advance("20ms")]);
    story.note("now");
    expect(story.log).toEqual(["15 timer", "30 now"]);
  });

  it("an action that repeats every hour runs 8,760 times in a year", async () => {
    const story = new Story();
    let runs = 0;
    every(story.clock, 3_600_000, () => runs++);
    await story.clock.advance("365d");
    expect(runs).toBe(8_760);
  });

  it("the virtual clock advances under the fake timers of a test runner", async () => {
    vi.useFakeTimers();
    try {
      const story = new Story();
      story.set(10, "timer");
      await story.clock.advance(10);
      expect(story.log).toEqual(["10 timer"]);
    } finally {
      vi.useRealTimers();
    }
  });

  it.each([
    ["1m", 60_000],
    ["90 seconds", 90_000],
    ["day", 86_400_000],
    [0, 0],
    [250, 250],
  ])("a duration of %j advances the clock by %i ms", async (duration, ms) => {
    const { clock } = new Story();
    await clock.advance(duration);
    expect(clock.now()).toBe(startMs + ms);
  });

  it.each(["soon", "", "-1s", -1, 0.5, Number.NaN, null, undefined, {}])(
    "an invalid duration is rejected by its value, and no time passes: %j",
    async (duration) => {
      const { clock } = new Story();
      await expect(clock.advance(duration as string)).rejects.toThrow(
        /^advance(?:: expected| is missing: expected) a duration from 1 ms to 10 years such as "30s".*, or an integer of milliseconds from 0/,
      );
      expect(clock.now()).toBe(startMs);
    },
  );
});
