import { describe, expect, it } from "vitest";
import { advise } from "../../../src/advisor/search/advise.ts";
import { parseGoal } from "../../../src/advisor/search/goal.ts";
import type { Timelines } from "../../../src/advisor/replay/timelines.ts";
import { adviceOf, recommendedOf } from "./advice-of.ts";
import { poissonArrivals, startMs, timelinesFrom, type TrafficShape } from "./traffic.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/** Most keys send one request a minute. One in 100 sends 50 in the first second of each minute. */
const withBursts: TrafficShape = {
  keys: 2_000,
  periodMs: 5 * minuteMs,
  arrivals: (random, key, addAt) => {
    for (let minute = 0; minute < 5; minute++) {
      const beginMs = minute * minuteMs;
      if (key % 100 === 0) for (let n = 0; n < 50; n++) addAt(beginMs + 20 * n);
      else addAt(beginMs + random() * minuteMs);
    }
  },
};

describe("a goal about denials", () => {
  const timelines = timelinesFrom(withBursts, 1);

  it("the recommended limit is the strictest that never denies the keys with bursts", () => {
    const advice = adviceOf(timelines, "deny at most 2 % of requests");
    const { limits, strategy, deniedShare } = recommendedOf(advice);
    // The sliding window counter would deny most of a burst that arrives one window after the previous one.
    expect({ strategy, limit: limits[0]?.limit, windowMs: limits[0]?.windowMs }).toEqual({
      strategy: "sliding-log",
      limit: 50,
      windowMs: minuteMs,
    });
    expect(deniedShare.value).toBe(0);
    expect(advice.recommendation.reason).toMatch(
      /^50 per minute with sliding-log is the strictest limit that denies at most 2 % of requests \(0 %, 95 % confidence 0-[\d.]+ %\), and lets at most [\d,]+ requests per second \(95 % confidence [\d,]+-[\d,]+\) of this traffic reach the origin\.$/,
    );
    expect(advice.outliers).toEqual([]);
  });

  it("a goal that accepts a larger share of denied keys gives a stricter limit, and the keys with bursts are its outliers", () => {
    const advice = adviceOf(timelines, "deny at most 40 % of requests");
    const { limits, deniedShare } = recommendedOf(advice);
    expect(limits[0]?.limit).toBeLessThan(50);
    expect(deniedShare.value).toBeGreaterThan(0);
    expect(deniedShare.high).toBeLessThanOrEqual(0.4);
    expect(advice.outliers).toHaveLength(10);
    for (const { key, requests, denied, shareOfRequests } of advice.outliers) {
      expect(Number(key.replace("key-", "")) % 100).toBe(0);
      expect(requests).toBe(250);
      expect(denied).toBeGreaterThan(0);
      expect(shareOfRequests).toBeCloseTo(250 / timelines.atMs.length, 9);
    }
  });

  it("a goal about keys counts each key with at least one denial", () => {
    const none = recommendedOf(adviceOf(timelines, "deny at most 1 key in 200"));
    expect(none.result.deniedKeys).toBe(0);
    const some = recommendedOf(adviceOf(timelines, "deny at most 3 % of keys"));
    expect(some.deniedKeyShare.value).toBeCloseTo(0.01, 3);
    expect(some.limits[0]?.limit).toBeLessThan(none.limits[0]?.limit ?? 0);
  });

  it("the units of each family's limit fall as the goal allows more denials", () => {
    const shares = [0.01, 0.05, 0.3];
    const units = shares.map((mostShare) => {
      const { candidates } = adviceOf(timelines, { kind: "denied-requests", mostShare });
      return new Map(
        candidates.map(({ limits: [limit] }) => [`${limit?.strategy} ${limit?.windowMs}`, limit?.limit ?? 0]),
      );
    });
    for (const [index, own] of units.entries()) {
      const looser = units[index - 1];
      for (const [family, count] of own) {
        expect(count).toBeLessThanOrEqual(looser?.get(family) ?? Infinity);
      }
    }
    expect(units[0]?.size).toBeGreaterThanOrEqual(12);
  });

  it("the whole interval of every candidate that meets the goal lies within the goal", () => {
    const { candidates } = adviceOf(timelines, "deny at most 5 % of requests");
    for (const { deniedShare, meetsGoal } of candidates) {
      expect(deniedShare.low).toBeLessThanOrEqual(deniedShare.value);
      expect(deniedShare.value).toBeLessThanOrEqual(deniedShare.high);
      expect(meetsGoal).toBe(deniedShare.high <= 0.05);
    }
  });

  it("equal timelines give equal advice, and candidates are ordered by strictness", () => {
    const [first, second] = [1, 2].map(() => adviceOf(timelinesFrom(withBursts, 1), "deny at most 5 % of requests"));
    expect(first).toEqual(second);
  });
});

describe("too little data", () => {
  const growing = (keys: number): Timelines =>
    timelinesFrom(
      {
        keys,
        periodMs: keys * 1_000,
        arrivals: (random, key, addAt) => {
          for (let n = 0; n < 5; n++) addAt(key * 1_000 + 3_000 * n * random());
        },
      },
      3,
    );

  it("with too few keys, the advice is to wait, and the wait shrinks as keys are added", () => {
    const waits = [300, 1_000, 2_500].map((keys) => {
      const { recommendation } = adviceOf(growing(keys), "deny at most 1 key in 1,000");
      expect(recommendation.kind).toBe("wait");
      return recommendation.kind === "wait" ? (recommendation.forMs ?? 0) : 0;
    });
    expect(waits[0]).toBeGreaterThan(waits[1] ?? 0);
    expect(waits[1]).toBeGreaterThan(waits[2] ?? 0);
    expect(waits[2]).toBeGreaterThan(0);
    const { recommendation } = adviceOf(growing(6_000), "deny at most 1 key in 1,000");
    expect(recommendation.kind).toBe("recommended");
  });

  it("the reason for advice to wait names the number of keys, the time and the closest limit", () => {
    const { recommendation } = adviceOf(growing(1_000), "deny at most 1 key in 1,000");
    expect(recommendation.reason).toMatch(
      /^With 1,000 recorded keys, no limit can be shown to deny at most 1 key in 1,000: even without a denial up to 0\.\d+ % could be denied\. Record for another \d+m\. So far the closest is .+ \(0 %, 95 % confidence 0-0\.\d+ %\)\.$/,
    );
  });

  it("when only a little of a period was recorded, the advisor offers windows that fit into the recorded part", () => {
    const timelines = timelinesFrom(withBursts, 1, { fromMs: startMs - 24 * hourMs });
    const { candidates } = adviceOf(timelines, "deny at most 5 % of requests");
    const windows = candidates.map(({ limits: [limit] }) => limit?.windowMs ?? 0);
    expect(Math.max(...windows)).toBe(minuteMs);
  });

  it("the advice for a log of one minute is to use a longer log, not to sample a larger share", () => {
    const minute: TrafficShape = {
      keys: 50,
      periodMs: minuteMs,
      arrivals: (random, _, addAt) => {
        addAt(random() * 1_000);
        addAt(minuteMs - 1);
      },
    };
    const { recommendation } = adviceOf(timelinesFrom(minute, 1), "deny at most 1 key in 1,000");
    expect(recommendation).toMatchObject({ kind: "wait", forMs: null });
    expect(recommendation.reason).toContain("The log covers 1m only, so use a longer one.");
    expect(recommendation.reason).not.toContain("larger share");
  });

  it("the advisor never advises waiting for longer than samples are kept", () => {
    const kept = { ...growing(300), source: { ...growing(300).source, keptMs: 10 * minuteMs } };
    const ofSamples = adviceOf(kept, "deny at most 1 key in 1,000").recommendation;
    expect(ofSamples).toMatchObject({ kind: "wait", forMs: null });
    expect(ofSamples.reason).toContain("Samples are kept for 10m only, so choose a larger share.");
  });

  it("the advisor assumes that lost requests may all have been denied, and its reason mentions them", () => {
    const timelines = timelinesFrom(withBursts, 1, { lostArrivals: 3_000 });
    const { recommendation } = adviceOf(timelines, "deny at most 5 % of requests");
    expect(recommendation.kind).toBe("wait");
    expect(recommendation.reason).toContain("3,000 requests of these keys were not recorded.");
  });

  it("timelines without requests give no candidates and no waiting time", () => {
    const empty = timelinesFrom({ keys: 0, periodMs: hourMs, arrivals: () => {} }, 1);
    for (const goal of ["deny at most 1 % of requests", "protect the origin at 5 rps"]) {
      const { candidates, recommendation } = adviceOf(empty, goal);
      expect(candidates).toEqual([]);
      expect(recommendation).toMatchObject({ kind: "wait", forMs: null });
    }
  });

  it("a sample that does not account for all requests is insufficient, and the reason says so", () => {
    const sample = timelinesFrom(
      {
        keys: 1_000,
        periodMs: hourMs,
        arrivals: (random, _, addAt) => poissonArrivals(random, { perSecond: 0.01, periodMs: hourMs }, addAt),
      },
      4,
      { oneKeyIn: 64, requests: 64 * 72_000 },
    );
    const { candidates, recommendation } = adviceOf(sample, "deny at most 5 % of requests");
    expect(recommendation).toMatchObject({ kind: "wait", forMs: null });
    expect(recommendation.reason).toContain(
      "do not account for all requests: keys outside the sample may send much of the traffic, and a limit without a denial in the sample could deny up to 5",
    );
    expect(recommendation.reason).toContain(
      'A goal about keys, such as "deny at most 1 key in 100", counts each of them once. Sample more keys (such as SAMPLE = "1/8").',
    );
    for (const { deniedShare } of candidates) expect(deniedShare.high).toBeGreaterThan(0.45);
  });
});

describe("a sample", () => {
  const sample = timelinesFrom(withBursts, 5, { oneKeyIn: 64, requests: 64 * 14_900 });

  it("a limit is recommended only if its whole interval meets the goal, including the requests of keys outside the sample", () => {
    const { candidates, recommendation } = adviceOf(sample, "deny at most 2 % of requests");
    expect(recommendation).toMatchObject({ kind: "wait", forMs: null });
    expect(candidates.some(({ meetsGoal }) => meetsGoal)).toBe(false);
    const { deniedShare } = recommendedOf(adviceOf(sample, "deny at most 30 % of requests"));
    expect(deniedShare.high).toBeGreaterThan(0.02);
    expect(deniedShare.high).toBeLessThanOrEqual(0.3);
  });

  it("a goal about keys does not depend on how much the other keys send", () => {
    const { deniedKeyShare } = recommendedOf(adviceOf(sample, "deny at most 2 % of keys"));
    expect(deniedKeyShare.high).toBeLessThanOrEqual(0.02);
  });
});

describe("keys with few requests", () => {
  const visitors = 60;
  /** 97 % of the keys send one request. */
  const diluted: TrafficShape = {
    keys: 2_000,
    periodMs: hourMs,
    arrivals: (random, key, addAt) => {
      const requests = key < visitors ? 300 : 1;
      for (let n = 0; n < requests; n++) addAt(random() * hourMs);
    },
  };

  it("the report adds the share of keys with at least 10 requests, and notes when it is much larger than that of all keys", () => {
    const advice = adviceOf(timelinesFrom(diluted, 7), "deny at most 1 key in 100");
    const { result, deniedActiveKeyShare, deniedKeyShare } = recommendedOf(advice);
    expect(result.deniedKeys).toBeGreaterThan(0);
    expect(deniedActiveKeyShare?.value).toBeCloseTo(result.deniedKeys / visitors, 9);
    expect(deniedKeyShare.value).toBeCloseTo(result.deniedKeys / 2_000, 9);
    expect(advice.notes.join()).toMatch(
      /1,940 of 2,000 keys sent fewer than 10 requests and are hardly ever denied, so they dilute shares of keys: of the 60 keys with at least 10 requests, .+ denies [\d.]+ %, 95 % confidence/,
    );
  });

  it("without keys of at least 10 requests their share is unknown, and without keys that send few requests there is no note", () => {
    const single = timelinesFrom({ ...diluted, arrivals: (random, _, addAt) => addAt(random() * hourMs) }, 8);
    const { candidates } = adviceOf(single, "deny at most 1 key in 100");
    expect(candidates[0]?.deniedActiveKeyShare).toBe(null);
    const all = { ...diluted, keys: visitors };
    expect(adviceOf(timelinesFrom(all, 9), "deny at most 30 % of keys").notes).toEqual([
      expect.stringMatching(/^Fewer than 500 keys do not show/),
    ]);
  });
});

describe("traffic that is far below any limit", () => {
  /** Each key sends a request now and then, at most one an hour. */
  const sparse: TrafficShape = {
    keys: 4_000,
    periodMs: 72 * hourMs,
    arrivals: (random, _, addAt) => {
      for (let atMs = random() * hourMs; atMs < 72 * hourMs;) {
        addAt(atMs);
        atMs += hourMs * (6 + 12 * random());
      }
    },
  };

  it("no limit of a request per hour or day is recommended, and the reason says that none is needed", () => {
    const advice = adviceOf(timelinesFrom(sparse, 1), "deny at most 1 key in 500");
    const { limits, result } = recommendedOf(advice);
    expect(result.denied).toBe(0);
    expect([limits[0]?.limit, limits[0]?.windowMs]).toEqual([5, minuteMs]);
    expect(advice.recommendation.reason).toMatch(
      / No stricter limit is considered\. This traffic needs no limit: no key sends more than 1 request in a minute\.$/,
    );
  });
});

describe("a goal about the rate of a key", () => {
  it.each([
    [1_000, "sliding-log"],
    [1_001, "sliding-buckets"],
    [50_000, "sliding-buckets"],
  ])("a bound of %i requests in an hour is recommended with %s", (most, strategy) => {
    const flood: TrafficShape = {
      keys: 3,
      periodMs: hourMs,
      arrivals: (random, _, addAt) => {
        for (let n = 0; n < 2_000; n++) addAt(random() * hourMs);
      },
    };
    const goal = { kind: "key-rate", most, windowMs: hourMs } as const;
    const chosen = recommendedOf(adviceOf(timelinesFrom(flood, 1), goal));
    expect([chosen.strategy, chosen.limits[0]?.limit]).toEqual([strategy, most]);
  });

  it("when a strategy cannot count a rate, the advisor recommends the rate with another strategy", () => {
    const goal = "never let one key exceed 999,999,999,999 requests in a day";
    const { strategy } = recommendedOf(adviceOf(timelinesFrom(withBursts, 1), goal));
    expect(strategy).toBe("sliding-buckets");
  });

  it("a limit of at least 1,000 times all requests denies 0 %, without an interval", () => {
    const few = timelinesFrom({ ...withBursts, keys: 30 }, 1);
    const goal = "never let one key exceed 999,999,999,999 requests in a millisecond";
    const { deniedShare, deniedKeyShare } = recommendedOf(adviceOf(few, goal));
    expect(deniedShare).toEqual({ value: 0, low: 0, high: 0 });
    expect(deniedKeyShare).toEqual({ value: 0, low: 0, high: 0 });
  });

  it("the recommended limit guarantees the rate by its bound and denies the fewest requests", () => {
    const timelines = timelinesFrom(withBursts, 1);
    const advice = adviceOf(timelines, "never let one key exceed 20 requests in a second");
    const { strategy, limits, result } = recommendedOf(advice);
    expect({ strategy, limit: limits[0]?.limit }).toEqual({ strategy: "sliding-log", limit: 20 });
    expect(result.mostAdmitted[0]?.units).toBe(20);
    expect(advice.recommendation.reason).toMatch(
      /^20 per second with sliding-log never lets one key exceed 20 requests in a second, and of the limits with this guarantee it denies the fewest requests \(/,
    );
    const guaranteed = advice.candidates.filter(({ meetsGoal }) => meetsGoal);
    for (const { result: replayed } of guaranteed) {
      expect(replayed.mostAdmitted[0]?.units).toBeLessThanOrEqual(20);
    }
    const others = advice.candidates.filter(({ meetsGoal }) => !meetsGoal);
    expect(others.map(({ strategy: name, limits: [limit] }) => [name, limit?.limit])).toEqual([
      ["sliding-window-counter", 20],
    ]);
  });
});

describe("progress", () => {
  it("the progress of the advisor rises to 1, and a caller cancels by no longer iterating", () => {
    const timelines = timelinesFrom(withBursts, 1);
    const shares = [...advise(timelines, parseGoal("deny at most 5 % of requests"))];
    expect(shares.at(-1)).toBe(1);
    expect(shares.length).toBeGreaterThan(5);
    expect(shares.toSorted((a, b) => a - b)).toEqual(shares);
    for (const share of advise(timelines, parseGoal("deny at most 5 % of requests"))) {
      expect(share).toBeLessThan(1);
      break;
    }
  });
});
