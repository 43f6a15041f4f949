/** The stored rows of trees: in a crash no level keeps a charge that another level has lost. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { hardBudgetBytes } from "../../../src/limiter/object/key-cache.ts";
import type { Charge, CheckCall } from "../../../src/limiter/protocol.ts";
import { call, charge, confirmed, eventsOf } from "../../fakes/calls.ts";
import { TestObject } from "../../fakes/test-object.ts";
import { forAll } from "../../for-all.ts";
import * as previous from "../../previous-version/app.js";

const daily = (cost: number, policy: string): Charge => charge("100000/day", cost, policy, "sliding-log");

const users = ["a", "b", "c", "d"];

/** The charges of a request of a user: its organisation `k`, its team, and itself. */
const tree = (user: string, cost = 1): Charge[] => {
  const team = user < "c" ? "k 1" : "k 2";
  return [
    daily(cost, "org"),
    { ...daily(cost, "team"), key: team },
    { ...daily(cost, "user"), key: `${team} ${user}` },
  ];
};

const usedBy = (object: TestObject, charges: readonly Charge[]): number[] =>
  object.limiter.look(call(charges)).decisions.map(({ limits }) => 100_000 - (limits[0]?.remaining ?? 0));

/** The used units of the organisation, and the sums of its teams and of its users. */
function levelSums(object: TestObject): readonly number[] {
  const [a, b, c, d] = users.map((user) => usedBy(object, tree(user)));
  const sum = (level: number, ...used: (readonly number[] | undefined)[]): number =>
    used.reduce((total, each) => total + (each?.[level] ?? 0), 0);
  return [sum(0, a), sum(1, a, c), sum(2, a, b, c, d)];
}

interface Step {
  readonly kind: "check" | "reserve" | "settle" | "renew" | "refund" | "crash";
  readonly user: string;
  readonly cost: number;
  readonly afterMs: number;
}

const steps = fc.array(
  fc.record<Step>({
    kind: fc.constantFrom("check", "check", "check", "reserve", "settle", "renew", "refund", "crash"),
    user: fc.constantFrom(...users),
    cost: fc.integer({ min: 1, max: 4 }),
    afterMs: fc.constantFrom(0, 0, 1, 40, 700, 1_000),
  }),
  { minLength: 10, maxLength: 60 },
);

async function traffic(
  object: TestObject,
  trace: readonly Step[],
  durability: NonNullable<CheckCall["durability"]>,
  afterCrash: (admitted: number) => void,
): Promise<void> {
  let admitted = 0;
  const ids: { id: string; cost: number }[] = [];
  for (const [index, { kind, user, cost, afterMs }] of trace.entries()) {
    // oxlint-disable-next-line no-await-in-loop
    await object.pass(afterMs);
    const request = { ...call(tree(user, cost)), durability };
    const { limiter } = object;
    const last = ids.at(-1);
    if (kind === "crash") {
      object.crash();
      afterCrash(admitted);
    } else if (kind === "check") {
      limiter.check(request);
      admitted += cost;
    } else if (kind === "reserve") {
      limiter.reserveTree({ ...request, id: `${index}`, ttlMs: 600_000 });
      ids.push({ id: `${index}`, cost });
      admitted += cost;
    } else if (kind === "refund") {
      const { spentAtMs } = limiter.check(request);
      const charges = request.charges.map((each, level) => ({ ...each, spentAtMs: spentAtMs[level] ?? 0 }));
      limiter.refundTree({ ...request, charges });
    } else if (last !== undefined && kind === "renew") limiter.renew({ key: "k", id: last.id });
    else if (last !== undefined) {
      ids.pop();
      const { settled } = limiter.settle({ key: "k", id: last.id, cost: cost - 1 });
      if (settled) admitted += cost - 1 - last.cost;
    }
  }
}

describe("a crash", () => {
  it(
    "a crash loses the charges of all levels of a relaxed request, or of none",
    forAll(
      [steps],
      async (trace) => {
        const object = new TestObject();
        const expectEqualSums = (): void => {
          const [org, teams, ofUsers] = levelSums(object);
          expect([teams, ofUsers]).toEqual([org, org]);
        };
        await traffic(object, [...trace, ...crash], "relaxed", expectEqualSums);
      },
      400,
    ),
  );

  it(
    "a crash loses no charge of any level of a confirmed request",
    forAll(
      [steps],
      async (trace) => {
        const object = new TestObject();
        await traffic(object, [...trace, ...crash], "confirmed", (admitted) => {
          expect(levelSums(object)).toEqual([admitted, admitted, admitted]);
        });
      },
      400,
    ),
  );

  it("a crash after keys were evicted from memory leaves the charges of all their levels", () => {
    const object = new TestObject();
    const usersOfAll = Array.from({ length: 8_000 }, (_, user) => `k ${user}`);
    let mostBytes = 0;
    for (const key of usersOfAll) {
      object.limiter.check(call([daily(1, "org"), { ...daily(1, "user"), key }]));
      mostBytes = Math.max(mostBytes, object.limiter.cachedBytes);
    }
    expect(mostBytes).toBeGreaterThan(hardBudgetBytes / 2);
    object.crash();
    const used = usersOfAll.map((key) => usedBy(object, [{ ...daily(1, "user"), key }])[0] ?? 0);
    const ofUsers = used.reduce((sum, each) => sum + each, 0);
    expect(ofUsers).toBeGreaterThan(1_000);
    expect(usedBy(object, [daily(1, "org")])).toEqual([ofUsers]);
  });
});

const crash: readonly Step[] = [{ kind: "crash", user: "a", cost: 1, afterMs: 0 }];

describe("the writes of a tree", () => {
  it("a confirmed request writes the rows of all levels in one put", () => {
    const object = new TestObject();
    object.limiter.check(confirmed(tree("a")));
    expect(object.storage.written).toMatchObject({ puts: [3], confirmedPuts: 1 });
  });

  it("a denied request writes no row", async () => {
    const object = new TestObject();
    object.limiter.check(confirmed([...tree("a"), { ...charge("1/hour", 2), key: "small" }]));
    expect([await object.stored(), object.storage.written.rows]).toEqual([[[], null], 0]);
  });

  it("a confirmed request of one level also writes what other levels have spent before", async () => {
    const object = new TestObject();
    for (let request = 0; request < 5; request++) object.limiter.check(call(tree("a")));
    object.limiter.check(confirmed(daily(1, "org")));
    object.crash();
    expect(usedBy(object, tree("a"))).toEqual([6, 5, 5]);
  });
});

describe("the previous version", () => {
  /** Replaces the object by one of the previous version, on the same storage. */
  async function withPrevious(object: TestObject, act: (limiter: previous.Limiter) => void): Promise<void> {
    await object.evict();
    act(
      new previous.Limiter({
        storage: object.storage,
        isolate: new previous.IsolateBudget(previous.isolateBudgetBytes),
        now: () => object.nowMs,
        after: () => () => undefined,
      }),
    );
    object.crash();
  }
  const reserving = { ...confirmed(tree("a", 5)), id: "r", ttlMs: 60_000 };

  it("the previous version reads the rows of a tree, and settles the part of a reservation that is the root's", async () => {
    const object = new TestObject();
    const events = await eventsOf(async () => {
      object.limiter.reserveTree(reserving);
      await withPrevious(object, (limiter) => {
        const left = tree("a").map(({ key = "k", ...each }) => limiter.look(call(each, key)).decisions[0]?.limits[0]);
        expect(left).toMatchObject([{ remaining: 99_995 }, { remaining: 99_995 }, { remaining: 99_995 }]);
        expect(limiter.settle({ key: "k", id: "r", cost: 2 })).toEqual({ settled: true });
      });
    });
    expect([events, usedBy(object, tree("a"))]).toEqual(["", [2, 5, 5]]);
    expect(object.limiter.settle({ key: "k", id: "r", cost: 0 })).toEqual({ settled: false });
  });

  it("the previous version reads the reservation of a root that is not charged itself", async () => {
    const object = new TestObject();
    const [, ...others] = tree("a", 5);
    const events = await eventsOf(async () => {
      object.limiter.reserveTree({ ...reserving, charges: others });
      await withPrevious(object, (limiter) => {
        expect(limiter.renew({ key: "k", id: "r" })).toEqual({ isOpen: true });
        limiter.check(confirmed(daily(1, "org")));
      });
    });
    expect([events, usedBy(object, tree("a"))]).toEqual(["", [1, 5, 5]]);
  });

  it("a reservation of a tree can be settled after the previous version has written the row of another level", async () => {
    const object = new TestObject();
    object.limiter.reserveTree(reserving);
    await withPrevious(object, (limiter) => void limiter.check(confirmed(daily(1, "user"), "k 1 a")));
    expect(object.limiter.settle({ key: "k", id: "r", cost: 2 })).toEqual({ settled: true });
    expect(usedBy(object, tree("a"))).toEqual([2, 2, 3]);
  });

  it("a reservation that the previous version has opened is settled by this version", async () => {
    const object = new TestObject();
    await withPrevious(object, (limiter) => void limiter.reserve({ ...reserving, charges: [daily(5, "org")] }));
    expect(object.limiter.settle({ key: "k", id: "r", cost: 1 })).toEqual({ settled: true });
    expect(usedBy(object, [daily(1, "org")])).toEqual([1]);
  });
});
