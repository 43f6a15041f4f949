/** Limits that are chosen on the first half of a recording and measured on the second. */
import { expect, it } from "vitest";
import { parseGoal } from "../../../src/advisor/search/goal.ts";
import { adviseAndCheck, type CheckedAdvice, until } from "../../../src/advisor/search/second-half.ts";
import type { Timelines } from "../../../src/advisor/replay/timelines.ts";
import { startMs, timelinesFrom, type TrafficShape } from "./traffic.ts";

const hourMs = 3_600_000;

function checked(timelines: Timelines, goal: string): CheckedAdvice {
  const steps = adviseAndCheck(timelines, parseGoal(goal));
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** Each key sends its 8 requests of a half within one minute. In the second half, one key in 10 sends 100. */
const growing = (floods: boolean): TrafficShape => ({
  keys: 1_000,
  periodMs: 8 * hourMs,
  arrivals: (random, key, addAt) => {
    for (const half of [0, 1]) {
      const beginMs = (4 * half + 3.9 * random()) * hourMs;
      const requests = floods && half === 1 && key % 10 === 0 ? 100 : 8;
      for (let n = 0; n < requests; n++) addAt(beginMs + 5_000 * random());
    }
  },
});

it("a limit is chosen on the first half of a log, and its denials in the second half are counted", () => {
  const timelines = timelinesFrom(growing(false), 1);
  const { advice, secondHalf } = checked(timelines, "deny at most 1 key in 100");
  expect(advice.recommendation.kind).toBe("recommended");
  expect(advice.source).toMatchObject({ toMs: secondHalf?.fromMs, requests: 8_000 });
  expect(secondHalf).toMatchObject({ requests: 8_000, keys: 1_000, meetsGoal: true });
});

it("the second half shows that the traffic changed, although the first half meets the goal", () => {
  const timelines = timelinesFrom(growing(true), 1);
  const { advice, secondHalf } = checked(timelines, "deny at most 1 key in 100");
  expect(advice.recommendation.kind).toBe("recommended");
  expect(secondHalf?.deniedKeys).toBe(100);
  expect(secondHalf?.meetsGoal).toBe(false);
});

it("a recording is used as a whole when its first half gives no recommendation", () => {
  // Proving a share of 1 in 100 takes about 400 keys, but the first half has only 250 of the 500 keys.
  const few = { ...growing(false), keys: 500, arrivals: lateKeys };
  const { advice, secondHalf } = checked(timelinesFrom(few, 1), "deny at most 1 key in 100");
  expect([advice.recommendation.kind, secondHalf]).toEqual(["recommended", null]);
});

/** Half of the keys send only in the first half, the others only in the second. */
const lateKeys: TrafficShape["arrivals"] = (random, key, addAt) => {
  const beginMs = (4 * (key % 2) + 3.9 * random()) * hourMs;
  for (let n = 0; n < 8; n++) addAt(beginMs + 5_000 * random());
};

it("a short recording is not divided", () => {
  const short: TrafficShape = {
    keys: 1_000,
    periodMs: hourMs,
    arrivals: (random, _, addAt) => {
      for (let n = 0; n < 3; n++) addAt(random() * hourMs);
    },
  };
  const { secondHalf } = checked(timelinesFrom(short, 1), "deny at most 1 key in 100");
  expect(secondHalf).toBeNull();
});

it("timelines that are cut at an instant keep only the keys that have arrived before it, in the same order", () => {
  const whole = timelinesFrom(growing(false), 1);
  const middleMs = startMs + 2 * hourMs;
  const first = until(whole, middleMs);
  const rows = [...whole.keys.keys()].flatMap((key) => {
    const own = whole.atMs.subarray(whole.firstRow[key], whole.firstRow[key + 1]);
    return [...own].filter((atMs) => atMs < middleMs).map((atMs) => [whole.keys[key], atMs]);
  });
  const kept = [...first.keys.keys()].flatMap((key) =>
    [...first.atMs.subarray(first.firstRow[key], first.firstRow[key + 1])].map((atMs) => [first.keys[key], atMs]),
  );
  expect(rows.length).toBeGreaterThan(1_000);
  expect(kept).toEqual(rows);
  expect(first.cost.length).toBe(rows.length);
});
