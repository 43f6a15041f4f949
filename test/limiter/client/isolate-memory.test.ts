/** What an isolate keeps in memory: when it asks the object again, and when it does not. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { CheckCall } from "../../../src/limiter/protocol.ts";
import type { Spend } from "../../../src/limiter/client/outcome.ts";
import { type Call, settled, spendOf, startMs, TestIsolate } from "../../fakes/isolate.ts";

/** Calls that fail report it. */
beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const lost = (): Promise<never> => Promise.reject(new Error("Network connection lost."));
const overloaded = (): Promise<never> =>
  Promise.reject(Object.assign(new Error("Too many requests queued."), { overloaded: true }));

describe("an isolate whose clock steps back", () => {
  it("asks the object again about a denial that it had remembered", async () => {
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

  it("spends no more from a slice that it had borrowed, and returns it", async () => {
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

  it("asks an object again that had just failed", async () => {
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

  it("does not make the enforced policy wait for a confirmed write", async () => {
    const isolate = new TestIsolate();
    await isolate.admit(enforced, dryRun);
    expect(durabilities(isolate)).toEqual(["relaxed"]);
    await isolate.admit({ ...dryRun, partitionKey: "alone" });
    expect(durabilities(isolate)).toEqual(["relaxed", "confirmed"]);
  });

  it("does not shorten the time that the enforced policy waits for the object", async () => {
    const isolate = new TestIsolate();
    isolate.before = () =>
      new Promise((resolve) => void isolate.clock.after(800, () => resolve(1)));
    const outcomes = isolate.outcomes(enforced, dryRun);
    await isolate.clock.pass(800);
    expect(await outcomes).toEqual([true, true]);
  });

  it("alone on its key is given up at its own timeout", async () => {
    const isolate = new TestIsolate();
    isolate.before = () => new Promise(() => undefined);
    const alone = { ...dryRun, policy: { ...dryRun.policy, onError: "open" as const } };
    const look = isolate.client.look(alone);
    await isolate.clock.pass(20);
    expect((await look).kind).toBe("open");
  });
});

describe("a settlement that an object does not confirm", () => {
  /** How many calls it takes to settle a reservation while the object answers so. */
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

  it("is tried once more where the connection was lost", async () => {
    expect(await settleCalls(lost)).toBe(2);
  });

  it("is not sent again to an object that is overloaded", async () => {
    expect(await settleCalls(overloaded)).toBe(1);
  });

  it("is not sent again to an object that is still busy with it", async () => {
    expect(await settleCalls(() => new Promise(() => undefined))).toBe(1);
  });
});

describe("a denial that an isolate remembers", () => {
  it("is forgotten when what was spent on the key is given back", async () => {
    const isolate = new TestIsolate();
    const shared = spendOf({ name: "shared", limits: "1/minute" }, 1, "shared");
    const own = spendOf({ name: "own", limits: "1/minute" }, 1, "own");
    await isolate.admit(own);
    const { promise: isLetGo, resolve: letGo } = Promise.withResolvers<void>();
    isolate.before = ({ object }) => (object === "own" ? isLetGo : Promise.resolve());
    // The first object admits; the second takes its time, and denies.
    const denied = isolate.outcomes(shared, { ...own, cost: 2 });
    await settled();
    expect(await isolate.outcomes(shared)).toEqual([false]);
    letGo();
    expect(await denied).toEqual([true, false]);
    await isolate.afterAnswers();
    expect(await isolate.outcomes(shared)).toEqual([true]);
  });
});

describe("an isolate that decides by itself because the object does not answer", () => {
  it("restarts an elastic window at each denial", async () => {
    const isolate = new TestIsolate();
    isolate.before = lost;
    const elastic = { limit: 2, window: "1m", strategy: "fixed-window", elastic: true };
    const spend = spendOf({ limits: [elastic] });
    expect(await isolate.outcomes(spend)).toEqual([true]);
    expect(await isolate.outcomes(spend)).toEqual([true]);
    await isolate.clock.pass(30_000);
    expect(await isolate.outcomes(spend)).toEqual([false]);
    await isolate.clock.pass(59_999);
    const { outcomes } = await isolate.admit(spend);
    expect(outcomes).toMatchObject([{ decision: { allowed: false, retryAfterMs: 60_000 } }]);
    await isolate.clock.pass(60_000);
    expect(isolate.clock.nowMs).toBe(startMs + 149_999);
    expect(await isolate.outcomes(spend)).toEqual([true]);
  });
});

describe("an object that has failed", () => {
  it("is not asked for decisions for a second, and is asked again at its end", async () => {
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

  it("does not keep the isolate from asking another, and is asked at once after an answer", async () => {
    const isolate = new TestIsolate();
    const spend = spendOf({ onError: "open", limits: "9/minute" });
    isolate.before = ({ object }) => (object === "k" ? lost() : Promise.resolve());
    await isolate.admit(spend);
    expect(await isolate.outcomes({ ...spend, partitionKey: "other" })).toEqual([true]);
    isolate.before = () => Promise.resolve();
    // What is no decision is asked for nevertheless, and its answer ends the pause.
    await isolate.client.forget(spend.policy, "k");
    expect(await isolate.outcomes(spend)).toEqual([true]);
  });
});

describe("the isolate's own count", () => {
  it("begins with what objects admitted through it, and with what was given back", async () => {
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

  it("spends nothing for a request that one of its policies denies", async () => {
    const isolate = new TestIsolate();
    isolate.before = lost;
    const [wide, narrow] = [
      spendOf({ limits: "5/minute" }),
      spendOf({ name: "q", limits: "1/minute" }),
    ];
    expect(await isolate.outcomes(wide, narrow)).toEqual([true, true]);
    expect(await isolate.outcomes(wide, narrow)).toEqual([true, false]);
    const { outcomes } = await isolate.admit(wide);
    expect(outcomes).toMatchObject([{ decision: { limits: [{ remaining: 3 }] } }]);
  });

  it("is forgotten with the key, for that policy alone", async () => {
    const isolate = new TestIsolate();
    isolate.before = lost;
    const [one, two] = [
      spendOf({ limits: "1/minute" }),
      spendOf({ name: "q", limits: "1/minute" }),
    ];
    await isolate.admit(one, two);
    await isolate.client.forget(one.policy, "k");
    expect([await isolate.outcomes(one), await isolate.outcomes(two)]).toEqual([[true], [false]]);
  });

  it("is corrected by what is settled", async () => {
    const isolate = new TestIsolate();
    isolate.before = lost;
    const spend = { ...spendOf({ limits: "5/minute" }, 3), ttlMs: 60_000 };
    const admission = await isolate.admit(spend);
    await admission.settle(() => 1);
    const { outcomes } = await isolate.admit(spend);
    expect(outcomes).toMatchObject([{ decision: { allowed: true, limits: [{ remaining: 1 }] } }]);
  });

  it("has no part in what a policy decides that is open or closed", async () => {
    const isolate = new TestIsolate();
    isolate.before = lost;
    for (const onError of ["open", "closed"]) {
      const spend = spendOf({ name: onError, limits: "1/minute", onError });
      // oxlint-disable-next-line no-await-in-loop
      expect([await isolate.outcomes(spend), await isolate.outcomes(spend)]).toEqual([
        [onError],
        [onError],
      ]);
    }
  });
});

describe("objects of several keys", () => {
  it("are asked in the order of their policies, each only after the one before admits", async () => {
    const isolate = new TestIsolate();
    const spends = ["a", "b", "c"].map((key) => spendOf({ name: key, limits: "1/minute" }, 1, key));
    await isolate.admit(...spends.slice(1, 2));
    isolate.calls.length = 0;
    expect(await isolate.outcomes(...spends)).toEqual([true, false]);
    await isolate.afterAnswers();
    expect(
      isolate.calls.filter(({ name }) => name === "check").map(({ object }) => object),
    ).toEqual(["a", "b"]);
    const { outcomes } = await isolate.admit(spends[0] ?? spendOf());
    expect(outcomes).toMatchObject([{ decision: { allowed: true } }]);
  });

  it("are given back what they spent where a later one has no answer and is closed", async () => {
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

  it("of dry runs are asked after the answer, and deny nothing", async () => {
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

describe("a spend that is settled later", () => {
  const reserved = (fields: object = {}, cost = 1): Spend => ({
    ...spendOf({ limits: "2000/minute", ...fields }, cost),
    ttlMs: 10_000,
  });

  it("is corrected in the isolate's own count too", async () => {
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
      expect(outcomes).toMatchObject([
        { kind: "local", decision: { limits: [{ remaining: left }] } },
      ]);
      // oxlint-enable no-await-in-loop
    }
  });

  it("has a cost for each policy, and the greatest for objects that know but one", async () => {
    const isolate = new TestIsolate();
    const admission = await isolate.admit(reserved({}, 5), reserved({ name: "q" }, 5));
    await admission.settle(({ policy }) => (policy.name === "q" ? 3 : 1));
    expect(isolate.calls.at(-1)).toMatchObject({
      name: "settle",
      argument: { cost: 3, costs: [1, 3] },
    });
  });

  it("stays open for as long as it is renewed", async () => {
    const isolate = new TestIsolate();
    const admission = await isolate.admit(reserved({}, 5));
    await isolate.clock.pass(8_000);
    await admission.renew();
    await isolate.clock.pass(8_000);
    await admission.settle(() => 0);
    const { outcomes } = await isolate.admit(reserved());
    expect(outcomes).toMatchObject([{ decision: { limits: [{ remaining: 1_999 }] } }]);
  });

  it("is refused where a key has a thousand of them, and says for how long", async () => {
    const isolate = new TestIsolate();
    // oxlint-disable-next-line no-await-in-loop
    for (let open = 0; open < 1_000; open++) await isolate.admit(reserved());
    await isolate.clock.pass(4_000);
    expect(await isolate.admit(reserved())).toMatchObject({ isRefused: true, fullForMs: 6_000 });
    await isolate.clock.pass(6_000);
    expect(await isolate.admit(reserved())).toMatchObject({ isRefused: false, fullForMs: 0 });
  });

  it("of a dry run is left out where there is no room, and the enforced policy still decides", async () => {
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

describe("a check of a batch that is allowed", () => {
  it("ends what the isolate remembers of denials on its key", async () => {
    const isolate = new TestIsolate();
    const [two, one] = [spendOf({ limits: "2/minute" }, 3), spendOf({ limits: "2/minute" })];
    const each = async (spend: Spend): Promise<unknown> => {
      const [outcome] = await isolate.client.admitEach([spend], () => undefined);
      return (
        outcome !== undefined && "decision" in outcome && outcome.decision.limits[0]?.remaining
      );
    };
    expect([await each(two), await each(two)]).toEqual([2, 2]);
    expect(isolate.callNames()).toEqual(["batch"]);
    expect([await each(one), await each(two)]).toEqual([1, 1]);
    expect(isolate.callNames()).toEqual(["batch", "batch"]);
  });
});
