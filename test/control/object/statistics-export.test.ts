/** The export of finished minutes to Analytics Engine. */
import { expect, it } from "vitest";
import { AnalyticsExport, type DataPoint, Observers, exportedDoubles } from "../../../src/control/object/observers.ts";
import { Tally } from "../../../src/control/object/statistics-rows.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { batch, beat, counts } from "./batches.ts";

const startMs = Date.UTC(2026, 10, 22, 10);

function datasetOf() {
  const points: DataPoint[] = [];
  return { points, dataset: { writeDataPoint: (point: DataPoint) => void points.push(point) } };
}

it("a finished minute is exported as one data point for each policy with decisions", () => {
  const { points, dataset } = datasetOf();
  const settings = {
    alerts: null,
    dataset,
    sockets: { sockets: () => [], accept: () => new Response() },
    waitUntil: () => undefined,
  };
  const intake = new Observers(new MemorySql(), settings, startMs);
  const policies = {
    api: counts({ outcomes: { allowed: 5, denied: 2 }, latency: [[1, 6]], latencySumMs: 9 }),
    idle: counts(),
  };
  intake.recordBeat(beat([{ ...batch(1, 0), policies }]), startMs);
  intake.recordBeat(beat([batch(2, 1)]), startMs + 60_000);
  expect(points).toEqual([]);
  intake.recordBeat(beat([batch(3, 1)]), startMs + 120_000);
  intake.recordBeat(beat([batch(4, 1)]), startMs + 125_000);
  expect(points).toHaveLength(1);
  const [{ indexes, blobs, doubles } = { indexes: [], blobs: [], doubles: [] }] = points;
  expect([indexes, blobs]).toEqual([["api"], ["api"]]);
  const named = Object.fromEntries(exportedDoubles.map((name, index) => [name, doubles[index]]));
  expect(named).toMatchObject({
    minute: startMs / 60_000,
    allowed: 5,
    denied: 2,
    banned: 0,
    "near-limit": 0,
    "latency-sum-ms": 9,
    "latency-count": 6,
  });
  expect(doubles).toHaveLength(exportedDoubles.length);
  expect(doubles.length).toBeLessThanOrEqual(20);
});

it("a beat exports at most 25 data points, and the next beat continues", () => {
  const { points, dataset } = datasetOf();
  const exported = new AnalyticsExport(dataset);
  const minute = new Tally();
  const policies = Object.fromEntries(
    Array.from({ length: 40 }, (_, index) => [`p${index}`, counts({ outcomes: { allowed: 1 } })]),
  );
  minute.add({ policies, originFailures: 0 });
  exported.add(startMs, minute);
  const written = [1, 2, 3].map(() => {
    exported.flush();
    return points.length;
  });
  expect(written).toEqual([25, 40, 40]);
});

it("nothing is exported without the binding", () => {
  const exported = new AnalyticsExport(null);
  exported.add(startMs, Tally.revived({ policies: { api: counts() }, originFailures: 1 }));
  expect(() => exported.flush()).not.toThrow();
});
