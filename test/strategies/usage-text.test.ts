/** The sentence that explains the usage of a limit. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { limitSentence, waitText } from "../../src/strategies/usage.ts";
import type { LimitInput } from "../../src/strategies/index.ts";
import { withMaxDelay, createMeter, parseLimits } from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import { at } from "./timeline.ts";

type Spends = readonly (readonly [time: string, units: number])[];

interface Case {
  readonly limit: LimitInput;
  readonly spends: Spends;
  readonly time: string;
  readonly heldUnits?: number;
  readonly maxDelayMs?: number;
}

function sentenceOf({ limit, spends, time, heldUnits = 0, maxDelayMs }: Case): string {
  const meter = createMeter(withMaxDelay(parseLimits(limit), maxDelayMs ?? null));
  for (const [spentAt, units] of spends) meter.book(units, at(spentAt), at(spentAt));
  const [decision] = meter.look(1, at(time), heldUnits).limits;
  const [account] = meter.account(at(time), heldUnits);
  return decision === undefined || account === undefined ? "" : limitSentence(decision, account);
}

const counter = { limit: 60, window: "1m", strategy: "sliding-window-counter" };
const fixed = { limit: 5, window: "10s", strategy: "fixed-window" };
const quota = { limit: 1_000, window: "1mo", strategy: "fixed-window", timezone: "Europe/Berlin" };
const log = { limit: 60, window: "1m", strategy: "sliding-log" };
const buckets = { limit: 60, window: "1m", strategy: "sliding-buckets", buckets: 6 };
const tokens = { limit: 10, window: "1m", burst: 20, strategy: "token-bucket" };
const police = { ...tokens, strategy: "leaky-bucket", mode: "police" };
const queue = { limit: 2, window: "1s", burst: 5, strategy: "leaky-bucket" };
const slots = { limit: 2, window: "30s", strategy: "concurrency" };

const cases: readonly (readonly [sentence: string, example: Case])[] = [
  [
    "62 of 60 in the last minute: 41 in this window and 43 × 0.49 of the one before; the next request fits in 2.9 s.",
    {
      limit: counter,
      spends: [
        ["10:00:00", 43],
        ["10:01:10", 41],
      ],
      time: "10:01:30.6",
    },
  ],
  ["41 of 60 in the last minute; 19 more fit now.", { limit: counter, spends: [["10:00:00", 41]], time: "10:00:06" }],
  [
    "49 of 60 in the last minute: 41 counted here and 8 lent to isolates; 11 more fit now.",
    { limit: counter, spends: [["10:00:00", 41]], time: "10:00:06", heldUnits: 8 },
  ],
  ["0 of 60 in the last minute; 60 more fit now.", { limit: counter, spends: [], time: "10:00:00" }],
  [
    "5 of 5 in this window of 10 seconds; the next request fits in 3.2 s.",
    { limit: fixed, spends: [["10:00:00", 5]], time: "10:00:06.8" },
  ],
  [
    "4 of 5 in this window of 10 seconds; the window ends in 3.2 s; 1 more fits now.",
    { limit: fixed, spends: [["10:00:00", 4]], time: "10:00:06.8" },
  ],
  [
    "0 of 5 in a window of 10 seconds; no window is open; 5 more fit now.",
    { limit: fixed, spends: [["10:00:00", 4]], time: "10:00:10" },
  ],
  [
    "5 of 5 in this window of 10 seconds; the window ends after 3.2 s without a request; the next request fits in 3.2 s.",
    { limit: { ...fixed, elastic: true }, spends: [["10:00:00", 5]], time: "10:00:06.8" },
  ],
  [
    "900 of 1,000 this month (Europe/Berlin); the period ends in 17 d 13 h; 100 more fit now.",
    { limit: quota, spends: [["9:00:00", 900]], time: "9:10:00" },
  ],
  [
    "1,000 of 1,000 today (UTC); the next request fits in 14 h 50 min.",
    {
      limit: { ...quota, window: "1d", align: "calendar", timezone: "UTC" },
      spends: [["9:00:00", 1_000]],
      time: "9:10:00",
    },
  ],
  [
    "0 of 1,000 this month (Europe/Berlin); nothing is spent; 1,000 more fit now.",
    { limit: quota, spends: [], time: "9:10:00" },
  ],
  [
    "60 of 60 in the last minute; the oldest 3 leave in 10 s; the next request fits in 10 s.",
    {
      limit: log,
      spends: [
        ["10:00:00", 3],
        ["10:00:01", 57],
      ],
      time: "10:00:50",
    },
  ],
  [
    "1 of 60 in the last 90 seconds; the oldest leaves in 40 s; 59 more fit now.",
    { limit: { ...log, window: "90s" }, spends: [["10:00:00", 1]], time: "10:00:50" },
  ],
  [
    "23 of 60 in the buckets of 10 seconds that count: 12 + 8 + 3; the oldest 12 leave in 20 s; 37 more fit now.",
    {
      limit: buckets,
      spends: [
        ["10:00:00", 12],
        ["10:00:12", 8],
        ["10:00:25", 3],
      ],
      time: "10:00:50",
    },
  ],
  [
    "60 of 60 in the buckets of 1 second that count: 6 + 6 + 6 + 6 + 6 + 6 + 24 in the 4 latest; the oldest 6 leave in 52 s; the next request fits in 52 s.",
    {
      limit: { ...buckets, buckets: 60 },
      spends: Array.from({ length: 10 }, (_, index) => [`10:00:0${index}`, 6] as const),
      time: "10:00:09",
    },
  ],
  [
    "15 of 20 tokens are taken: 14.5 not refilled yet; 10 are refilled per minute; 5 more fit now.",
    { limit: tokens, spends: [["10:00:00", 20]], time: "10:00:33" },
  ],
  [
    "20 of 20 tokens are taken: 20 not refilled yet; up to 10 are refilled in 27 s; the next request fits in 27 s.",
    { limit: { ...tokens, refill: "interval" }, spends: [["10:00:00", 20]], time: "10:00:33" },
  ],
  ["0 of 20 tokens are taken; 20 more fit now.", { limit: tokens, spends: [], time: "10:00:00" }],
  [
    "18 of 20 units are in the bucket: 14.5 not drained yet and 3 lent to isolates; 10 drain per minute; 2 more fit now.",
    { limit: police, spends: [["10:00:00", 20]], time: "10:00:33", heldUnits: 3 },
  ],
  [
    "4 of 6 slots of the queue are taken: 1 by the last departure and 3 by waiting units; 2 more fit now, the next after 1.8 s.",
    { limit: queue, spends: [["10:00:00", 5]], time: "10:00:00.7" },
  ],
  [
    "1 of 6 slots of the queue are taken: 1 by the last departure; 5 more fit now, the next after 300 ms.",
    { limit: queue, spends: [["10:00:00", 1]], time: "10:00:00.2" },
  ],
  [
    "2 of 2 slots of the queue are taken: 2 less 0.4 that maxDelay has left; the next request fits in 300 ms.",
    { limit: queue, spends: [["10:00:00", 2]], time: "10:00:00", maxDelayMs: 700 },
  ],
  [
    "2 of 2 slots are held; the oldest is freed at the latest in 18 s; the next request fits in 18 s.",
    {
      limit: slots,
      spends: [
        ["10:00:00", 1],
        ["10:00:01", 1],
      ],
      time: "10:00:12",
    },
  ],
];

describe("the sentence about a limit", () => {
  test.each(cases)("%s", (sentence, example) => {
    expect(sentenceOf(example)).toBe(sentence);
  });

  const expectShareOfRightProduct = (units: number, intoMs: number) => {
    const limit = { ...counter, limit: 100_000 };
    const seconds = (60_000 + intoMs) / 1_000;
    const text = sentenceOf({
      limit,
      spends: [
        ["0", units],
        ["60", 1],
      ],
      time: String(seconds),
    });
    const [, used = "", share = ""] = /^([\d,]+) of .* × ([\d.]+) of/.exec(text) ?? [];
    const [, decimals = ""] = share.split(".");
    const scale = 10n ** BigInt(decimals.length);
    const product = (BigInt(units) * BigInt(share.replace(".", ""))) / scale;
    expect(Number(product) + 1).toBe(Number(used.replaceAll(",", "")));
  };

  test("when the units are a multiple of three, a share of one third is shown with enough digits for the right product", () => {
    expectShareOfRightProduct(2_580, 40_000);
  });

  test(
    "the share that a sentence shows gives the right product",
    forAll([fc.integer({ min: 1, max: 50_000 }), fc.integer({ min: 1, max: 59_999 })], expectShareOfRightProduct),
  );
});

test.each([
  [0, "0 ms"],
  [999, "999 ms"],
  [1_000, "1 s"],
  [3_101, "3.2 s"],
  [9_900, "9.9 s"],
  [9_901, "10 s"],
  [59_000, "59 s"],
  [58_200, "58.2 s"],
  [59_901, "1 min"],
  [200_000, "3 min 20 s"],
  [3_599_001, "1 h"],
  [15_000_000, "4 h 10 min"],
  [86_400_000, "1 d"],
  [183_600_000, "2 d 3 h"],
])("a wait of %i ms reads %s, rounded up", (waitMs, text) => {
  expect(waitText(waitMs)).toBe(text);
});
