/** The totals and lines of the overview, and its percentiles. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { OutcomeName } from "../../../../src/admin/wire.ts";
import { percentile, shownTraffic, trafficOf } from "../../../../src/console/app/overview/traffic.ts";
import { outcomeNames } from "../../../../src/control/protocol.ts";
import { forAll } from "../../../for-all.ts";
import { boundsMs, minuteMs, point, startMs, statisticsOf } from "../statistics.ts";

const steps = 5;
const span = [startMs, startMs + steps * minuteMs] as const;

const drawnPoints = fc
  .uniqueArray(
    fc.record({
      step: fc.nat(steps - 1),
      policy: fc.constantFrom("a", "b", "c"),
      outcomes: fc.dictionary(fc.constantFrom(...outcomeNames), fc.nat(1_000)),
      nearLimit: fc.nat(100),
      latency: fc.array(fc.tuple(fc.nat(boundsMs.length), fc.nat(50)), { maxLength: 4 }),
    }),
    { selector: ({ step, policy }) => `${step} ${policy}`, maxLength: 15 },
  )
  .map((drawn) =>
    drawn
      .toSorted((one, other) => one.step - other.step)
      .map(({ step, policy, ...counts }) => point(startMs + step * minuteMs, policy, counts)),
  );

describe("traffic", () => {
  it(
    "the total of a policy is the sum of its points, and its lines have the same sum",
    forAll([drawnPoints], (points) => {
      const traffic = trafficOf(statisticsOf(span, points));
      for (const policy of ["a", "b", "c"]) {
        const own = points.filter((each) => each.policy === policy);
        const sum = (names: readonly OutcomeName[]): number =>
          own.reduce((all, each) => all + names.reduce((n, name) => n + (each.outcomes[name] ?? 0), 0), 0);
        const { numbers, lines } = shownTraffic(traffic, policy);
        const expected = {
          allowed: sum(["allowed", "exempt", "dry-run-denied"]),
          denied: sum(["denied", "banned", "blocked"]),
          dryRunDenied: sum(["dry-run-denied"]),
          fallback: sum(["fallback-local", "fallback-open", "fallback-closed"]),
        };
        expect(numbers).toEqual({
          ...expected,
          nearLimit: own.reduce((all, { nearLimit }) => all + nearLimit, 0),
          decisions: sum(outcomeNames),
        });
        for (const [line, count] of Object.entries(expected)) {
          const values = lines[line as keyof typeof expected];
          expect(values.length).toBe(steps);
          expect(values.reduce<number>((all, value) => all + (value ?? 0), 0)).toBe(count);
        }
      }
    }),
  );

  it("a point belongs to the step that begins at its time, and a step without points has the value 0", () => {
    const traffic = trafficOf(
      statisticsOf(
        span,
        [
          point(startMs + minuteMs, "a", { outcomes: { allowed: 7, denied: 1 } }),
          point(startMs + 3 * minuteMs, "a", { outcomes: { denied: 2 } }),
          point(startMs + 3 * minuteMs, "b", { outcomes: { denied: 10 } }),
        ],
        [{ at: new Date(startMs).toISOString(), count: 4 }],
      ),
    );
    expect(traffic.times.map((atMs) => (atMs - startMs) / minuteMs)).toEqual([0, 1, 2, 3, 4]);
    expect(traffic.policies.get("a")?.lines.allowed).toEqual([0, 7, 0, 0, 0]);
    expect(traffic.originFailures).toBe(4);
  });

  it("a policy without decisions has zeros in the totals", () => {
    const { numbers, lines } = shownTraffic(trafficOf(statisticsOf(span, [])), "unknown");
    expect(numbers.decisions).toBe(0);
    expect(lines.denied).toEqual([0, 0, 0, 0, 0]);
  });
});

describe("the traffic of all policies", () => {
  const instant = (step: number): string => new Date(startMs + step * minuteMs).toISOString();
  const points = [
    point(startMs, "a", { outcomes: { allowed: 8, denied: 2 }, nearLimit: 3, latency: [[1, 10]] }),
    point(startMs, "b", { outcomes: { allowed: 8, "dry-run-denied": 4, "fallback-open": 1 }, nearLimit: 1 }),
  ];

  it("allowed and denied are requests, and numbers that only decisions have are sums over the policies", () => {
    const requests = [{ at: instant(0), decided: 11, denied: 2 }];
    const { numbers, lines } = shownTraffic(trafficOf({ ...statisticsOf(span, points), requests }), null);
    expect(numbers).toEqual({ allowed: 9, denied: 2, decisions: 11, dryRunDenied: 4, fallback: 1, nearLimit: 4 });
    expect(lines).toMatchObject({ allowed: [9, 0, 0, 0, 0], denied: [2, 0, 0, 0, 0], dryRunDenied: [4, 0, 0, 0, 0] });
  });

  it("requests have no value, and are not part of the total, in steps up to the last one in which they are unknown", () => {
    const requests = [
      { at: instant(0), decided: 5, denied: 1 },
      { at: instant(1), decided: null, denied: null },
      { at: instant(3), decided: 7, denied: 2 },
    ];
    const traffic = trafficOf({ ...statisticsOf(span, points), requests });
    expect(traffic.unknownUntilMs).toBe(startMs + 2 * minuteMs);
    expect(shownTraffic(traffic, null).numbers).toMatchObject({ decisions: 7, denied: 2 });
    expect(shownTraffic(traffic, null).lines.denied).toEqual([null, null, 0, 2, 0]);
    expect(shownTraffic(traffic, "a").lines.denied).toEqual([2, 0, 0, 0, 0]);
  });
});

describe("a percentile", () => {
  /** The histogram bucket of a latency: the first whose bound is not below the latency. */
  const bucketOf = (latencyMs: number): number => {
    const bucket = boundsMs.findIndex((boundMs) => latencyMs <= boundMs);
    return bucket === -1 ? boundsMs.length : bucket;
  };

  it(
    "a percentile is the bound of the bucket that contains the latency of its rank",
    forAll(
      [fc.array(fc.double({ min: 0, max: 12, noNaN: true }), { minLength: 1 }), fc.constantFrom(0.5, 0.9, 0.99, 1)],
      (latenciesMs, share) => {
        const buckets = new Float64Array(boundsMs.length + 1);
        for (const latencyMs of latenciesMs) {
          const bucket = bucketOf(latencyMs);
          buckets[bucket] = (buckets[bucket] ?? 0) + 1;
        }
        const rank = Math.ceil(share * latenciesMs.length);
        const ranked = latenciesMs.toSorted((one, other) => one - other)[rank - 1] ?? 0;
        expect(percentile(buckets, boundsMs, share)).toBe(boundsMs[bucketOf(ranked)] ?? Number.POSITIVE_INFINITY);
      },
    ),
  );

  it("a percentile is unknown without decisions", () => {
    expect(percentile(new Float64Array(5), boundsMs, 0.99)).toBeNull();
  });
});
