/** The histogram of latencies. */
import { expect, it } from "vitest";
import { PolicyStatistics } from "../../../src/control/isolate/policy-statistics.ts";
import { latencyBoundsMs } from "../../../src/control/protocol.ts";

const drained = (from: PolicyStatistics) => from.drain("p", 1).counts;

it("a latency counts in the first bucket whose bound it does not exceed, or in the last bucket, which has no bound", () => {
  const statistics = new PolicyStatistics();
  for (const [bucket, boundMs] of latencyBoundsMs.entries()) {
    statistics.countLatency(boundMs);
    expect(drained(statistics)).toMatchObject({ latency: [[bucket, 1]], latencySumMs: boundMs });
    statistics.countLatency(boundMs + 0.5);
    expect(drained(statistics).latency).toEqual([[bucket + 1, 1]]);
  }
});

it("a histogram counts and sums every latency, and returns each count once", () => {
  const statistics = new PolicyStatistics();
  for (const ms of [0, 1, 5, 5, 100_000, -3]) statistics.countLatency(ms);
  expect(drained(statistics)).toMatchObject({
    latency: [
      [0, 3],
      [4, 2],
      [latencyBoundsMs.length, 1],
    ],
    latencySumMs: 100_011,
  });
  expect(drained(statistics)).toMatchObject({ latency: [], latencySumMs: 0 });
});
