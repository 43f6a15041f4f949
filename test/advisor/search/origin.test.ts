import { describe, expect, it } from "vitest";
import { adviceOf } from "./advice-of.ts";
import { poissonArrivals, timelinesFrom, type TrafficShape } from "./traffic.ts";

const minuteMs = 60_000;

describe("a goal about the rate at the origin", () => {
  /** 50 keys send 40 requests each in the same second of each minute. */
  const together: TrafficShape = {
    keys: 50,
    periodMs: 5 * minuteMs,
    arrivals: (_, key, addAt) => {
      for (let n = 0; n < 200; n++) addAt(Math.floor(n / 40) * minuteMs + 20 * (n % 40) + (key % 7));
    },
  };

  it("one limit for all keys is recommended when it denies fewer requests than a limit for each key", () => {
    const advice = adviceOf(timelinesFrom(together, 1), "protect the origin at 1,000 rps");
    const { global, candidates, recommendation } = advice;
    expect(recommendation.kind).toBe("global");
    expect(global).toMatchObject({
      strategy: "sliding-log",
      written: [{ limit: 1_000, window: "1s", strategy: "sliding-log" }],
      meetsGoal: true,
    });
    expect(global?.deniedShare.value).toBe(0.5);
    expect(global?.worstBurst).toMatchObject({ value: 1_000, high: 1_000 });
    for (const { deniedShare } of candidates.filter(({ meetsGoal }) => meetsGoal)) {
      expect(deniedShare.value).toBeGreaterThan(0.5);
    }
    expect(recommendation.reason).toMatch(
      /^1,000 per second with sliding-log on all keys together, with key = \["global"\], never lets more than 1,000 requests per second reach the origin, and denies 50 % of requests and 100 % of keys; the best limit per key, .+, denies \d+ % of requests and 100 % of keys[.,]/,
    );
  });

  it("every candidate that is marked as meeting the goal has an interval within the goal", () => {
    const { candidates } = adviceOf(timelinesFrom(together, 1), "protect the origin at 1,000 rps");
    expect(candidates.filter(({ meetsGoal }) => meetsGoal).length).toBeGreaterThan(0);
    for (const { worstBurst, meetsGoal } of candidates) {
      expect(meetsGoal).toBe(worstBurst.high <= 1_000);
    }
  });

  it("when more keys send in one second than the goal allows, only one limit for all keys protects the origin", () => {
    const { candidates, recommendation } = adviceOf(timelinesFrom(together, 1), "protect the origin at 20 rps");
    expect(recommendation.kind).toBe("global");
    expect(recommendation.reason).toContain(
      "no limit per key was found that keeps this rate, because so many keys send in the same second",
    );
    expect(candidates.some(({ meetsGoal }) => meetsGoal)).toBe(false);
  });

  it("traffic that stays below the rate of the goal needs no limit", () => {
    const advice = adviceOf(timelinesFrom(together, 1), "protect the origin at 100,000 rps");
    expect(advice).toMatchObject({ candidates: [], global: null });
    expect(advice.recommendation).toEqual({
      kind: "unneeded",
      reason: expect.stringMatching(
        /^No limit is needed to protect the origin at 100,000 requests per second from this traffic: at most 2,000 requests per second \(95 % confidence [\d,]+-[\d,]+\) reach it without a limit\.$/,
      ) as string,
    });
  });

  it("one limit for all keys denies about the same share of requests in a sample as in the whole traffic", () => {
    const steady = (keys: number): TrafficShape => ({
      keys,
      periodMs: 10 * minuteMs,
      arrivals: (random, _, addAt) => poissonArrivals(random, { perSecond: 0.05, periodMs: 10 * minuteMs }, addAt),
    });
    const all = timelinesFrom(steady(1_600), 3);
    const sampled = timelinesFrom(steady(100), 4, { oneKeyIn: 16, requests: all.atMs.length });
    const [ofAll, ofSample] = [all, sampled].map(
      (timelines) => adviceOf(timelines, "protect the origin at 80 rps").global?.deniedShare.value,
    );
    expect(ofAll).toBeGreaterThan(0.04);
    expect(Math.abs((ofAll ?? 0) - (ofSample ?? 0))).toBeLessThan(0.04);
  });

  it("a replay of a sample applies one limit for all keys at the rate of all requests, not at the rate of the sampled keys", () => {
    const periodMs = 10 * minuteMs;
    const all = { keys: 1_600, perSecond: 0.05 };
    const shareOf = (keys: number, oneKeyIn: number): number => {
      const shape: TrafficShape = {
        keys,
        periodMs,
        arrivals: (random, _, addAt) => poissonArrivals(random, { perSecond: all.perSecond, periodMs }, addAt),
      };
      const requests = all.keys * all.perSecond * (periodMs / 1_000);
      const timelines = timelinesFrom(shape, 5, { oneKeyIn, requests });
      return adviceOf(timelines, "protect the origin at 60 rps").global?.deniedShare.value ?? 0;
    };
    const truth = shareOf(all.keys, 1);
    // Samples of one key in 16 hold 100 of 1,600 keys on average; 80 and 120 are deviations by chance.
    for (const sampled of [80, 120]) expect(Math.abs(shareOf(sampled, 16) - truth)).toBeLessThan(0.03);
  });

  /** 500 visitors together send 5 requests per second. Key 0 sends 40 per second for 15 minutes. */
  const withBot: TrafficShape = {
    keys: 501,
    periodMs: 60 * minuteMs,
    arrivals: (random, key, addAt) => {
      if (key === 0) for (let n = 0; n < 36_000; n++) addAt(20 * minuteMs + 25 * n);
      else poissonArrivals(random, { perSecond: 0.01, periodMs: 60 * minuteMs }, addAt);
    },
  };

  it("a limit per key that denies one client is recommended instead of one limit that denies all clients", () => {
    const advice = adviceOf(timelinesFrom(withBot, 1), "protect the origin at 20 rps");
    const { recommendation, candidates, global, outliers } = advice;
    if (recommendation.kind !== "recommended") throw new Error(recommendation.reason);
    const chosen = candidates[recommendation.candidate];
    expect(chosen?.result.deniedKeys).toBe(1);
    expect(chosen?.worstBurst.value).toBeLessThanOrEqual(20);
    expect(global?.deniedKeyShare.value).toBeGreaterThan(0.9);
    expect(outliers.map(({ key }) => key)).toEqual(["key-0"]);
    expect(recommendation.reason).toMatch(
      /^.+ lets at most \d+ requests per second \(95 % confidence \d+-\d+\) of this traffic reach the origin, and denies \d+ % of requests and 0\.2 % of keys\. 100 % of these denials are of the key key-0\. 20 per second with sliding-log on all keys together, with key = \["global"\], never lets more than 20 requests per second reach the origin, but would alone deny \d+ % of requests and 100 % of keys\. The recorded requests stay within 20 requests per second, but the interval reaches \d+, so this limit is no guarantee: use the limit for all keys beside it\.$/,
    );
  });

  it("one limit for all keys is recommended when the recorded peak meets the goal but the upper end of its interval does not", () => {
    const quiet: TrafficShape = {
      ...withBot,
      arrivals: (random, key, addAt) => {
        if (key > 0) withBot.arrivals(random, key, addAt);
      },
    };
    const { recommendation } = adviceOf(timelinesFrom(quiet, 1), "protect the origin at 20 rps");
    expect(recommendation.kind).toBe("global");
    expect(recommendation.reason).toMatch(
      /denies 0 % of requests and 0 % of keys; the recorded peak of \d+ requests per second is not above 20, but its interval reaches \d+\./,
    );
  });

  it("the advisor also gives advice for a sample that holds one of very many requests", () => {
    const one: TrafficShape = {
      keys: 1,
      periodMs: minuteMs,
      arrivals: (_, _key, addAt) => addAt(5),
    };
    const sampled = timelinesFrom(one, 1, { oneKeyIn: 64, requests: 1e12 });
    expect(adviceOf(sampled, "protect the origin at 1 rps").recommendation.kind).toBe("global");
  });
});
