/** A replay of recorded traffic under the limits that were in force makes the recorded decisions. */
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { replayAll } from "../../../src/advisor/replay/replay.ts";
import { createMeter, holdsSlots, isQueue, type Limit, type Meter } from "../../../src/strategies/index.ts";
import { forAll } from "../../for-all.ts";
import { startMs } from "../../strategies/meters.ts";
import { limitOf, type Variant, variants } from "../../strategies/variants.ts";
import { type TestArrival, timelinesOf } from "./timelines-of.ts";

const windowMs = 600;
const mostRequests = 60;

/** A randomly generated request. */
interface Request {
  readonly key: string;
  readonly gapMs: number;
  readonly cost: number;
  /** Null for a charge without a reservation. */
  readonly reserved: {
    readonly ttlMs: number;
    /** How long the request runs. Null if its reservation is never settled. */
    readonly runsMs: number | null;
    readonly actualCost: number;
  } | null;
  /** The order of events within a millisecond. */
  readonly order: number;
}

const requestsOf = (tickMs: number, costs: readonly number[]): fc.Arbitrary<readonly Request[]> =>
  fc.array(
    fc.record({
      key: fc.constantFrom("a", "a", "b"),
      gapMs: fc.oneof(
        { weight: 5, arbitrary: fc.constantFrom(0, 0, 1) },
        { weight: 4, arbitrary: fc.integer({ min: 0, max: tickMs }) },
        { weight: 1, arbitrary: fc.integer({ min: tickMs, max: 8 * tickMs }) },
      ),
      cost: fc.constantFrom(...costs),
      reserved: fc.option(
        fc.record({
          ttlMs: fc.constantFrom(1_000, 60_000, 3_600_000),
          runsMs: fc.oneof(fc.constantFrom(0, 1, 2, null), fc.integer({ min: 0, max: Math.min(4 * tickMs, 3_000) })),
          actualCost: fc.constantFrom(0, 0, 1, 1, 2),
        }),
        { freq: 4 },
      ),
      order: fc.nat(9),
    }),
    { minLength: 1, maxLength: mostRequests, size: "max" },
  );

interface LiveEvent {
  readonly atMs: number;
  readonly order: number;
  readonly run: () => void;
}

/** Without corrections, a replay treats reservations as final charges unless they hold concurrency slots. */
const atReservedCost = ({ reserved, ...request }: Request): Request => ({
  ...request,
  reserved: reserved && { ...reserved, actualCost: request.cost },
});

/**
 * A queue refunds only its last slot, so that its state depends on the order of events within a millisecond. Samples do
 * not record this order, so each settlement gets its own millisecond.
 */
const apart = (requests: readonly Request[]): readonly Request[] =>
  requests.map(({ reserved, gapMs, ...request }, index) => {
    const runsMs = reserved?.runsMs ?? null;
    return {
      ...request,
      gapMs: gapMs * (mostRequests + 1),
      reserved: reserved && {
        ...reserved,
        runsMs: runsMs === null ? null : runsMs * (mostRequests + 1) + index + 1,
      },
    };
  });

/** Decides requests with one meter for each key, and records them as the samples do. */
function record(requests: readonly Request[], limits: readonly Limit[]): readonly TestArrival[] {
  const meters = new Map<string, Meter>();
  const events: LiveEvent[] = [];
  const recorded: TestArrival[] = [];
  const slotLeases = limits.filter(holdsSlots).map((limit) => limit.windowMs);
  const spend = ({ key, cost, reserved, order }: Request, atMs: number): void => {
    const meter = meters.get(key) ?? createMeter(limits);
    meters.set(key, meter);
    if (reserved === null) {
      const { allowed } = meter.consume(cost, atMs);
      recorded.push({ key, atMs, cost, outcome: allowed ? "allowed" : "denied" });
      return;
    }
    const { ttlMs, runsMs, actualCost } = reserved;
    const { allowed } = meter.reserve({ cost, ttlMs }, atMs);
    const reservation = { ttlMs, settledAtMs: null, settledCost: cost };
    if (!allowed || runsMs === null) {
      recorded.push({ key, atMs, cost, outcome: allowed ? "allowed" : "denied", reservation });
      return;
    }
    const settledAtMs = atMs + runsMs;
    const settled = { ttlMs, settledAtMs, settledCost: actualCost };
    recorded.push({ key, atMs, cost, outcome: "allowed", reservation: settled });
    const leaseMs = Math.min(ttlMs, ...slotLeases);
    let heldAtMs = atMs;
    for (let renewMs = atMs + leaseMs / 2; renewMs < settledAtMs; renewMs += leaseMs / 2) {
      const renew = (): void => {
        meter.renew({ cost, ttlMs, heldAtMs }, renewMs);
        heldAtMs = renewMs;
      };
      events.push({ atMs: renewMs, order, run: renew });
    }
    const settle = (): void => meter.settle({ cost, actualCost, spentAtMs: atMs, ttlMs, heldAtMs }, settledAtMs);
    events.push({ atMs: settledAtMs, order, run: settle });
  };
  let atMs = startMs;
  for (const request of requests) {
    atMs += request.gapMs;
    const arrivesMs = atMs;
    events.push({ atMs, order: request.order, run: () => spend(request, arrivesMs) });
  }
  while (events.length > 0) {
    const first = events.reduce((earliest, event) =>
      (event.atMs - earliest.atMs || event.order - earliest.order) < 0 ? event : earliest,
    );
    events.splice(events.indexOf(first), 1);
    first.run();
  }
  return recorded;
}

function expectRecordedDecisions(arrivals: readonly TestArrival[], limits: readonly Limit[]) {
  const timelines = timelinesOf(arrivals);
  const [result] = replayAll(timelines, [limits], { keepsDecisions: true });
  const allowed = Array.from(result?.allowed ?? [], (each) => each === 1);
  const recorded = Array.from(timelines.outcome, (outcome) => outcome === 1);
  expect(allowed).toEqual(recorded);
}

const setsOf = (variant: Variant) =>
  fc
    .record({
      units: fc.integer({ min: 1, max: 6 }),
      other: fc.constantFrom(...variants),
      isPair: fc.boolean(),
    })
    .map(({ units, other, isPair }) => {
      const hasQueue = [variant, ...(isPair ? [other] : [])].some(
        ({ strategy, options }) => strategy === "leaky-bucket" && options["mode"] === "queue",
      );
      const scaledMs = hasQueue ? windowMs * (mostRequests + 1) : windowMs;
      return [limitOf(variant, units, scaledMs), ...(isPair ? [limitOf(other, units + 2, 5 * scaledMs, "other")] : [])];
    });

it.each(variants)("$title: a replay makes the recorded decisions", async (variant) => {
  const seen = { denied: 0, settled: 0, together: 0, checked: 0 };
  await forAll(
    [requestsOf(variant.tickMs ?? windowMs / 4, [1]), setsOf(variant), fc.boolean()],
    (drawn, limits, isCorrected) => {
      const requests = isCorrected ? drawn : drawn.map(atReservedCost);
      const arrivals = record(limits.some(isQueue) ? apart(requests) : requests, limits);
      const settledMs = new Set(arrivals.map((each) => each.reservation?.settledAtMs));
      seen.denied += arrivals.filter(({ outcome }) => outcome === "denied").length;
      seen.settled += settledMs.size;
      seen.together += arrivals.filter(({ atMs }) => settledMs.has(atMs)).length;
      if (arrivals.every(({ reservation }) => reservation === undefined)) fc.pre(!limits.some(holdsSlots));
      expectRecordedDecisions(arrivals, limits);
      seen.checked += arrivals.length;
    },
    500,
    100,
  )();
  expect(Math.min(seen.denied, seen.settled, seen.checked)).toBeGreaterThan(100);
  const leastTogether = isQueue(limitOf(variant, 1, windowMs)) ? 0 : 100;
  expect(seen.together).toBeGreaterThanOrEqual(leastTogether);
});
