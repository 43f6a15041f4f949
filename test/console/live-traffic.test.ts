/** Rates per second from counts of minutes, over new minutes, restarts of the control plane, pauses and wrong clocks. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Statistics } from "../../src/console/api/answers.ts";
import { LiveTraffic } from "../../src/console/overview/live-traffic.ts";
import { numbersOf } from "../../src/console/overview/tally.ts";
import { trafficOfPolicy } from "../../src/console/overview/traffic.ts";
import { forAll } from "../for-all.ts";
import { minuteMs, point, startMs, statisticsOf } from "./statistics.ts";

/** Counts allowed decisions of the policy `api` by minute, and answers as the control plane does. */
class Plane {
  nowMs = startMs + 30_000;
  decisions = 0;
  #minutes = new Map<number, number>();
  #stored = new Map<number, number>();

  allow(count: number): void {
    const minute = this.nowMs - (this.nowMs % minuteMs);
    this.#minutes.set(minute, (this.#minutes.get(minute) ?? 0) + count);
    this.decisions += count;
  }

  store(): void {
    this.#stored = new Map(this.#minutes);
  }

  /** The answer of a plane that has lost what it has not stored, until isolates send it again. */
  answer(fromMs: number | null, hasLost = false): Statistics {
    const first = fromMs ?? this.nowMs - 60 * minuteMs;
    const toMs = Math.ceil((this.nowMs + 1) / minuteMs) * minuteMs;
    const points = [...(hasLost ? this.#stored : this.#minutes)]
      .filter(([atMs]) => atMs >= first)
      .map(([atMs, allowed]) => point(atMs, "api", { outcomes: { allowed } }));
    return statisticsOf([first - (first % minuteMs), toMs], points);
  }
}

const allowedIn = (live: LiveTraffic): number =>
  numbersOf(trafficOfPolicy(live.traffic(), "api").total).allowed;

const ratesOf = (live: LiveTraffic): readonly (number | null)[] =>
  trafficOfPolicy(live.traffic(), "api").lines.allowed;

describe("live traffic", () => {
  it("begins with the first read, and has each later decision once over a new minute", () => {
    const plane = new Plane();
    const live = new LiveTraffic();
    plane.allow(1_000);
    live.add(plane.answer(live.fromMs), plane.nowMs);
    expect(allowedIn(live)).toBe(0);
    for (let read = 0; read < 60; read++) {
      plane.nowMs += 2_000;
      plane.allow(10);
      live.add(plane.answer(live.fromMs), plane.nowMs);
    }
    expect(allowedIn(live)).toBe(600);
    expect(new Set(ratesOf(live).slice(1))).toEqual(new Set([5]));
    expect(ratesOf(live)[0]).toBeNull();
  });

  it(
    "counts each decision once, although counts decrease while a restarted control plane receives them again",
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
        live.add(plane.answer(live.fromMs), plane.nowMs);
        for (const { allowed, isStored, hasLost, pauseMs } of reads) {
          plane.nowMs += pauseMs;
          plane.allow(allowed);
          if (isStored) plane.store();
          live.add(plane.answer(live.fromMs, hasLost), plane.nowMs);
        }
        plane.nowMs += 1_000;
        live.add(plane.answer(live.fromMs), plane.nowMs);
        expect(allowedIn(live)).toBe(plane.decisions);
      },
    ),
  );

  it("the decisions during a long pause are not a rate", () => {
    const plane = new Plane();
    const live = new LiveTraffic();
    live.add(plane.answer(live.fromMs), plane.nowMs);
    for (const pauseMs of [2_000, 40_000, 2_000]) {
      plane.nowMs += pauseMs;
      plane.allow(pauseMs / 200);
      live.add(plane.answer(live.fromMs), plane.nowMs);
    }
    expect(ratesOf(live)).toEqual([null, 5, null, 5]);
    expect(allowedIn(live)).toBe(20);
  });

  it("keeps five minutes", () => {
    const plane = new Plane();
    const live = new LiveTraffic();
    for (let read = 0; read < 400; read++) {
      plane.nowMs += 2_000;
      plane.allow(2);
      live.add(plane.answer(live.fromMs), plane.nowMs);
    }
    expect(allowedIn(live)).toBe(300);
    const { times, fromMs, toMs } = live.traffic();
    expect(times.length).toBe(150);
    expect(toMs - fromMs).toBeLessThanOrEqual(5 * minuteMs);
  });

  it(
    "has the times of the control plane within two reads, once a minute has passed, for any clock of the browser",
    forAll(
      [fc.integer({ min: -86_400_000, max: 86_400_000 }), fc.integer({ min: 0, max: 59_999 })],
      (aheadMs, offsetMs) => {
        const plane = new Plane();
        plane.nowMs = startMs + offsetMs;
        const live = new LiveTraffic();
        for (let read = 0; read < 65; read++) {
          plane.nowMs += 2_000;
          live.add(plane.answer(live.fromMs), plane.nowMs + aheadMs);
        }
        expect(Math.abs(live.traffic().toMs - plane.nowMs)).toBeLessThanOrEqual(
          // A clock that is behind shows itself when a minute begins; one that is ahead, just before.
          Math.abs(aheadMs) < 2_000 ? Math.abs(aheadMs) : 2_000,
        );
      },
    ),
  );

  it("continues when the clock of the browser is set back", () => {
    const plane = new Plane();
    const live = new LiveTraffic();
    for (const aheadMs of [0, 0, -5_000, -5_000]) {
      plane.nowMs += 2_000;
      plane.allow(10);
      live.add(plane.answer(live.fromMs), plane.nowMs + aheadMs);
    }
    const { times } = live.traffic();
    expect(times).toEqual(times.toSorted((one, other) => one - other));
    expect(ratesOf(live).at(-1)).toBe(5);
  });
});
