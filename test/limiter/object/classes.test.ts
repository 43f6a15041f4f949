/** Classes of requests in an object. tree-traces.test.ts also compares them with a naive reference. */
import { describe, expect, it } from "vitest";
import type { Charge } from "../../../src/limiter/protocol.ts";
import { call, logOf } from "../../fakes/calls.ts";
import { TestObject } from "../../fakes/test-object.ts";

describe("a class", () => {
  const batch = (cost: number, policy = "p"): Charge => ({ ...logOf(cost, policy), upTo: 50 });

  it("a class may use its part of a limit, and its denial is neither firm nor one of other requests", () => {
    const object = new TestObject();
    expect(object.limiter.check(call(batch(50)))).toMatchObject({
      decisions: [{ allowed: true, limits: [{ remaining: 0 }] }],
    });
    object.at(10);
    const denied = object.limiter.check(call(batch(1)));
    expect(denied).toMatchObject({ decisions: [{ allowed: false, reason: "class", retryAfterMs: 59_990 }] });
    expect(denied.isFirm).toBeUndefined();
    expect(object.limiter.check(call(logOf(50))).decisions[0]?.allowed).toBe(true);
  });

  it("units that are lent bound a class, too, and a denied request is charged under no policy", () => {
    const object = new TestObject();
    const other = logOf(30, "other");
    expect(object.lease(logOf(1)).lentUnits).toBe(10);
    // 1 + 10 + 90 units are more than 100.
    const { decisions } = object.limiter.check(call([other, { ...logOf(90), upTo: 99 }]));
    expect([decisions[1]?.allowed, object.remaining(other)]).toEqual([false, 100]);
  });

  it("a denial of a class that the limits alone would make, too, is firm", () => {
    const object = new TestObject();
    const { isFirm, decisions } = object.limiter.check(call(batch(101)));
    expect([isFirm, decisions[0]?.reason]).toEqual([true, undefined]);
  });

  it("the flat form of a reply states the reason in the text of the reply", () => {
    const object = new TestObject();
    const { cost: _, ...written } = batch(1);
    const [reply] = object.limiter.decide([JSON.stringify(written)], ["k", 0, 1, 1, 0, 60]);
    expect(JSON.parse(String(reply))).toMatchObject({ decisions: [{ allowed: false, reason: "class" }] });
  });
});
