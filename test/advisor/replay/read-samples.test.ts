import { expect, it } from "vitest";
import { SamplesProblem, SamplesReader } from "../../../src/advisor/replay/read-samples.ts";
import { arrivalOutcomes, type Timelines } from "../../../src/advisor/replay/timelines.ts";

const fromMs = Date.UTC(2026, 0, 1);
const toMs = fromMs + 86_400_000;
const header = {
  policy: "api",
  from: "2026-01-01T00:00:00.000Z",
  to: "2026-01-02T00:00:00.000Z",
  sample: "1/64",
  arrivals: 4,
  lost: 2,
  dropped: 3,
  requests: 900,
  coverage: 4 / 9,
  storedAt: "2026-01-01T12:00:00.000Z",
  ageMs: 5_000,
};

const read = (...lines: readonly unknown[]) => {
  const reader = new SamplesReader();
  for (const line of lines) reader.line(typeof line === "string" ? line : JSON.stringify(line));
  return reader.finish();
};

/** The arrivals of each key, with times from the start of the period. */
const arrivalsOf = ({ keys, firstRow, atMs, cost, outcome, reservations }: Timelines) =>
  keys.flatMap((key, index) =>
    Array.from(atMs.subarray(firstRow[index], firstRow[index + 1]), (ms, place) => {
      const row = (firstRow[index] ?? 0) + place;
      const reservation = reservations.get(row);
      return [key, ms - fromMs, cost[row], arrivalOutcomes[outcome[row] ?? 0], ...(reservation ? [reservation] : [])];
    }),
  );

it("the samples' header states the period, the coverage and the size of the sample", () => {
  const samples = read(header);
  expect(samples.header).toEqual({
    policy: "api",
    fromMs,
    toMs,
    sample: "1/64",
    oneKeyIn: 64,
    arrivals: 4,
    lost: 2,
    dropped: 3,
    requests: 900,
    coverage: 4 / 9,
    storedAtMs: fromMs + 43_200_000,
    ageMs: 5_000,
  });
  expect(samples.timelines.source).toEqual({
    fromMs,
    toMs,
    oneKeyIn: 64,
    requests: 900,
    lostArrivals: 2,
    otherLimitsArrivals: 0,
    keptMs: 86_400_000,
  });
  expect(samples.timelines.keys).toEqual([]);
});

it("the period of the timelines begins with the first arrival, because recording may have begun later than the period", () => {
  const line = { id: "a", arrivals: [[fromMs + 90_000, 1, "allowed"]] };
  const other = { id: "b", arrivals: [[fromMs + 60_000, 1, "allowed"]], hasOtherLimits: true };
  expect(read(header, line).timelines.source).toMatchObject({ fromMs: fromMs + 90_000, toMs });
  expect(read(header, line, other).timelines.source.fromMs).toBe(fromMs + 60_000);
});

it('samples that are "off" have no arrivals', () => {
  const { header: read1, timelines } = read({ ...header, sample: "off", storedAt: null });
  expect(read1).toMatchObject({ sample: "off", oneKeyIn: 1, storedAtMs: null });
  expect(timelines.atMs).toHaveLength(0);
});

it("the sample lines of a key are joined in order of time, and unknown fields are ignored", () => {
  const { timelines, withOtherLimits } = read(
    { ...header, later: true },
    { id: "b", arrivals: [[fromMs + 30, 2, "denied"]], note: "of a later version" },
    "",
    {
      id: "a",
      arrivals: [
        [fromMs, 1, "allowed"],
        [fromMs + 5, 1, "a later outcome"],
      ],
    },
    { id: "b", arrivals: [[fromMs + 10, 1, "allowed"]] },
  );
  expect(arrivalsOf(timelines)).toEqual([
    ["b", 10, 1, "allowed"],
    ["b", 30, 2, "denied"],
    ["a", 0, 1, "allowed"],
    ["a", 5, 1, "unknown"],
  ]);
  expect(withOtherLimits).toBe(timelines);
});

it("a settlement belongs to an allowed arrival, not to a denied arrival of the same millisecond and cost", () => {
  const arrival = (outcome: string) => [fromMs, 4, outcome, 9_000, null, 4];
  const { timelines } = read(
    header,
    { id: "a", arrivals: [arrival("denied"), arrival("allowed")] },
    { id: "a", settlements: [[fromMs, 4, fromMs + 5, 1]] },
  );
  expect(arrivalsOf(timelines)).toEqual([
    ["a", 0, 4, "allowed", { ttlMs: 9_000, settledAtMs: fromMs + 5, settledCost: 1 }],
    ["a", 0, 4, "denied", { ttlMs: 9_000, settledAtMs: null, settledCost: 4 }],
  ]);
});

it("a settlement finds its arrival on the same line, on an earlier line and on a later line", () => {
  const { timelines } = read(
    header,
    { id: "a", settlements: [[fromMs + 20, 9, fromMs + 25, 0]] },
    {
      id: "a",
      arrivals: [
        [fromMs, 5, "allowed", 60_000, fromMs + 7, 3],
        [fromMs + 10, 4, "allowed", 60_000, null, 4],
        [fromMs + 10, 4, "allowed", 30_000, null, 4],
        [fromMs + 20, 9, "allowed", 60_000],
      ],
    },
    // These settlements have another key, another cost, or an arrival before the period.
    { id: "b", settlements: [[fromMs + 10, 4, fromMs + 11, 0]] },
    {
      id: "a",
      settlements: [
        [fromMs + 10, 5, fromMs + 11, 0],
        [fromMs - 1, 4, fromMs + 2, 0],
        [fromMs + 10, 4, fromMs + 12, 6],
      ],
    },
  );
  expect(arrivalsOf(timelines).map((arrival) => arrival[4])).toEqual([
    { ttlMs: 60_000, settledAtMs: fromMs + 7, settledCost: 3 },
    { ttlMs: 60_000, settledAtMs: fromMs + 12, settledCost: 6 },
    { ttlMs: 30_000, settledAtMs: null, settledCost: 4 },
    { ttlMs: 60_000, settledAtMs: fromMs + 25, settledCost: 0 },
  ]);
});

it("arrivals that were decided by other limits are counted, but only timelines that ask for them include them", () => {
  const { timelines, withOtherLimits } = read(
    header,
    { id: "a", arrivals: [[fromMs, 1, "allowed"]] },
    { id: "a", arrivals: [[fromMs + 1, 1, "allowed", 9_000]], hasOtherLimits: true },
    { id: "a", settlements: [[fromMs + 1, 1, fromMs + 2, 0]] },
  );
  expect(timelines.source.otherLimitsArrivals).toBe(1);
  expect(arrivalsOf(timelines)).toEqual([["a", 0, 1, "allowed"]]);
  expect(arrivalsOf(withOtherLimits)).toEqual([
    ["a", 0, 1, "allowed"],
    ["a", 1, 1, "allowed", { ttlMs: 9_000, settledAtMs: fromMs + 2, settledCost: 0 }],
  ]);
});

it.each([
  [[], /^line 0 of the samples: expected \{"policy".*, got nothing$/],
  [['{"policy":'], /^line 1 of the samples: expected a line of JSON; is the answer complete\?/],
  [["[1]"], /^line 1 .*expected an object, got \[1\]$/],
  [[{ ...header, sample: "2/3" }], /^line 1 .*expected a first line such as/],
  [[{ ...header, from: "yesterday" }], /^line 1 .*expected a first line such as/],
  [[header, "", { arrivals: [] }], /^line 3 .*expected an "id"/],
  [[header, { id: "a", arrivals: 7 }], /^line 2 .*expected a list "arrivals", got 7$/],
  [[header, { id: "a", arrivals: [[fromMs, 0.5, "allowed"]] }], /^line 2 .*an arrival such as/],
  [[header, { id: "a", arrivals: [["now", 1, "allowed"]] }], /^line 2 .*an arrival such as/],
  [[header, { id: "a", arrivals: [[fromMs, 1, "allowed", -1]] }], /^line 2 .*an arrival such as/],
  [[header, { id: "a", settlements: [[fromMs, 1, 2.5, 0]] }], /^line 2 .*a settlement such as/],
])("lines %j are refused with the number of the line and what is expected", (lines, message) => {
  expect(() => read(...lines)).toThrow(SamplesProblem);
  expect(() => read(...lines)).toThrow(message);
});
