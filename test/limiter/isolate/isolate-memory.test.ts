/**
 * The memory of an isolate: cached denials, failures, local meters, and when the isolate calls a failed object again.
 */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { CheckCall } from "../../../src/limiter/protocol.ts";
import type { Spend } from "../../../src/limiter/isolate/outcome.ts";
import { type Call, settled, spendOf, TestIsolate, scopeOf } from "../../fakes/isolate.ts";

/** Silences the log of failed calls. */
beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const lost = (): Promise<never> => Promise.reject(new Error("Network connection lost."));
const overloaded = (): Promise<never> =>
  Promise.reject(Object.assign(new Error("Too many requests queued."), { overloaded: true }));

describe("an isolate whose clock steps back", () => {
  it("after the clock steps back, a cached denial is not used", async () => {
    const isolate = new TestIsolate();
    const spend = spendOf({ limits: "1/minute" });
    await isolate.admit(spend);
    await isolate.admit(spend);
    await isolate.admit(spend);
    expect(isolate.callNames()).toEqual(["check", "check"]);
    isolate.clock.nowMs -= 1;
    await isolate.admit(spend);
    expect(isolate.callNames()).toEqual(["check"]);
  });

  it("after the clock steps back, a borrowed slice is returned, and the isolate no longer spends from it", async () => {
    const isolate = new TestIsolate();
    const spend = spendOf({ limits: "1000/minute", consistency: "leased" });
    for (let request = 0; request < 12; request++) {
      // oxlint-disable-next-line no-await-in-loop
      await isolate.admit(spend);
    }
    isolate.calls.length = 0;
    await isolate.admit(spend);
    expect(isolate.callNames()).toEqual([]);
    isolate.clock.nowMs -= 1;
    await isolate.admit(spend);
    const returned = { used: expect.any(Number) };
    expect(isolate.calls).toMatchObject([
      {
        name: "lease",
        argument: { returned: expect.arrayContaining([expect.objectContaining(returned)]) },
      },
    ]);
  });

  it("after the clock steps back, an object that has just failed is called again", async () => {
    const isolate = new TestIsolate();
    const spend = spendOf({ onError: "open" });
    isolate.before = lost;
    expect(await isolate.outcomes(spend)).toEqual(["open"]);
    isolate.before = () => Promise.resolve();
    expect(await isolate.outcomes(spend)).toEqual(["open"]);
    expect(isolate.callNames()).toEqual(["check"]);
    isolate.clock.nowMs -= 1;
    expect(await isolate.outcomes(spend)).toEqual([true]);
  });
});

describe("a dry run on the key of an enforced policy", () => {
  const enforced = spendOf({ name: "enforced", timeout: "900ms", onError: "closed" });
  const dryRun = spendOf({
    name: "dry",
    dryRun: true,
    durability: "confirmed",
    timeout: "20ms",
  });
  const durabilities = (isolate: TestIsolate): unknown[] =>
    isolate.calls.map(({ argument }) => (argument as CheckCall).durability);

  it("a dry run does not make an enforced policy on its key wait for a confirmed write", async () => {
    const isolate = new TestIsolate();
    await isolate.admit(enforced, dryRun);
    expect(durabilities(isolate)).toEqual(["relaxed"]);
    await isolate.admit({ ...dryRun, partitionKey: "alone" });
    expect(durabilities(isolate)).toEqual(["relaxed", "confirmed"]);
  });

  it("a dry run does not shorten the timeout of an enforced policy on its key", async () => {
    const isolate = new TestIsolate();
    isolate.before = () => new Promise((resolve) => void isolate.clock.after(800, () => resolve(1)));
    const outcomes = isolate.outcomes(enforced, dryRun);
    await isolate.clock.pass(800);
    expect(await outcomes).toEqual([true, true]);
  });

  it("a dry run that is the only policy on its key has its own timeout", async () => {
    const isolate = new TestIsolate();
    isolate.before = () => new Promise(() => undefined);
    const alone = { ...dryRun, policy: { ...dryRun.policy, onError: "open" as const } };
    const look = isolate.client.look(alone, scopeOf());
    await isolate.clock.pass(20);
    expect((await look).kind).toBe("open");
  });
});

describe("a settlement that an object does not confirm", () => {
  /** How often one reservation's settle call is sent when each call fails in this way. */
  async function settleCalls(failure: (call: Call) => Promise<unknown>): Promise<number> {
    const isolate = new TestIsolate();
    const admission = await isolate.admit({ ...spendOf(), ttlMs: 60_000 });
    isolate.before = failure;
    isolate.calls.length = 0;
    const settling = admission.settle(() => 0);
    await isolate.clock.pass(5_000);
    await settling;
    return isolate.calls.filter(({ name }) => name === "settle").length;
  }

  it("a settlement is repeated once after a lost connection", async () => {
    expect(await settleCalls(lost)).toBe(2);
  });

  it("a settlement is not repeated when the object is overloaded", async () => {
    expect(await settleCalls(overloaded)).toBe(1);
  });

  it("a settlement is not repeated when the call is still running at its deadline", async () => {
    expect(await settleCalls(() => new Promise(() => undefined))).toBe(1);
  });
});

describe("a cached denial", () => {
  it("a refund on a key removes its cached denials", async () => {
    const isolate = new TestIsolate();
    const shared = spendOf({ name: "shared", limits: "1/minute" }, 1, "shared");
    const own = spendOf({ name: "own", limits: "1/minute" }, 1, "own");
    await isolate.admit(own);
    const { promise: isReleased, resolve: release } = Promise.withResolvers<void>();
    isolate.before = ({ object }) => (object === "own" ? isReleased : Promise.resolve());
    // The first object admits. The second denies, after a delay.
    const denied = isolate.outcomes(shared, { ...own, cost: 2 });
    await settled();
    expect(await isolate.outcomes(shared)).toEqual([false]);
    release();
    expect(await denied).toEqual([true, false]);
    await isolate.afterAnswers();
    expect(await isolate.outcomes(shared)).toEqual([true]);
  });
});

describe("an object that has failed", () => {
  it("a failed object is called for decisions again after exactly one second", async () => {
    const isolate = new TestIsolate();
    const spend = spendOf({ onError: "open" });
    isolate.before = lost;
    await isolate.admit(spend);
    isolate.before = () => Promise.resolve();
    await isolate.clock.pass(999);
    expect(await isolate.outcomes(spend)).toEqual(["open"]);
    await isolate.clock.pass(1);
    expect(await isolate.outcomes(spend)).toEqual([true]);
    expect(isolate.callNames()).toEqual(["check", "check"]);
  });

  it("an object's failure does not affect other objects, and any answer of the object ends the pause in its calls", async () => {
    const isolate = new TestIsolate();
    const spend = spendOf({ onError: "open", limits: "9/minute" });
    isolate.before = ({ object }) => (object === "k" ? lost() : Promise.resolve());
    await isolate.admit(spend);
    expect(await isolate.outcomes({ ...spend, partitionKey: "other" })).toEqual([true]);
    isolate.before = () => Promise.resolve();
    // A deletion is no decision, so it is sent during the pause. Its answer ends the pause.
    await isolate.client.forget(spend.policy, "k");
    expect(await isolate.outcomes(spend)).toEqual([true]);
  });
});

describe("the isolate's own meters", () => {
  it("local meters count what objects admitted through the isolate, less refunds", async () => {
    const isolate = new TestIsolate();
    const spend = spendOf({ limits: "5/minute" });
    const denied = spendOf({ name: "denied", limits: "1/minute" }, 2, "other");
    await isolate.admit(spend);
    await isolate.admit(spend);
    await isolate.admit(spend, denied);
    await isolate.afterAnswers();
    isolate.before = lost;
    const { outcomes } = await isolate.admit(spend);
    expect(outcomes).toMatchObject([{ kind: "local", decision: { limits: [{ remaining: 2 }] } }]);
  });

  it("deleting a key for one policy resets only that policy's local meter", async () => {
    const isolate = new TestIsolate();
    isolate.before = lost;
    const [one, two] = [spendOf({ limits: "1/minute" }), spendOf({ name: "q", limits: "1/minute" })];
    await isolate.admit(one, two);
    await isolate.client.forget(one.policy, "k");
    expect([await isolate.outcomes(one), await isolate.outcomes(two)]).toEqual([[true], [false]]);
  });

  it("a settlement corrects the spend in the local meter", async () => {
    const isolate = new TestIsolate();
    isolate.before = lost;
    const spend = { ...spendOf({ limits: "5/minute" }, 3), ttlMs: 60_000 };
    const admission = await isolate.admit(spend);
    await admission.settle(() => 1);
    const { outcomes } = await isolate.admit(spend);
    expect(outcomes).toMatchObject([{ decision: { allowed: true, limits: [{ remaining: 1 }] } }]);
  });

  it("local meters do not affect policies with onError = open or closed", async () => {
    const isolate = new TestIsolate();
    isolate.before = lost;
    for (const onError of ["open", "closed"]) {
      const spend = spendOf({ name: onError, limits: "1/minute", onError });
      // oxlint-disable-next-line no-await-in-loop
      expect([await isolate.outcomes(spend), await isolate.outcomes(spend)]).toEqual([[onError], [onError]]);
    }
  });
});

describe("objects of several keys", () => {
  it("objects are called in the order of the policies, each after the previous one has admitted", async () => {
    const isolate = new TestIsolate();
    const spends = ["a", "b", "c"].map((key) => spendOf({ name: key, limits: "1/minute" }, 1, key));
    await isolate.admit(...spends.slice(1, 2));
    isolate.calls.length = 0;
    expect(await isolate.outcomes(...spends)).toEqual([true, false]);
    await isolate.afterAnswers();
    expect(isolate.calls.filter(({ name }) => name === "check").map(({ object }) => object)).toEqual(["a", "b"]);
    const { outcomes } = await isolate.admit(spends[0] ?? spendOf());
    expect(outcomes).toMatchObject([{ decision: { allowed: true } }]);
  });

  it("when a later object fails under onError = closed, the spends in earlier objects are refunded", async () => {
    const isolate = new TestIsolate();
    const [first, closed] = [
      spendOf({ name: "a", limits: "1/minute" }, 1, "a"),
      spendOf({ name: "b", limits: "1/minute", onError: "closed" }, 1, "b"),
    ];
    isolate.before = ({ object }) => (object === "b" ? lost() : Promise.resolve());
    expect(await isolate.outcomes(first, closed)).toEqual([true, "closed"]);
    await isolate.afterAnswers();
    expect(await isolate.outcomes(first)).toEqual([true]);
  });

  it("objects of dry runs are called in the background and deny nothing", async () => {
    const isolate = new TestIsolate();
    const dryRun = spendOf({ name: "dry", limits: "1/minute", dryRun: true }, 2, "dry");
    const enforced = spendOf({ name: "a" }, 1, "a");
    const warnings = vi.spyOn(console, "warn").mockReturnValue(undefined);
    const { outcomes, isRefused } = await isolate.admit(dryRun, enforced);
    expect([outcomes.length, isRefused]).toEqual([1, false]);
    await isolate.afterAnswers();
    expect(isolate.calls.map(({ object }) => object)).toEqual(["a", "dry"]);
    expect(warnings.mock.calls.join()).toContain("dry-run-denied");
  });
});

describe("a reservation", () => {
  const reserved = (fields: object = {}, cost = 1): Spend => ({
    ...spendOf({ limits: "2000/minute", ...fields }, cost),
    ttlMs: 10_000,
  });

  it("settling or refunding a reservation also corrects the isolate's own meters", async () => {
    for (const [end, left] of [
      ["settle", 1_998],
      ["giveBack", 1_999],
    ] as const) {
      const isolate = new TestIsolate();
      // oxlint-disable no-await-in-loop
      const admission = await isolate.admit(reserved({}, 5));
      await (end === "settle" ? admission.settle(() => 1) : admission.giveBack());
      isolate.before = lost;
      const { outcomes } = await isolate.admit(spendOf({ limits: "2000/minute" }));
      expect(outcomes).toMatchObject([{ kind: "local", decision: { limits: [{ remaining: left }] } }]);
      // oxlint-enable no-await-in-loop
    }
  });

  it("a settlement sends one cost for each policy, and also the highest cost, which older objects read", async () => {
    const isolate = new TestIsolate();
    const admission = await isolate.admit(reserved({}, 5), reserved({ name: "q" }, 5));
    await admission.settle(({ policy }) => (policy.name === "q" ? 3 : 1));
    expect(isolate.calls.at(-1)).toMatchObject({
      name: "settle",
      argument: { cost: 3, costs: [1, 3] },
    });
  });

  it("a renewed reservation stays open for another ttl", async () => {
    const isolate = new TestIsolate();
    const admission = await isolate.admit(reserved({}, 5));
    await isolate.clock.pass(8_000);
    await admission.renew();
    await isolate.clock.pass(8_000);
    await admission.settle(() => 0);
    const { outcomes } = await isolate.admit(reserved());
    expect(outcomes).toMatchObject([{ decision: { limits: [{ remaining: 1_999 }] } }]);
  });

  it("a key with 1,000 open reservations is refused a further one, with the wait until a reservation expires", async () => {
    const isolate = new TestIsolate();
    // oxlint-disable-next-line no-await-in-loop
    for (let open = 0; open < 1_000; open++) await isolate.admit(reserved());
    await isolate.clock.pass(4_000);
    expect(await isolate.admit(reserved())).toMatchObject({ isRefused: true, fullForMs: 6_000 });
    await isolate.clock.pass(6_000);
    expect(await isolate.admit(reserved())).toMatchObject({ isRefused: false, fullForMs: 0 });
  });

  it("when a dry run has no room for its reservation, the enforced policy still decides", async () => {
    const isolate = new TestIsolate();
    const dryRun = reserved({ name: "dry", dryRun: true });
    const enforced = spendOf({ limits: "2000/minute" });
    // oxlint-disable-next-line no-await-in-loop
    for (let open = 0; open < 1_000; open++) await isolate.admit(enforced, dryRun);
    expect(await isolate.outcomes(enforced, dryRun)).toEqual([true]);
    const { outcomes } = await isolate.admit(enforced);
    expect(outcomes).toMatchObject([{ decision: { limits: [{ remaining: 998 }] } }]);
  });
});

describe("an allowed check of a batch", () => {
  it("an allowed check of a batch removes the cached denials of its key", async () => {
    const isolate = new TestIsolate();
    const [two, one] = [spendOf({ limits: "2/minute" }, 3), spendOf({ limits: "2/minute" })];
    const each = async (spend: Spend): Promise<unknown> => {
      const [result] = await isolate.client.admitEach([[spend]], scopeOf());
      const [outcome] = result?.outcomes ?? [];
      return outcome?.decision?.limits[0]?.remaining;
    };
    expect([await each(two), await each(two)]).toEqual([2, 2]);
    expect(isolate.callNames()).toEqual(["check"]);
    expect([await each(one), await each(two)]).toEqual([1, 1]);
    expect(isolate.callNames()).toEqual(["check", "check"]);
  });
});
