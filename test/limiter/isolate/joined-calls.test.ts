/** Checks that wait for the same object at the same time share a call. */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { Policy } from "../../../src/policy/policy.ts";
import { LimiterClient } from "../../../src/limiter/isolate/client.ts";
import type { Outcome, Spend } from "../../../src/limiter/isolate/outcome.ts";
import type { BatchCall } from "../../fakes/flat-calls.ts";
import type { CheckCall } from "../../../src/limiter/protocol.ts";
import { requireRules, RulesKeeper, under } from "../../fakes/newer-rules.ts";
import { type Call, policyOf, settled, spendOf, TestIsolate, scopeOf } from "../../fakes/isolate.ts";
import { forAll } from "../../for-all.ts";

/** The lines that were logged. */
let lines: string[];
beforeEach(() => {
  lines = [];
  vi.spyOn(console, "error").mockImplementation((line: string) => void lines.push(line));
  vi.spyOn(console, "warn").mockReturnValue(undefined);
});
afterEach(() => void vi.restoreAllMocks());

const checksOf = ({ name, argument }: Call): readonly CheckCall[] =>
  name === "batch" ? (argument as BatchCall).calls : [argument as CheckCall];

const costsOf = (call: Call): number[] => checksOf(call).map(({ charges }) => charges[0]?.cost ?? 0);

const decisionCalls = ({ calls }: TestIsolate): Call[] =>
  calls.filter(({ name }) => name === "check" || name === "batch");

/** The result of each request, in the order of the requests. */
const resultsOf = async (requests: readonly ReturnType<TestIsolate["admit"]>[]): Promise<unknown[]> => {
  const admissions = await Promise.all(requests);
  return admissions.map(({ outcomes }) => outcomes.map(resultOf)).flat();
};

const resultOf = (outcome: Outcome): unknown =>
  outcome.decision !== null && outcome.kind === "decided" ? outcome.decision.allowed : outcome.kind;

/** Delays each decision by a round trip. */
function distant(roundTripMs: number): TestIsolate {
  const isolate = new TestIsolate();
  isolate.before = () => new Promise<void>((resolve) => void isolate.clock.after(roundTripMs, resolve));
  return isolate;
}

/** An isolate with one call in flight. The object replies when `answer` is called. */
function busy(spend: Spend): { isolate: TestIsolate; answer: () => void; first: unknown } {
  const isolate = new TestIsolate();
  const { promise, resolve } = Promise.withResolvers<void>();
  isolate.before = () => promise;
  const first = isolate.admit(spend);
  isolate.before = () => Promise.resolve();
  return { isolate, answer: resolve, first };
}

const spend = spendOf({ limits: "5/minute" });

describe("checks that arrive while a call is under way", () => {
  it("checks that arrive while a call is in flight share the next call, and are decided in the order of arrival", async () => {
    const { isolate, answer } = busy(spend);
    const requests = [1, 2, 3, 1, 1].map((cost) => isolate.admit({ ...spend, cost }));
    answer();
    expect(await resultsOf(requests)).toEqual([true, true, false, true, false]);
    expect(isolate.calls.map(costsOf)).toEqual([[1], [1, 2, 3, 1, 1]]);
  });

  it("a check is sent at once and alone when no call is in flight", async () => {
    const isolate = distant(3);
    for (let request = 0; request < 3; request++) {
      const admitting = isolate.admit(spend);
      expect(isolate.calls).toHaveLength(request + 1);
      // oxlint-disable-next-line no-await-in-loop
      await isolate.clock.pass(3);
      // oxlint-disable-next-line no-await-in-loop
      await admitting;
    }
    expect(isolate.calls.map(costsOf)).toEqual([[1], [1], [1]]);
  });

  it("a call has at most 100 checks, and further checks are sent by the next calls", async () => {
    const { isolate, answer } = busy(spend);
    const requests = Array.from({ length: 250 }, () => isolate.admit(spend));
    answer();
    await isolate.clock.pass(10);
    await Promise.all(requests);
    expect(decisionCalls(isolate).map((call) => checksOf(call).length)).toEqual([1, 100, 100, 50]);
  });

  it("a call has at most a megabyte of texts, in which the text of equal policies counts once", async () => {
    const ruled = (version: number, text: string): Spend => ({
      ...spend,
      policy: { ...spend.policy, rules: { epoch: 1, version, text } },
    });
    const { isolate, answer } = busy(spend);
    const long = "x".repeat(300_000);
    const same = ruled(1, long);
    const requests = [same, same, same, ...[2, 3, 4].map((version) => ruled(version, long))];
    const admitting = requests.map((each) => isolate.admit(each));
    answer();
    await isolate.clock.pass(10);
    await Promise.all(admitting);
    expect(decisionCalls(isolate).map((call) => checksOf(call).length)).toEqual([1, 5, 1]);
  });

  it("relaxed checks do not wait for a call with confirmed checks", async () => {
    const { isolate } = busy(spendOf({ limits: "5/minute", durability: "confirmed" }));
    expect(await isolate.outcomes(spend)).toEqual([true]);
    const durabilities = isolate.calls.flatMap(checksOf).map(({ durability }) => durability);
    expect(durabilities).toEqual(["confirmed", "relaxed"]);
  });

  it("a check does not wait for calls to other objects", async () => {
    const { isolate } = busy(spend);
    expect(await isolate.outcomes({ ...spend, partitionKey: "l" })).toEqual([true]);
  });

  it.for([
    ["with joinsChecks = false", undefined, false],
    ["where the platform does not continue a request in its own context", false, undefined],
  ] as const)("a limiter client sends each check at once %s", async ([, flag, joinsChecks]) => {
    vi.stubGlobal("Cloudflare", {
      compatibilityFlags: { handle_cross_request_promise_resolution: flag },
    });
    onTestFinished(() => void vi.unstubAllGlobals());
    const isolate = new TestIsolate();
    isolate.before = () => new Promise(() => undefined);
    const options = joinsChecks === undefined ? {} : { joinsChecks };
    const client = new LimiterClient(isolate.namespace(), isolate.clock, null, options);
    for (let request = 0; request < 3; request++) void client.admit([spend], scopeOf());
    expect(isolate.calls.map(costsOf)).toEqual([[1], [1], [1]]);
  });

  const policies: readonly Policy[] = [
    policyOf({ name: "a", limits: "3/minute" }),
    policyOf({ name: "b", limits: ["4/hour", "3/minute"], strategy: "sliding-log" }),
    policyOf({ name: "c", limits: "2/minute", ban: { after: 2, within: "1m", for: "1h" } }),
    policyOf({ name: "d", limits: "1/minute", dryRun: true }),
    policyOf({ name: "e", limits: "2/minute", strategy: "concurrency" }),
    policyOf({ name: "f", limits: "2/minute", durability: "confirmed" }),
  ];

  it(
    "joined checks have the same outcomes as separate checks, with bans, dry runs and several policies",
    forAll(
      [
        fc.array(
          fc.record({
            policies: fc.uniqueArray(fc.constantFrom(...policies.slice(0, 5)), {
              minLength: 1,
              maxLength: 3,
            }),
            key: fc.constantFrom("k", "l"),
            cost: fc.integer({ min: 0, max: 3 }),
          }),
          { maxLength: 15 },
        ),
      ],
      async (drawn) => {
        const objects = { objects: "sharded", shards: 1 };
        const settings = policyOf(objects).objects;
        const requests = drawn.map(({ policies: several, key, cost }) =>
          several.map((policy) => ({
            policy: { ...policy, objects: settings, isDenyCached: false },
            partitionKey: key,
            cost,
          })),
        );
        const outcomesOf = async (joinsChecks: boolean): Promise<unknown[]> => {
          const isolate = new TestIsolate();
          const options = { joinsChecks };
          const client = new LimiterClient(isolate.namespace(), isolate.clock, null, options);
          const admitting = requests.map(async (each) => client.admit(each, scopeOf()));
          await settled();
          const admissions = await Promise.all(admitting);
          return admissions.map(({ outcomes }) => outcomes);
        };
        expect(await outcomesOf(true)).toEqual(await outcomesOf(false));
      },
    ),
  );
});

describe("a call that is not answered", () => {
  it("a check waits 5 ms for a call that hangs, and is then sent", async () => {
    const { isolate } = busy(spend);
    const request = isolate.admit(spend);
    await isolate.clock.pass(4);
    expect(isolate.calls).toHaveLength(1);
    await isolate.clock.pass(1);
    expect(await resultsOf([request])).toEqual([true]);
    // The hanging call no longer counts as in flight.
    expect(await isolate.outcomes(spend)).toEqual([true]);
    expect(isolate.calls).toHaveLength(3);
  });

  it("with an object 150 ms away, no request waits more than 1.25 round trips, and checks share calls", async () => {
    const isolate = distant(150);
    const many = spendOf({ limits: "1000/minute" });
    await Promise.all([isolate.admit(many), isolate.clock.pass(150)]);
    isolate.calls.length = 0;
    const waits: Promise<number>[] = [];
    for (let request = 0; request < 400; request++) {
      const sentAtMs = isolate.clock.nowMs;
      waits.push(Promise.resolve(isolate.admit(many)).then(() => isolate.clock.nowMs - sentAtMs));
      // oxlint-disable-next-line no-await-in-loop
      await isolate.clock.pass(2);
    }
    await isolate.clock.pass(200);
    expect(Math.max(...(await Promise.all(waits)))).toBeLessThanOrEqual(150 + 38 + 2);
    // At most one call is sent every 38 ms, for 800 ms.
    expect(isolate.calls.length).toBeLessThanOrEqual(1 + Math.ceil(800 / 38));
    expect(lines).toEqual([]);
  });

  it("a check whose deadline passes while it waits is never sent, and does not count as a failure of the object", async () => {
    const isolate = distant(150);
    await Promise.all([isolate.admit(spend), isolate.clock.pass(150)]);
    const first = isolate.admit(spend);
    const hasty = spendOf({ name: "hasty", onError: "closed", timeout: "20ms" });
    const waiting = isolate.admit(hasty);
    await isolate.clock.pass(20);
    expect(await resultsOf([waiting])).toEqual(["closed"]);
    expect(lines).toEqual([
      JSON.stringify({
        event: "object-silent",
        call: "check",
        policies: ["hasty"],
        error: "not sent: earlier checks were under way for 20 ms",
      }),
    ]);
    const next = isolate.admit(spend);
    await isolate.clock.pass(300);
    expect(await resultsOf([first, next])).toEqual([true, true]);
    expect(isolate.calls.flatMap(checksOf).map(({ charges }) => charges[0]?.policy)).toEqual(["p", "p", "p"]);
  });

  it("a request that sends the checks of other requests stays alive until the call is answered", async () => {
    const many = spendOf({ limits: "1000/minute" });
    const { isolate } = busy(many);
    const others = Promise.withResolvers<void>();
    isolate.before = () => others.promise;
    const full = Array.from({ length: 100 }, () => isolate.admit(many));
    // After the clock steps back, the call no longer counts as in flight, so the next request sends the waiting checks.
    isolate.clock.nowMs -= 1;
    const work: Promise<unknown>[] = [];
    const sender = isolate.client.admit(
      [many],
      scopeOf((each) => void work.push(each)),
    );
    expect(isolate.calls.map((call) => checksOf(call).length)).toEqual([1, 100]);
    isolate.before = () => Promise.resolve();
    await isolate.clock.pass(5);
    expect((await sender).isRefused).toBe(false);
    let isOver = false;
    const over = Promise.all(work).then(() => (isOver = true));
    await settled();
    expect(isOver).toBe(false);
    others.resolve();
    await over;
    expect(await resultsOf(full)).toEqual(full.map(() => true));
  });

  it("under onError = closed, a joined check is refunded when its answer comes after its deadline", async () => {
    const isolate = distant(12);
    void isolate.admit(spend);
    const closed = spendOf({
      name: "closed",
      limits: "5/minute",
      onError: "closed",
      timeout: "10ms",
    });
    const patient = isolate.admit(spend);
    const late = isolate.admit(closed);
    await isolate.clock.pass(10);
    expect(await resultsOf([late])).toEqual(["closed"]);
    // The refund needs a round trip, too.
    await isolate.clock.pass(30);
    await isolate.afterAnswers();
    expect(await resultsOf([patient])).toEqual([true]);
    expect(isolate.calls.map(({ name }) => name)).toEqual(["check", "batch", "refund"]);
    const charges = [{ policy: "closed", limits: closed.policy.limits, cost: 1 }];
    const { decisions } = isolate.object("k").look({ key: "k", charges });
    expect(decisions[0]?.limits[0]?.remaining).toBe(5);
  });

  it("when a joined call fails, each of its requests is decided by its own onError", async () => {
    const { isolate, answer } = busy(spend);
    isolate.before = async () => {
      await settled();
      throw new Error("gone");
    };
    const modes = ["open", "closed", "local"] as const;
    const requests = modes.map((onError) => isolate.admit(spendOf({ name: onError, onError })));
    answer();
    expect(await resultsOf(requests)).toEqual(["open", "closed", "local"]);
    expect(isolate.calls.map((call) => checksOf(call).length)).toEqual([1, 3]);
    expect(lines).toHaveLength(3);
    // After a failed call, the object is not called for a second.
    expect(await resultsOf([isolate.admit(spend)])).toEqual(["local"]);
    expect(isolate.calls).toHaveLength(2);
  });

  it("a check that the object cannot decide does not fail the other checks of its call", async () => {
    const { isolate, answer } = busy(spend);
    const [limit] = spend.policy.limits;
    if (limit === undefined) throw new Error("a limit was configured");
    const unknown = spendOf({ name: "unknown", onError: "closed" });
    const alien = { ...unknown.policy, limits: [{ ...limit, strategy: "of the future" }] };
    const requests = [spend, { ...unknown, policy: alien }, spend].map((each) => isolate.admit(each));
    answer();
    expect(await resultsOf(requests)).toEqual([true, "closed", true]);
    expect(lines.join()).toContain('RangeError: unknown strategy \\"of the future\\"');
  });
});

describe("joined checks of requests that are not final", () => {
  it("in a joined call, only the checks with older rules are refused, and these are decided again", async () => {
    const keeper = new RulesKeeper();
    const { isolate, answer } = busy(spend);
    const ruled = policyOf({ name: "ruled", limits: "5/minute" });
    requireRules(isolate, "ruled", 2);
    const plain = isolate.admit(spend);
    const decided = keeper.decide(async (scope) =>
      isolate.client.admit([{ policy: under(ruled, keeper.version), partitionKey: "k", cost: 1 }], scope),
    );
    answer();
    expect((await decided).outcomes.map(resultOf)).toEqual([true]);
    expect(await resultsOf([plain])).toEqual([true]);
    const policies = decisionCalls(isolate).map((call) => checksOf(call).map(({ charges }) => charges[0]?.policy));
    expect(policies).toEqual([["p"], ["p", "ruled"], ["ruled"]]);
  });

  it("provisional spends of a joined call are refunded when another object denies their request", async () => {
    const tenant = spendOf({ name: "tenant", limits: "9/minute", denyCache: false });
    const user = spendOf({ name: "user", limits: "1/minute", denyCache: false }, 1, "user");
    const { isolate, answer } = busy(tenant);
    const requests = [1, 2, 3].map(() => isolate.admit(tenant, user));
    answer();
    expect((await Promise.all(requests)).map(({ isRefused }) => isRefused)).toEqual([false, true, true]);
    await isolate.afterAnswers();
    const [, joined] = isolate.calls;
    const times = joined === undefined ? [] : checksOf(joined).map((each) => each.provisionalMs);
    expect(times).toEqual([3_000, 3_000, 3_000]);
    const charges = [{ policy: "tenant", limits: tenant.policy.limits, cost: 1 }];
    const { decisions } = isolate.object("k").look({ key: "k", charges });
    expect(decisions[0]?.limits[0]?.remaining).toBe(7);
  });
});
