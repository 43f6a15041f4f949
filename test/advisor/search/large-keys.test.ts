import { describe, expect, it } from "vitest";
import { parseGoal } from "../../../src/advisor/search/goal.ts";
import { recommendedReason } from "../../../src/advisor/search/reasons.ts";
import { adviceOf, recommendedOf } from "./advice-of.ts";
import { timelinesFrom, type TrafficShape } from "./traffic.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

describe("traffic of few large keys", () => {
  const heavy = (keys: number): TrafficShape => ({
    keys,
    periodMs: hourMs,
    arrivals: (random, _, addAt) => {
      const requests = Math.floor(4 * (1 - random()) ** (-1 / 1.5));
      for (let n = 0; n < requests; n++) addAt(random() * hourMs);
    },
  });
  const timelines = timelinesFrom(heavy(1_000), 6);
  /** Each key sends five requests a minute. */
  const steady: TrafficShape = {
    keys: 1,
    periodMs: 5 * minuteMs,
    arrivals: (_random, _key, addAt) => {
      for (let n = 0; n < 25; n++) addAt(12_000 * n);
    },
  };

  it("when one key sends much, no limit is recommended for a goal about requests, and the reason names the largest key and what helps", () => {
    const { recommendation, candidates } = adviceOf(timelines, "deny at most 5 % of requests");
    expect(recommendation).toMatchObject({ kind: "wait", forMs: null });
    expect(recommendation.reason).toMatch(
      /^Keys that are not recorded may send much of the traffic: the largest of the 1,000 recorded keys sends [\d.]+ % of the requests, and the sizes of these keys do not rule out much larger ones\. So no limit can be shown to deny at most 5 % of requests\. A goal about keys, such as "deny at most 1 key in 100", counts each of them once, and more keys may rule out larger ones\./,
    );
    expect(candidates.some(({ meetsGoal }) => meetsGoal)).toBe(false);
    for (const { deniedShare } of candidates) expect(deniedShare.high).toBeGreaterThan(0.3);
  });

  it.each([20, 200, 499])(
    "%i keys of the same size are too few for a limit by the share of requests, since rare keys may be absent",
    (keys) => {
      const few = timelinesFrom({ ...steady, keys }, 1);
      const { recommendation } = adviceOf(few, "deny at most 20 % of requests");
      expect(recommendation.kind).toBe("wait");
      expect(recommendation.reason).toMatch(
        new RegExp(
          String.raw`^${keys} recorded keys do not show how many requests other keys send, since rare keys that send much may be absent: no limit is recommended by a share of requests from fewer than 500 keys\. A goal about keys, .+, counts each of them once\. The log covers 5m only, so use a longer one\.`,
        ),
      );
    },
  );

  it("a reason states no interval if it would reach from 0 to 100 %", () => {
    const goal = parseGoal("deny at most 20 % of requests");
    const [candidate] = adviceOf(
      timelinesFrom({ ...steady, keys: 500 }, 1),
      "deny at most 20 % of requests",
    ).candidates;
    if (candidate === undefined) throw new Error("no candidate");
    const reason = recommendedReason(goal, { ...candidate, deniedShare: { value: 0.041, low: 0, high: 1 } });
    expect(reason).toContain("(4.1 % of the sample, which is too small for a range)");
  });

  it("500 keys of the same size are enough to recommend a limit for a goal about requests", () => {
    const enough = timelinesFrom({ ...steady, keys: 500 }, 1);
    expect(adviceOf(enough, "deny at most 20 % of requests").recommendation.kind).toBe("recommended");
  });

  it("a limit is recommended for a goal about keys, with a note that the intervals of request shares are wide", () => {
    const advice = adviceOf(timelines, "deny at most 1 key in 50");
    expect(recommendedOf(advice).deniedKeyShare.high).toBeLessThanOrEqual(0.02);
    expect(advice.notes.join()).toContain("The intervals of request shares allow for these, so they are wide.");
  });
});
