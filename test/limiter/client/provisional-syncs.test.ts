/** Spends that an isolate decides under eventual consistency while an object may still deny the request. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Limiter } from "../../../src/limiter/object/limiter.ts";
import type { Outcome, Spend } from "../../../src/limiter/client/outcome.ts";
import { objectLocation } from "../../../src/limiter/client/object-location.ts";
import type { SyncCall } from "../../../src/limiter/protocol.ts";
import { type PendingSync, Replica } from "../../../src/limiter/client/replica.ts";
import { MemoryStorage } from "../../fakes/memory-storage.ts";
import { settled, spendOf, startMs, TestIsolate } from "../../fakes/isolate.ts";

beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const fields = { limits: "1000/hour", strategy: "sliding-log", consistency: "eventual" };
const eventual = spendOf({ ...fields, syncEvery: "1s" });
const costing = (cost: number): Spend => ({ ...eventual, cost });

const remainingOf = (outcomes: readonly Outcome[]): number | undefined =>
  outcomes.flatMap((outcome) => ("decision" in outcome ? outcome.decision.limits : []))[0]
    ?.remaining;

/** What an isolate knows of a key, and the key's object, whose clock is so far ahead of the isolate's. */
class Pair {
  localMs = startMs;
  replica = new Replica("k", objectLocation(eventual.policy.objects, "k"));
  readonly #limiter: Limiter;
  #batches = 0;

  constructor(aheadMs = 0) {
    const now = (): number => this.localMs + aheadMs;
    this.#limiter = new Limiter({
      storage: new MemoryStorage(),
      now,
      after: () => () => undefined,
    });
  }

  spend(cost: number, provisionalMs = 0): number | undefined {
    return remainingOf(this.replica.decide([costing(cost)], this.localMs, provisionalMs));
  }

  confirm(cost: number, spentAtMs: number): void {
    this.replica.confirm([costing(cost)], spentAtMs, this.localMs);
  }

  giveBack(cost: number, spentAtMs: number): unknown[] {
    const spent = this.replica.giveBack([costing(cost)], spentAtMs, this.localMs);
    return spent.map((each) => each.spentAtMs);
  }

  send(): PendingSync {
    const sending = this.replica.startSync(
      () => (this.#batches += 1),
      this.localMs,
      this.localMs + 5_000,
    );
    if (sending === null) throw new Error("something was asked for");
    return sending;
  }

  answer(sending: PendingSync): void {
    const synced = this.#limiter.sync({ ...sending.call, isolate: "isolate" });
    this.replica.finishSync(sending, synced, this.localMs);
  }

  /** @returns the units that are sent, by how long ago they were spent */
  sync(): (readonly [number, number])[] {
    const sending = this.send();
    this.answer(sending);
    return sending.call.charges.flatMap(({ spends }) => spends);
  }

  get leftAtObject(): number | undefined {
    const { name: policy, limits } = eventual.policy;
    const { decisions } = this.#limiter.look({ key: "k", charges: [{ policy, limits, cost: 1 }] });
    return decisions[0]?.limits[0]?.remaining;
  }
}

describe("a provisional spend of an isolate", () => {
  it("counts in the isolate at once, also after a sync, and is not sent before it is confirmed", () => {
    const pair = new Pair();
    expect(pair.spend(4, 1_000)).toBe(996);
    expect(pair.sync()).toEqual([]);
    expect([pair.spend(0), pair.leftAtObject]).toEqual([996, 1_000]);
  });

  it("is sent once when it is confirmed, as spent at that instant", () => {
    const pair = new Pair();
    pair.spend(4, 1_000);
    pair.sync();
    pair.localMs += 300;
    pair.confirm(4, startMs);
    pair.localMs += 50;
    expect(pair.sync()).toEqual([[50, 4]]);
    expect([pair.spend(0), pair.leftAtObject]).toEqual([996, 996]);
    expect(pair.sync()).toEqual([]);
    expect([pair.spend(0), pair.leftAtObject]).toEqual([996, 996]);
  });

  it("is counted by another replica that has taken the place of its own", () => {
    const pair = new Pair();
    pair.replica.confirm([costing(4)], startMs - 100, startMs);
    expect(pair.spend(0)).toBe(996);
    pair.sync();
    expect([pair.spend(0), pair.leftAtObject]).toEqual([996, 996]);
  });

  it("leaves no trace when it is given back", () => {
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

  it("is the object's to give back once it was sent, at the instant of the object's clock", () => {
    const pair = new Pair(7_200_000);
    pair.spend(0);
    pair.sync();
    pair.spend(4);
    pair.sync();
    pair.localMs += 100;
    expect(pair.giveBack(4, startMs)).toEqual([startMs + 7_200_000]);
  });

  it("is dropped when its request has been undecided for more than a minute", () => {
    const pair = new Pair();
    pair.spend(4, 1_000);
    pair.localMs += 60_000;
    pair.sync();
    expect(pair.spend(0)).toBe(996);
    pair.localMs += 1;
    pair.sync();
    expect(pair.spend(0)).toBe(1_000);
  });

  it("counts in the memory that the isolate takes", () => {
    const pair = new Pair();
    const sizes = [];
    for (let instant = 0; instant < 2; instant++) {
      for (let spend = 0; spend < 50; spend++) {
        pair.localMs += 1;
        pair.spend(1, instant * 1_000);
      }
      sizes.push(pair.replica.sizeBytes);
    }
    const [confirmed = 0, both = 0] = sizes;
    expect(both - confirmed).toBeGreaterThan(
      0.8 * (confirmed - new Pair().replica.sizeBytes - 500),
    );
  });
});

describe("what an isolate has spent", () => {
  it("while a sync is under way counts on top of the answer, by the object's clock", () => {
    const pair = new Pair(7_200_000);
    pair.spend(1);
    const sending = pair.send();
    pair.localMs += 10;
    pair.spend(5);
    pair.answer(sending);
    expect(pair.spend(0)).toBe(994);
  });

  it("at more than 100 instants has the oldest two counted at the later of them", () => {
    const pair = new Pair();
    for (let spend = 0; spend <= 100; spend++) {
      pair.spend(1);
      pair.localMs += 1;
    }
    const spends = pair.sync();
    expect([spends.length, spends[0], spends[1]]).toEqual([100, [100, 2], [99, 1]]);
  });

  it("is sent as often as the most impatient of the key's policies says", () => {
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

describe("a request of which an object decides after the isolate", () => {
  const other = (limit: number): Spend =>
    spendOf({ name: "other", limits: `${limit}/hour`, timeout: "9s" }, 1, "other");

  const refunds = (isolate: TestIsolate): unknown[] =>
    isolate.calls.filter(({ name }) => name === "refund");

  /** Has the object of the other key answer only when the returned function is called. */
  function delayed(isolate: TestIsolate): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    isolate.before = ({ object }) => (object === "other" ? promise : Promise.resolve());
    return resolve;
  }

  it("is reported to its object though no other request for the key follows", async () => {
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

  it("leaves no trace when it is given back after it was admitted", async () => {
    const isolate = new TestIsolate();
    const decide = delayed(isolate);
    const admitting = isolate.admit(costing(3), other(1));
    await isolate.clock.pass(700);
    decide();
    const admission = await admitting;
    await admission.giveBack();
    expect(isolate.calls.filter(({ name, object }) => name === "refund" && object === "k")).toEqual(
      [],
    );
    await isolate.clock.pass(5_000);
    expect([refunds(isolate).length, leftAtObject(isolate)]).toEqual([1, 1_000]);
  });

  it("is counted once where the isolate decides last", async () => {
    const isolate = new TestIsolate();
    expect(await isolate.outcomes(other(1), eventual)).toEqual([true, true]);
    await isolate.clock.pass(5_000);
    expect(leftAtObject(isolate)).toBe(999);
  });

  it("has nothing counted of a dry run beside it that denies, which is reported", async () => {
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
    const reported = isolate.calls.flatMap(({ name, argument }) =>
      name === "sync" ? (argument as SyncCall).charges : [],
    );
    const unitsOfDryRun = reported
      .filter(({ policy }) => policy === "dry")
      .flatMap(({ spends }) => spends.map(([, units]) => units));
    expect(unitsOfDryRun).toEqual([1]);
  });
});

describe("the keys that an isolate knows", () => {
  it("are the 1,024 that it was asked for last", async () => {
    const isolate = new TestIsolate();
    const askOthers = async (count: number, name: string): Promise<void> => {
      for (let key = 0; key < count; key++) {
        // oxlint-disable-next-line no-await-in-loop
        await isolate.admit({ ...eventual, partitionKey: `${name}-${key}` });
      }
      await isolate.clock.pass(3_000);
    };
    const kind = async (): Promise<string | undefined> =>
      (await isolate.admit(eventual)).outcomes[0]?.kind;
    expect(await kind()).toBe("local");
    await askOthers(1_000, "first");
    expect(await kind()).toBe("decided");
    await askOthers(1_000, "second");
    expect(await kind()).toBe("decided");
    await askOthers(1_024, "third");
    expect(await kind()).toBe("local");
  });

  it("are forgotten by a policy also while what they spent is still to be sent", async () => {
    const isolate = new TestIsolate();
    isolate.before = ({ name, argument }) =>
      name === "sync" && (argument as SyncCall).key === "k"
        ? Promise.reject(new Error("lost"))
        : Promise.resolve();
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
