/** Provisional spends under eventual consistency: a later object may still deny the request. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { KeyObject } from "../../../src/limiter/object/key-object.ts";
import type { Outcome, Spend } from "../../../src/limiter/isolate/outcome.ts";
import { type SyncCall, type SyncReply, objectLocation } from "../../../src/limiter/protocol.ts";
import { type PendingSync, Replica } from "../../../src/limiter/isolate/replica.ts";
import { MemoryStorage } from "../../../src/sdk/testing/memory-storage.ts";
import { settled, spendOf, startMs, TestIsolate } from "../../fakes/isolate.ts";

beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const fields = { limits: "1000/hour", strategy: "sliding-log", consistency: "eventual" };
const eventual = spendOf({ ...fields, syncEvery: "1s" });
const costing = (cost: number): Spend => ({ ...eventual, cost });

const remainingOf = (outcomes: readonly Outcome[]): number | undefined =>
  outcomes.flatMap(({ decision }) => decision?.limits ?? [])[0]?.remaining;

/** A replica and its object. The object's clock is `aheadMs` ahead of the isolate's. */
class Pair {
  localMs = startMs;
  replica = new Replica("k", objectLocation(eventual.policy.objects, "k"));
  readonly #limiter: KeyObject;
  #batches = 0;

  constructor(aheadMs = 0) {
    const now = (): number => this.localMs + aheadMs;
    this.#limiter = new KeyObject({
      storage: new MemoryStorage(),
      now,
      after: () => () => undefined,
    });
  }

  spend(cost: number, provisionalMs = 0): number | undefined {
    return remainingOf(this.replica.decide([costing(cost)], this.localMs, provisionalMs));
  }

  finalize(cost: number, spentAtMs: number): void {
    this.replica.finalize([costing(cost)], spentAtMs, this.localMs);
  }

  giveBack(cost: number, spentAtMs: number): unknown[] {
    const spent = this.replica.giveBack([costing(cost)], spentAtMs, this.localMs);
    return spent.map((each) => each.spentAtMs);
  }

  send(): PendingSync {
    const sync = this.replica.startSync(() => (this.#batches += 1), this.localMs, this.localMs + 5_000);
    if (sync === null) throw new Error("the replica has a policy");
    return sync;
  }

  reply(sync: PendingSync): SyncReply {
    return this.#limiter.sync({ ...sync.call, isolate: "isolate" });
  }

  answer(sync: PendingSync, reply: SyncReply | null = this.reply(sync)): void {
    this.replica.finishSync(sync, reply, this.localMs);
  }

  /** @returns the spends that a sync sends, as pairs of age in milliseconds and units */
  sync(): (readonly [number, number])[] {
    const sync = this.send();
    this.answer(sync);
    return sync.call.charges.flatMap(({ spends }) => spends);
  }

  get leftAtObject(): number | undefined {
    const { name: policy, limits } = eventual.policy;
    const { decisions } = this.#limiter.look({ key: "k", charges: [{ policy, limits, cost: 1 }] });
    return decisions[0]?.limits[0]?.remaining;
  }
}

describe("a provisional spend of an isolate", () => {
  it("a provisional spend counts in the replica at once, and is sent only when it is final", () => {
    const pair = new Pair();
    expect(pair.spend(4, 1_000)).toBe(996);
    expect(pair.sync()).toEqual([]);
    expect([pair.spend(0), pair.leftAtObject]).toEqual([996, 1_000]);
  });

  it("a provisional spend that becomes final is sent once, as if spent at that time", () => {
    const pair = new Pair();
    pair.spend(4, 1_000);
    pair.sync();
    pair.localMs += 300;
    pair.finalize(4, startMs);
    pair.localMs += 50;
    expect(pair.sync()).toEqual([[50, 4]]);
    expect([pair.spend(0), pair.leftAtObject]).toEqual([996, 996]);
    expect(pair.sync()).toEqual([]);
    expect([pair.spend(0), pair.leftAtObject]).toEqual([996, 996]);
  });

  it("a provisional spend counts, when it becomes final, even in a replica that did not decide it", () => {
    const pair = new Pair();
    pair.replica.finalize([costing(4)], startMs - 100, startMs);
    expect(pair.spend(0)).toBe(996);
    pair.sync();
    expect([pair.spend(0), pair.leftAtObject]).toEqual([996, 996]);
  });

  it("a provisional spend that is refunded leaves no trace in replica and object", () => {
    for (const aheadMs of [0, 7_200_000]) {
      const pair = new Pair(aheadMs);
      pair.spend(0);
      pair.sync();
      pair.spend(4, 1_000);
      pair.localMs += 100;
      expect(pair.giveBack(4, startMs)).toEqual([]);
      expect(pair.spend(0)).toBe(1_000);
      expect(pair.sync()).toEqual([]);
      expect([pair.spend(0), pair.leftAtObject]).toEqual([1_000, 1_000]);
    }
  });

  it("refunding a spend that was already sent returns its time by the object's clock, so that the object can refund it", () => {
    const pair = new Pair(7_200_000);
    pair.spend(0);
    pair.sync();
    pair.spend(4);
    pair.sync();
    pair.localMs += 100;
    expect(pair.giveBack(4, startMs)).toEqual([startMs + 7_200_000]);
  });

  it("a spend that stays provisional for more than a minute is dropped", () => {
    const pair = new Pair();
    pair.spend(4, 1_000);
    pair.localMs += 60_000;
    pair.sync();
    expect(pair.spend(0)).toBe(996);
    pair.localMs += 1;
    pair.sync();
    expect(pair.spend(0)).toBe(1_000);
  });

  it("provisional spends count towards the replica's size in memory", () => {
    const pair = new Pair();
    const sizes = [];
    for (let instant = 0; instant < 2; instant++) {
      for (let spend = 0; spend < 50; spend++) {
        pair.localMs += 1;
        pair.spend(1, instant * 1_000);
      }
      sizes.push(pair.replica.sizeBytes);
    }
    const [final = 0, both = 0] = sizes;
    expect(both - final).toBeGreaterThan(0.8 * (final - new Pair().replica.sizeBytes - 500));
  });
});

describe("the spends of a replica", () => {
  it("a spend during a sync is added to the snapshot that the reply brings", () => {
    const pair = new Pair(7_200_000);
    pair.spend(1);
    const sync = pair.send();
    pair.localMs += 10;
    pair.spend(5);
    pair.answer(sync);
    expect(pair.spend(0)).toBe(994);
  });

  it("a reply that arrives after a later sync has started changes neither the replica nor the batch of that sync", () => {
    const pair = new Pair();
    pair.spend(1);
    const lost = pair.send();
    const late = pair.reply(lost);
    pair.answer(pair.send());
    pair.spend(5);
    const next = pair.send();
    pair.answer(lost, late);
    expect(pair.spend(0)).toBe(994);
    pair.answer(next, null);
    expect(pair.sync()).toEqual([[0, 5]]);
    expect(pair.leftAtObject).toBe(994);
  });

  it("after a sync without spends was lost, the next sync sends the spends since then", () => {
    const pair = new Pair();
    pair.spend(0);
    pair.answer(pair.send(), null);
    pair.spend(5);
    expect(pair.sync()).toEqual([[0, 5]]);
  });

  it("when a replica has spends of more than 100 times, the two oldest are merged at the later time", () => {
    const pair = new Pair();
    for (let spend = 0; spend <= 100; spend++) {
      pair.spend(1);
      pair.localMs += 1;
    }
    const spends = pair.sync();
    expect([spends.length, spends[0], spends[1]]).toEqual([100, [100, 2], [99, 1]]);
  });

  it("a replica syncs at the shortest syncEvery of its policies", () => {
    const { replica } = new Pair();
    const slow = spendOf({ ...fields, name: "slow", syncEvery: "5s" });
    replica.decide([slow], startMs, 0);
    expect(replica.syncEveryMs).toBe(5_000);
    replica.decide([eventual, slow], startMs, 0);
    expect(replica.syncEveryMs).toBe(1_000);
  });
});

const leftAtObject = (isolate: TestIsolate, spend: Spend = eventual): number | undefined => {
  const { name: policy, limits } = spend.policy;
  const charges = [{ policy, limits, cost: 1 }];
  return isolate.object("k").look({ key: "k", charges }).decisions[0]?.limits[0]?.remaining;
};

describe("a request that an object decides after the isolate", () => {
  const other = (limit: number): Spend =>
    spendOf({ name: "other", limits: `${limit}/hour`, timeout: "9s" }, 1, "other");

  const refunds = (isolate: TestIsolate): unknown[] => isolate.calls.filter(({ name }) => name === "refund");

  /** Delays the answers of the object `other` until the returned function is called. */
  function delayed(isolate: TestIsolate): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    isolate.before = ({ object }) => (object === "other" ? promise : Promise.resolve());
    return resolve;
  }

  it("a provisional spend that becomes final is sent even without a further request for its key", async () => {
    const isolate = new TestIsolate();
    const decide = delayed(isolate);
    const outcomes = isolate.outcomes(costing(3), other(1));
    await isolate.clock.pass(5_000);
    expect(leftAtObject(isolate)).toBe(1_000);
    decide();
    expect(await outcomes).toEqual([true, true]);
    await isolate.clock.pass(2_000);
    expect(leftAtObject(isolate)).toBe(997);
  });

  it("an eventual spend that is refunded after the admission leaves no trace", async () => {
    const isolate = new TestIsolate();
    const decide = delayed(isolate);
    const admitting = isolate.admit(costing(3), other(1));
    await isolate.clock.pass(700);
    decide();
    const admission = await admitting;
    await admission.giveBack();
    expect(isolate.calls.filter(({ name, object }) => name === "refund" && object === "k")).toEqual([]);
    await isolate.clock.pass(5_000);
    expect([refunds(isolate).length, leftAtObject(isolate)]).toEqual([1, 1_000]);
  });

  it("a spend is counted once when an eventual policy decides last", async () => {
    const isolate = new TestIsolate();
    expect(await isolate.outcomes(other(1), eventual)).toEqual([true, true]);
    await isolate.clock.pass(5_000);
    expect(leftAtObject(isolate)).toBe(999);
  });

  it("a dry run that would deny is logged and spends nothing", async () => {
    const isolate = new TestIsolate();
    const dryRun = spendOf({ ...fields, name: "dry", limits: "1/hour", dryRun: true });
    const [allowing, denying] = [other(9), { ...other(9), cost: 10 }];
    const warnings = vi.spyOn(console, "warn").mockReturnValue(undefined);
    expect(await isolate.outcomes(eventual, dryRun, allowing)).toEqual([true, true, true]);
    expect(warnings.mock.calls).toEqual([]);
    expect(await isolate.outcomes(eventual, dryRun, allowing)).toEqual([true, false, true]);
    expect(warnings.mock.calls.join()).toContain('"event":"dry-run-denied","policy":"dry"');
    await isolate.outcomes(eventual, dryRun, denying);
    await settled();
    expect(isolate.calls.filter(({ name }) => name === "refund")).toEqual([]);
    await isolate.clock.pass(5_000);
    expect([leftAtObject(isolate, dryRun), leftAtObject(isolate)]).toEqual([0, 998]);
    const sent = isolate.calls.flatMap(({ name, argument }) => (name === "sync" ? (argument as SyncCall).charges : []));
    const unitsOfDryRun = sent
      .filter(({ policy }) => policy === "dry")
      .flatMap(({ spends }) => spends.map(([, units]) => units));
    expect(unitsOfDryRun).toEqual([1]);
  });
});

describe("the replicas that an isolate keeps", () => {
  it("an isolate keeps the replicas of the 1,024 most recently used keys", async () => {
    const isolate = new TestIsolate();
    const admitOthers = async (count: number, name: string): Promise<void> => {
      for (let key = 0; key < count; key++) {
        // oxlint-disable-next-line no-await-in-loop
        await isolate.admit({ ...eventual, partitionKey: `${name}-${key}` });
      }
      await isolate.clock.pass(3_000);
    };
    const kind = async (): Promise<string | undefined> => (await isolate.admit(eventual)).outcomes[0]?.kind;
    expect(await kind()).toBe("local");
    await admitOthers(1_000, "first");
    expect(await kind()).toBe("decided");
    await admitOthers(1_000, "second");
    expect(await kind()).toBe("decided");
    await admitOthers(1_024, "third");
    expect(await kind()).toBe("local");
  });

  it("deleting a key also deletes spends of its evicted replica that were not sent", async () => {
    const isolate = new TestIsolate();
    isolate.before = ({ name, argument }) =>
      name === "sync" && (argument as SyncCall).key === "k" ? Promise.reject(new Error("lost")) : Promise.resolve();
    await isolate.admit(costing(7));
    for (let key = 0; key < 1_100; key++) {
      // oxlint-disable-next-line no-await-in-loop
      await isolate.admit({ ...eventual, partitionKey: `other-${key}` });
    }
    await isolate.client.forget(eventual.policy, "k");
    isolate.before = () => Promise.resolve();
    await isolate.clock.pass(10_000);
    expect(leftAtObject(isolate)).toBe(1_000);
  });
});
