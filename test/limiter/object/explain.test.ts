/** The call `explain`: the decision on a charge from the state of a key, with the account of each limit. */
import { describe, expect, it } from "vitest";
import type { ExplainedCharge } from "../../../src/limiter/explanation.ts";
import { call, charge, logOf } from "../../fakes/calls.ts";
import { startMs } from "../../fakes/isolate.ts";
import { limits, ruled, setRules, until } from "../../fakes/ruled-object.ts";
import { TestObject } from "../../fakes/test-object.ts";

const explained = (object: TestObject, each = logOf(1)): ExplainedCharge | undefined =>
  object.limiter.explain(call(each)).charges[0];

describe("explain", () => {
  it("an explanation has the decision of a look, and the account of each limit", () => {
    const object = new TestObject();
    const both = charge("10/minute; 100/hour", 3);
    object.limiter.check(call(both));
    const { atMs, reply, charges } = object.limiter.explain(call(both));
    expect(atMs).toBe(startMs);
    expect(reply).toEqual(object.limiter.look(call(both)));
    expect(charges[0]?.accounts).toMatchObject([
      { used: 3, heldUnits: 0, terms: { kind: "window", units: 3, endsInMs: 60_000 } },
      { used: 3, heldUnits: 0, terms: { kind: "window", units: 3, endsInMs: 3_600_000 } },
    ]);
  });

  it("lent units are part of a limit's account, and the slice that lends them is listed too", () => {
    const object = new TestObject();
    object.lease(logOf(20), { units: 50 });
    expect(explained(object)).toMatchObject({
      accounts: [{ used: 30, heldUnits: 10, terms: { kind: "log", units: 20 } }],
      slices: { count: 1, units: 10 },
    });
  });

  it("the account is that of the limits in effect: until a key rule expires, those of the rule", () => {
    const object = ruled({ ...limits("4/minute", "boost"), ...until(1_000) });
    object.limiter.check(call(charge("1/minute", 2)));
    const usedOf = () =>
      explained(object, charge("1/minute"))?.accounts.map(({ used }, index) => [
        used,
        explained(object, charge("1/minute"))?.limits[index]?.limit,
      ]);
    expect(usedOf()).toEqual([[2, 4]]);
    object.nowMs = startMs + 1_000;
    expect(usedOf()).toEqual([[2, 1]]);
    setRules(object, 2);
    expect(explained(object, charge("1/minute"))?.keyRulesVersion).toEqual({
      epoch: 1,
      version: 2,
    });
  });
});
