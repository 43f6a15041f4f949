/**
 * Compares statistics and samples with a naive count. Random beats are lost, repeated, delayed and reordered, the
 * object crashes at any moment, and the storage fails at times.
 */
import * as fc from "fast-check";
import { afterEach, expect, it, vi } from "vitest";
import { StatisticsStore } from "../../../src/control/object/statistics.ts";
import { outcomeNames, type BeatCall, type StatisticsBatch } from "../../../src/control/protocol.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { forAll } from "../../for-all.ts";
import { partitionKeys } from "../key-streams.ts";
import { beat, counts } from "./batches.ts";
import { arrival, sampleBatch, storedCosts } from "./sample-batches.ts";

afterEach(() => vi.restoreAllMocks());

const startMs = Date.UTC(2026, 10, 22, 10, 58);
const hourMs = 3_600_000;

const keys = partitionKeys(3);

const steps = fc.array(
  fc.record({
    afterMs: fc.oneof(
      fc.integer({ min: 0, max: 6_000 }),
      fc.integer({ min: 0, max: 50_000 }),
      fc.integer({ min: 0, max: 5_400_000 }),
    ),
    isolate: fc.integer({ min: 0, max: 2 }),
    allowed: fc.integer({ min: 0, max: 5 }),
    denied: fc.integer({ min: 0, max: 5 }),
    policy: fc.constantFrom("api", "login"),
    /** The deliveries of this beat, as delays in steps. An empty list means that the beat is lost. */
    arrivals: fc.array(fc.integer({ min: 0, max: 6 }), { maxLength: 3 }),
    isAnswerLost: fc.boolean(),
    crashes: fc.boolean(),
    storageFails: fc.integer({ min: 0, max: 9 }).map((value) => value === 0),
  }),
  { minLength: 1, maxLength: 60 },
);

class FakeIsolate {
  readonly name: string;
  #seq = 0;
  #open: { batch: StatisticsBatch; closedAtMs: number }[] = [];

  constructor(name: string) {
    this.name = name;
  }

  close(content: Omit<StatisticsBatch, "seq" | "agoMs">, nowMs: number): void {
    this.#open.push({ batch: { ...content, seq: ++this.#seq, agoMs: 0 }, closedAtMs: nowMs });
  }

  call(nowMs: number): BeatCall {
    const batches = this.#open.map(({ batch, closedAtMs }) => ({
      ...batch,
      agoMs: nowMs - closedAtMs,
    }));
    return beat(batches, { isolate: this.name });
  }

  stored(seq: number): void {
    this.#open = this.#open.filter(({ batch }) => batch.seq > seq);
  }

  get isEmpty(): boolean {
    return this.#open.length === 0;
  }
}

it(
  "every batch counts exactly once, whatever is lost, repeated, late or out of order, and whenever the object crashes",
  forAll(
    [steps],
    (drawn) => {
      vi.spyOn(console, "error").mockImplementation(() => undefined);
      const storage = new MemorySql();
      let store = new StatisticsStore(storage, startMs);
      const isolates = [0, 1, 2].map((index) => new FakeIsolate(`isolate-${index}`));
      const expected = new Map<string, number>();
      const costs: Record<"api" | "login", number[]> = { api: [], login: [] };
      const network: { call: BeatCall; atStep: number; isAnswered: boolean }[] = [];
      let nowMs = startMs;
      let seenTotal = 0;
      for (const [index, step] of drawn.entries()) {
        nowMs += step.afterMs;
        if (step.crashes) store = new StatisticsStore(storage, nowMs);
        storage.before = (query) => {
          if (step.storageFails && query.startsWith("INSERT")) throw new Error("the storage is full");
        };
        const isolate = isolates[step.isolate];
        const outcomes = { allowed: step.allowed, denied: step.denied };
        const policies = {
          [step.policy]: counts({ outcomes, latency: [[3, step.denied]], deniedRequests: step.denied }),
        };
        const key = keys[step.denied % keys.length] ?? "";
        const sampled = sampleBatch({ [key]: [arrival(nowMs, { cost: index })] });
        const samples = { [step.policy]: sampled };
        const requests = step.allowed + step.denied;
        isolate?.close({ policies, originFailures: step.allowed, requests, samples }, nowMs);
        costs[step.policy].push(index);
        for (const [name, count] of Object.entries(outcomes)) {
          const place = `${step.policy} ${name}`;
          expected.set(place, (expected.get(place) ?? 0) + count);
        }
        expected.set("failures", (expected.get("failures") ?? 0) + step.allowed);
        expected.set("requests", (expected.get("requests") ?? 0) + requests);
        expected.set("requests denied", (expected.get("requests denied") ?? 0) + step.denied);
        for (const delay of step.arrivals) {
          const call = isolate?.call(nowMs) ?? beat([]);
          network.push({ call, atStep: index + delay, isAnswered: !step.isAnswerLost });
        }
        // Delivers later calls first, so that calls overtake each other.
        for (const each of network.filter(({ atStep }) => atStep === index).toReversed()) {
          const storedSeq = store.record(each.call, nowMs);
          const sender = isolates.find(({ name }) => name === each.call.isolate);
          if (each.isAnswered) sender?.stored(storedSeq);
        }
        const total = allowedIn(store, nowMs);
        expect(total).toBeGreaterThanOrEqual(seenTotal);
        seenTotal = total;
      }
      storage.before = () => undefined;
      for (const isolate of isolates) {
        isolate.stored(store.record(isolate.call(nowMs), nowMs));
        nowMs += 31_000;
        isolate.stored(store.record(isolate.call(nowMs), nowMs));
        expect(isolate.isEmpty).toBe(true);
      }
      store = new StatisticsStore(storage, nowMs);
      expect(sums(store, hourMs, nowMs)).toEqual(nonZero(expected));
      expect({ api: storedCosts(store), login: storedCosts(store, "login") }).toEqual(costs);
      store.run(nowMs + 2 * hourMs);
      expect(sums(store, hourMs, nowMs + 2 * hourMs)).toEqual(nonZero(expected));
      const totals = store.totals(nowMs);
      const stated = ["api", "login"].flatMap((policy) =>
        outcomeNames.map((name) => [`${policy} ${name}`, totals.of(policy).outcomes[name] ?? 0] as const),
      );
      const others = [
        ["failures", totals.originFailures],
        ["requests", totals.requests],
        ["requests denied", totals.deniedRequests],
      ] as const;
      expect(nonZero(new Map([...stated, ...others]))).toEqual(nonZero(expected));
    },
    150,
  ),
);

const allowedIn = (store: StatisticsStore, nowMs: number): number =>
  store.totals(nowMs).of("api").outcomes.allowed ?? 0;

function sums(store: StatisticsStore, stepMs: number, nowMs: number): Record<string, number> {
  const {
    points,
    originFailures,
    requests = [],
  } = store.statistics({ fromMs: startMs - hourMs, toMs: nowMs + hourMs, stepMs }, nowMs);
  const found = new Map<string, number>();
  for (const { policy, outcomes, latency } of points) {
    for (const [name, count] of Object.entries(outcomes)) {
      found.set(`${policy} ${name}`, (found.get(`${policy} ${name}`) ?? 0) + count);
    }
    expect(latency.every(([bucket]) => bucket === 3)).toBe(true);
  }
  const sumOf = (values: readonly (number | null)[]): number =>
    values.reduce<number>((sum, value) => sum + (value ?? 0), 0);
  found.set("failures", sumOf(originFailures.map(({ count }) => count)));
  found.set("requests", sumOf(requests.map(({ decided }) => decided)));
  found.set("requests denied", sumOf(requests.map(({ denied }) => denied)));
  return nonZero(found);
}

const nonZero = (counted: ReadonlyMap<string, number>): Record<string, number> =>
  Object.fromEntries(
    [...counted].filter(([, count]) => count > 0).toSorted(([one], [other]) => (one < other ? -1 : 1)),
  );
