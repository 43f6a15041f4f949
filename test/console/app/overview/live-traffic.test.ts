/**
 * Rates per second, computed from counts per minute: across new minutes, restarts of the control plane, pauses and
 * wrong clocks.
 */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { StatisticsView } from "../../../../src/admin/wire.ts";
import { LiveTraffic } from "../../../../src/console/app/overview/live-traffic.ts";
import { shownTraffic } from "../../../../src/console/app/overview/traffic.ts";
import { forAll } from "../../../for-all.ts";
import { minuteMs, point, startMs, statisticsOf } from "../statistics.ts";

/** Counts allowed decisions of the policy `api` by minute, and returns them as the control plane does. */
class Plane {
  nowMs = startMs + 30_000;
  decisions = 0;
  #minutes = new Map<number, number>();
  #stored = new Map<number, number>();

  /** @param agoMs how long ago an isolate counted the decisions that it reports now */
  allow(count: number, agoMs = 0): void {
    const atMs = this.nowMs - agoMs;
    const minute = atMs - (atMs % minuteMs);
    this.#minutes.set(minute, (this.#minutes.get(minute) ?? 0) + count);
    this.decisions += count;
  }

  store(): void {
    this.#stored = new Map(this.#minutes);
  }

  /** The answer of a control plane that has lost its unstored counts, until isolates send them again. */
  answer(fromMs: number, hasLost = false): StatisticsView {
    const first = fromMs - (fromMs % minuteMs);
    const toMs = Math.ceil((this.nowMs + 1) / minuteMs) * minuteMs;
    const points = [...(hasLost ? this.#stored : this.#minutes)]
      .filter(([atMs]) => atMs >= first)
      .map(([atMs, allowed]) => point(atMs, "api", { outcomes: { allowed } }));
    return statisticsOf([first, toMs], points);
  }
}

/** Reads now, with a browser clock that is ahead by this time. */
const readBy = (live: LiveTraffic, plane: Plane, hasLost = false, aheadMs = 0): void => {
  const nowMs = plane.nowMs + aheadMs;
  live.add(plane.answer(live.fromMs(nowMs) - aheadMs, hasLost), nowMs);
};

const allowedIn = (live: LiveTraffic): number => shownTraffic(live.traffic(), "api").numbers.allowed;

const ratesOf = (live: LiveTraffic): readonly (number | null)[] => shownTraffic(live.traffic(), "api").lines.allowed;

describe("live traffic", () => {
  it("the five minutes before the first read show the mean rate of each minute", () => {
    const plane = new Plane();
    const live = new LiveTraffic();
    const startedMs = plane.nowMs;
    for (const perMinute of [60, 120, 180, 240, 300, 360]) {
      plane.allow(perMinute);
      plane.nowMs += minuteMs;
    }
    plane.allow(200);
    plane.nowMs += 10_000;
    readBy(live, plane);
    expect(live.traffic().times).toEqual([
      ...[2, 3, 4, 5, 6].map((minute) => startedMs + minute * minuteMs - 30_000),
      plane.nowMs,
    ]);
    expect(ratesOf(live)).toEqual([2, 3, 4, 5, 6, 5]);
    expect(allowedIn(live)).toBe(120 + 180 + 240 + 300 + 360 + 200);
    expect(live.traffic().fromMs).toBe(plane.nowMs - 5 * minuteMs);
    // The oldest minute is counted as a whole.
    expect(live.traffic().countedFromMs).toBe(startedMs + minuteMs - 30_000);
  });

  it("when the current minute has just begun, it forms one sample with the minute before", () => {
    const plane = new Plane();
    const live = new LiveTraffic();
    plane.nowMs = startMs - 1;
    plane.allow(50);
    plane.nowMs = startMs + 2_000;
    plane.allow(12);
    readBy(live, plane);
    expect(ratesOf(live).slice(-2)).toEqual([0, 1]);
  });

  it("the first read returns all earlier counts at once, and they cause no peak", () => {
    const plane = new Plane();
    const live = new LiveTraffic();
    plane.nowMs = startMs + 40_000;
    plane.allow(400);
    readBy(live, plane);
    for (const late of [0, 100, ...Array.from({ length: 8 }, () => 20)]) {
      plane.nowMs += 2_000;
      plane.allow(late);
      readBy(live, plane);
    }
    expect(Math.max(...ratesOf(live).map(Number))).toBeLessThan(12);
    expect(ratesOf(live).at(-1)).toBeCloseTo(10);
    expect(allowedIn(live)).toBe(plane.decisions);
  });

  it("late counts of the minute before the first read belong to that minute, and cause no rise after it", () => {
    const plane = new Plane();
    const live = new LiveTraffic();
    plane.nowMs = startMs + 40_000;
    plane.allow(400, minuteMs);
    plane.allow(100);
    readBy(live, plane);
    plane.nowMs += 2_000;
    plane.allow(200, minuteMs);
    plane.allow(320);
    readBy(live, plane);
    expect(ratesOf(live).slice(-2)).toEqual([10, 10]);
    expect(allowedIn(live)).toBe(plane.decisions);
  });

  it("live rates count each later decision once across a new minute, at the mean rate of the last reads", () => {
    const plane = new Plane();
    const live = new LiveTraffic();
    readBy(live, plane);
    for (let read = 0; read < 60; read++) {
      plane.nowMs += 2_000;
      plane.allow(10);
      readBy(live, plane);
    }
    expect(allowedIn(live)).toBe(600);
    expect(new Set(ratesOf(live).slice(-50))).toEqual(new Set([5]));
  });

  it(
    "the totals are those of the last answer, whatever earlier answers of a restarted control plane had lost",
    forAll(
      [
        fc.array(
          fc.record({
            allowed: fc.nat(20),
            isStored: fc.boolean(),
            hasLost: fc.boolean(),
            pauseMs: fc.integer({ min: 1_000, max: 7_000 }),
          }),
          { maxLength: 40 },
        ),
      ],
      (reads) => {
        const plane = new Plane();
        const live = new LiveTraffic();
        readBy(live, plane);
        for (const { allowed, isStored, hasLost, pauseMs } of reads) {
          plane.nowMs += pauseMs;
          plane.allow(allowed);
          if (isStored) plane.store();
          readBy(live, plane, hasLost);
        }
        plane.nowMs += 1_000;
        readBy(live, plane);
        expect(allowedIn(live)).toBe(plane.decisions);
      },
    ),
  );

  it("counts that a restarted control plane receives again cause no second rise", () => {
    const plane = new Plane();
    const live = new LiveTraffic();
    for (let read = 0; read < 60; read++) {
      plane.nowMs += 2_000;
      plane.allow(10);
      if (read === 40) plane.store();
      readBy(live, plane, read > 40 && read < 45);
    }
    // The counts of ten seconds without stored counts arrive in one read.
    expect(Math.max(...ratesOf(live).map(Number))).toBeLessThan(11);
    expect(ratesOf(live).at(-1)).toBeCloseTo(5);
    expect(allowedIn(live)).toBe(plane.decisions);
  });

  it("the decisions during a pause have its mean rate, including those in the reads right after it", () => {
    const plane = new Plane();
    const live = new LiveTraffic();
    for (let read = 0; read < 11; read++) {
      plane.nowMs += 2_000;
      plane.allow(10);
      readBy(live, plane);
    }
    // The counts of the last 10 seconds of the pause arrive late.
    for (const [pauseMs, allowed] of [
      [40_000, 60],
      [2_000, 0],
      [2_000, 28],
      ...Array.from({ length: 8 }, () => [2_000, 4] as const),
    ] as const) {
      plane.nowMs += pauseMs;
      plane.allow(allowed);
      readBy(live, plane);
    }
    expect(ratesOf(live).slice(-7)).toEqual([5, 2, 2, 2, 2, 2, 2]);
    expect(allowedIn(live)).toBe(plane.decisions);
  });

  it("no rate is shown for the time of failed reads, and the mean rate for a pause without a failure", () => {
    for (const hasFailed of [true, false]) {
      const plane = new Plane();
      const live = new LiveTraffic();
      const readEachSecond = (seconds: number): void => {
        for (let second = 0; second < seconds; second++) {
          plane.nowMs += 1_000;
          plane.allow(5);
          readBy(live, plane);
        }
      };
      readEachSecond(30);
      const lostMs = plane.nowMs;
      plane.nowMs += 40_000;
      if (hasFailed) live.fail();
      readEachSecond(40);
      const rates = ratesOf(live);
      const { times, longSteps } = live.traffic();
      const pause = times.findIndex((atMs) => atMs > lostMs);
      expect(rates[pause - 1]).toBeCloseTo(5);
      expect(rates.at(-1)).toBeCloseTo(5);
      expect(rates[pause] === null).toBe(hasFailed);
      expect(longSteps.at(-1)).toMatchObject({ fromMs: lostMs, toMs: times[pause] });
      expect(allowedIn(live)).toBe(plane.decisions);
    }
  });

  it("a single failed read between two successful reads leaves no gap", () => {
    const plane = new Plane();
    const live = new LiveTraffic();
    for (let read = 0; read < 30; read++) {
      plane.nowMs += 2_000;
      plane.allow(10);
      if (read === 20) live.fail();
      else readBy(live, plane);
    }
    expect(ratesOf(live)).not.toContain(null);
  });

  it("operators who opened the page at different times and read at different intervals see the same rates", () => {
    const plane = new Plane();
    const watching = new LiveTraffic();
    const late = new LiveTraffic();
    for (let second = 0; second < 120; second++) {
      plane.nowMs += 1_000;
      // A fixed window of 10 seconds allows its requests at its start.
      plane.allow(second % 10 < 4 ? 20 : 0);
      if (second % 2 === 0) readBy(watching, plane);
      if (second > 30 && second % 5 === 3) readBy(late, plane);
    }
    const ratesAt = (live: LiveTraffic): Map<number, number | null | undefined> => {
      const rates = ratesOf(live);
      return new Map(live.traffic().times.map((atMs, index) => [atMs, rates[index]]));
    };
    const [one, other] = [ratesAt(watching), ratesAt(late)];
    const common = [...one.keys()].filter((atMs) => other.has(atMs) && atMs > startMs + 80_000);
    expect(common.length).toBeGreaterThan(30);
    for (const atMs of common) {
      expect(one.get(atMs)).toBeGreaterThan(6);
      expect(one.get(atMs)).toBeLessThan(10);
      expect(Math.abs((one.get(atMs) ?? 0) - (other.get(atMs) ?? 0))).toBeLessThan(3);
    }
  });

  it("after a pause longer than the shown span, the live rates restart with the minutes before the read", () => {
    const plane = new Plane();
    const live = new LiveTraffic();
    plane.allow(1_000);
    readBy(live, plane);
    plane.nowMs += 3 * 24 * 60 * minuteMs;
    plane.allow(7);
    expect(plane.nowMs - live.fromMs(plane.nowMs)).toBe(5 * minuteMs);
    readBy(live, plane);
    expect(allowedIn(live)).toBe(7);
    expect(live.traffic().times.length).toBe(6);
  });

  it("the live rates of the last five minutes are kept", () => {
    const plane = new Plane();
    const live = new LiveTraffic();
    for (let read = 0; read < 400; read++) {
      plane.nowMs += 2_000;
      plane.allow(2);
      readBy(live, plane);
    }
    const { times, fromMs, toMs, countedFromMs } = live.traffic();
    // The totals begin with a whole minute, and the reads of that minute are counted.
    expect(countedFromMs).toBe(fromMs - (fromMs % minuteMs));
    expect(allowedIn(live)).toBe(2 * ((plane.nowMs - countedFromMs) / 2_000 + 1));
    expect(times.length).toBe(150);
    expect(toMs - fromMs).toBe(5 * minuteMs);
  });

  it(
    "after a minute, the live rates have the control plane's times within two reads, for any clock of the browser",
    forAll(
      [fc.integer({ min: -86_400_000, max: 86_400_000 }), fc.integer({ min: 0, max: 59_999 })],
      (aheadMs, offsetMs) => {
        const plane = new Plane();
        plane.nowMs = startMs + offsetMs;
        const live = new LiveTraffic();
        for (let read = 0; read < 65; read++) {
          plane.nowMs += 2_000;
          readBy(live, plane, false, aheadMs);
        }
        expect(Math.abs(live.traffic().toMs - plane.nowMs)).toBeLessThanOrEqual(
          // A clock that is behind is noticed when a minute begins, and one that is ahead just before.
          Math.abs(aheadMs) < 2_000 ? Math.abs(aheadMs) : 2_000,
        );
      },
    ),
  );

  it("the live rates continue when the clock of the browser is set back", () => {
    const plane = new Plane();
    const live = new LiveTraffic();
    const steps = Array.from({ length: 10 }, () => 0);
    for (const aheadMs of [...steps, ...steps.map(() => -5_000)]) {
      plane.nowMs += 2_000;
      plane.allow(10);
      readBy(live, plane, false, aheadMs);
    }
    const { times } = live.traffic();
    expect(times).toEqual(times.toSorted((one, other) => one - other));
    expect(ratesOf(live).at(-1)).toBe(5);
    expect(allowedIn(live)).toBe(plane.decisions);
  });
});
