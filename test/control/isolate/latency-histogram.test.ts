/** The histogram of latencies. */
import { expect, it } from "vitest";
import { LatencyHistogram } from "../../../src/control/isolate/statistics-of-policy.ts";
import { latencyBoundsMs } from "../../../src/control/protocol.ts";

it("a latency is in the first bucket whose bound it does not exceed, or above all bounds", () => {
  const histogram = new LatencyHistogram();
  for (const [bucket, boundMs] of latencyBoundsMs.entries()) {
    histogram.add(boundMs);
    expect(histogram.drain()).toEqual({ latency: [[bucket, 1]], latencySumMs: boundMs });
    histogram.add(boundMs + 0.5);
    expect(histogram.drain().latency).toEqual([[bucket + 1, 1]]);
  }
});

it("a histogram counts and sums every latency, and returns each once", () => {
  const histogram = new LatencyHistogram();
  for (const ms of [0, 1, 5, 5, 100_000, -3]) histogram.add(ms);
  expect(histogram.drain()).toEqual({
    latency: [
      [0, 3],
      [4, 2],
      [latencyBoundsMs.length, 1],
    ],
    latencySumMs: 100_011,
  });
  expect(histogram.drain()).toEqual({ latency: [], latencySumMs: 0 });
});
