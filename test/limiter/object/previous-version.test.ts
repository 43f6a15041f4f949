/** Rolling deployments from the version without runtime rules: each half works with the other half of either version. */
import { describe, expect, it } from "vitest";
import type { Limiter } from "../../../src/limiter/object/limiter.ts";
import type { Charge, KeyRule } from "../../../src/limiter/protocol.ts";
import { call, charge, confirmed } from "../../fakes/calls.ts";
import { TestClock } from "../../fakes/isolate.ts";
import { allow, allowedOf, block, check, limits, ruled, setRules } from "../../fakes/ruled-object.ts";
import { TestObject } from "../../fakes/test-object.ts";
import * as previous from "../../previous-version/limiter-without-rules.js";

const hour = charge("10/hour");
const under = (version: number): Charge => ({
  ...hour,
  rules: { epoch: 1, version, text: `[${version}]` },
});

/** An object of the previous version on the storage of a current one. */
const previousObjectOn = (object: TestObject): previous.Limiter =>
  new previous.Limiter({
    storage: object.storage,
    now: () => object.nowMs,
    after: () => () => undefined,
  });

/** An isolate of the previous version, with a policy `p` of `10/hour`, that calls current objects by their keys. */
class PreviousIsolate {
  readonly clock = new TestClock();
  readonly calls: string[] = [];
  readonly #client: previous.LimiterClient;
  readonly #work: Promise<unknown>[] = [];

  constructor(objects: Readonly<Record<string, TestObject>>) {
    const stubOf = (name: string): object =>
      new Proxy(
        {},
        {
          get: (_target, method: keyof Limiter) => async (argument: unknown) => {
            this.calls.push(method);
            const object = objects[name];
            if (object === undefined) throw new Error(`no object ${name}`);
            object.nowMs = Math.max(object.nowMs, this.clock.nowMs);
            const limiter = object.limiter as unknown as Record<string, (argument: unknown) => unknown>;
            return structuredClone(limiter[method]?.(structuredClone(argument)));
          },
        },
      );
    this.#client = new previous.LimiterClient({ getByName: stubOf }, this.clock);
  }

  async afterAnswers(): Promise<void> {
    await Promise.all(this.#work.splice(0));
  }

  /** Whether each policy allows a request that charges the policy to each of the keys. */
  async request(keys: readonly string[], fields: object = {}): Promise<(boolean | undefined)[]> {
    const policies = [{ name: "p", limits: "10/hour", strategy: "fixed-window", ...fields }];
    const [policy] = previous.parseConfig({
      KEY_SECRET: "s".repeat(32),
      POLICIES: policies,
    }).policies;
    if (policy === undefined) throw new Error("a policy was configured");
    const spends = keys.map((partitionKey) => ({ policy, partitionKey, cost: 1 }));
    const { outcomes } = await this.#client.admit(spends, (work) => void this.#work.push(work));
    return outcomes.map(({ decision }) => decision?.allowed);
  }
}

describe("an isolate of the previous version with a current object", () => {
  it("blocks, allow rules and limits rules apply to the requests of an older isolate", async () => {
    const object = new TestObject();
    const isolate = new PreviousIsolate({ k: object });
    expect(await isolate.request(["k"])).toEqual([true]);
    setRules(object, 1, block);
    expect(await isolate.request(["k"], { denyCache: false })).toEqual([false]);
    setRules(object, 2, limits("1/hour"));
    expect(await isolate.request(["k"], { denyCache: false })).toEqual([false]);
    setRules(object, 3, allow);
    for (let count = 0; count < 20; count++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await isolate.request(["k"], { denyCache: false })).toEqual([true]);
    }
    setRules(object, 4);
    expect(object.remaining(hour)).toBe(9);
  });

  it("an older isolate's refund of a request that a rule left uncharged changes no count", async () => {
    const [allowed, denying] = [ruled(allow), ruled(block)];
    const isolate = new PreviousIsolate({ k: allowed, k2: denying });
    setRules(allowed, 2);
    check(allowed, { ...hour, cost: 4 });
    setRules(allowed, 3, allow);
    denying.limiter.setRules("k2", "p", [block], { epoch: 1, version: 1 });
    expect(await isolate.request(["k", "k2"])).toEqual([true, false]);
    await isolate.afterAnswers();
    expect(isolate.calls).toEqual(["check", "check", "refund"]);
    setRules(allowed, 4);
    expect(allowed.remaining(hour)).toBe(6);
  });

  it.for(["leased", "eventual"])(
    "a block reaches the leased requests of an older isolate within seconds, and never its eventual ones: %s",
    async (consistency) => {
      const object = new TestObject();
      const isolate = new PreviousIsolate({ k: object });
      const request = () => isolate.request(["k"], { consistency, limits: "100000/hour" });
      for (let count = 0; count < 50; count++) {
        // oxlint-disable-next-line no-await-in-loop
        expect(await request()).toEqual([true]);
      }
      setRules(object, 1, block);
      await isolate.clock.pass(2_500);
      // The previous version does not know the rules in the reply of a sync.
      expect(await request()).toEqual([consistency === "eventual"]);
    },
  );

  it("the calls of an older isolate are decided whatever policy rules the object has seen", async () => {
    const object = new TestObject();
    object.limiter.check(call(under(5)));
    expect(await new PreviousIsolate({ k: object }).request(["k"])).toEqual([true]);
  });
});

describe("an object of the previous version", () => {
  it("an older object decides calls with policy rules, and never finds one stale", () => {
    const object = previousObjectOn(new TestObject());
    for (const version of [5, 3, 4]) {
      const reply = object.check(call(under(version)));
      expect([allowedOf(reply), reply.stale, reply.keyRules]).toEqual([[true], undefined, undefined]);
    }
  });

  it("an older object has no method for rules, so that the control plane learns that they are not stored", () => {
    expect("setRules" in previousObjectOn(new TestObject())).toBe(false);
  });

  it("an older object reads the counts of a row with rules, and drops the rules when it writes the row", async () => {
    const rules: KeyRule[] = [block, limits("20/hour")];
    const object = ruled(limits("20/hour"));
    object.limiter.check(confirmed({ ...under(2), cost: 4 }));
    setRules(object, 2, ...rules);
    const older = previousObjectOn(object);
    expect(older.look(call(hour)).decisions[0]?.limits[0]?.remaining).toBe(6);
    object.crash();
    expect(allowedOf(check(object, hour))).toEqual([false]);
    previousObjectOn(object).check(confirmed(hour));
    object.crash();
    expect(allowedOf(check(object, hour))).toEqual([true]);
    setRules(object, 2, ...rules);
    expect(allowedOf(check(object, hour))).toEqual([false]);
  });

  it("an older object may delete a row of rules that is due to be renewed, and a repeated push restores them", async () => {
    const object = ruled(block);
    await object.alarmAtMs();
    object.at(31 * 86_400_000);
    await previousObjectOn(object).alarm();
    expect(object.storage.rows.size).toBe(0);
    object.crash();
    setRules(object, 1, block);
    expect(allowedOf(check(object, hour))).toEqual([false]);
  });

  it("the rows of an older object are read as before", () => {
    const object = new TestObject();
    previousObjectOn(object).check(confirmed({ ...hour, cost: 7 }));
    expect(object.remaining(hour)).toBe(3);
    setRules(object, 1, limits("20/hour"));
    expect(object.remaining(hour)).toBe(13);
  });
});
