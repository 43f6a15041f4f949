/** Dry runs: policies that decide and count, but never deny. */
import { describe, expect, it } from "vitest";
import type { Charge } from "../../../src/limiter/protocol.ts";
import { call, charge } from "../../fakes/calls.ts";
import { TestObject } from "../../fakes/test-object.ts";

const dry = (limits: string, policy = "dry"): Charge => ({
  ...charge(limits, 1, policy),
  isDryRun: true,
});

const allowedBy = (object: TestObject, ...charges: Charge[]): boolean[] =>
  object.limiter.check(call(charges)).decisions.map(({ allowed }) => allowed);

describe("a dry run", () => {
  it("a dry run never changes the decision of an enforced policy, and counts by its own limits", async () => {
    const object = new TestObject();
    const [enforced, shadow] = [charge("5/minute"), dry("2/minute")];
    const answers = [];
    // oxlint-disable-next-line no-await-in-loop
    for (let request = 0; request < 6; request++) answers.push(allowedBy(object, enforced, shadow));
    expect(answers).toEqual([
      [true, true],
      [true, true],
      [true, false],
      [true, false],
      [true, false],
      [false, false],
    ]);
  });

  it("a dry run is not charged when an enforced policy denies", async () => {
    const object = new TestObject();
    const [enforced, shadow] = [charge("1/minute"), dry("9/minute")];
    allowedBy(object, shadow, enforced);
    expect(allowedBy(object, shadow, enforced)).toEqual([true, false]);
    expect(object.remaining(shadow)).toBe(8);
  });

  it("dry runs on one key decide independently of one another", async () => {
    const object = new TestObject();
    const shadows = [dry("1/minute", "a"), dry("3/minute", "b")];
    expect(allowedBy(object, ...shadows)).toEqual([true, true]);
    expect(allowedBy(object, ...shadows)).toEqual([false, true]);
    expect(allowedBy(object, ...shadows)).toEqual([false, true]);
    expect(allowedBy(object, ...shadows)).toEqual([false, false]);
  });

  it("a dry run that allows a reservation reserves and settles together with the enforced policies", async () => {
    const object = new TestObject();
    const [enforced, full, shadow] = [charge("9/minute"), dry("1/minute", "full"), dry("9/minute")];
    allowedBy(object, full);
    const reserved = object.limiter.reserve({
      ...call([enforced, full, shadow].map((each) => ({ ...each, cost: 4 }))),
      id: "r",
      ttlMs: 60_000,
    });
    expect([reserved.isOpen, reserved.decisions.map(({ allowed }) => allowed)]).toEqual([true, [true, false, true]]);
    object.limiter.settle({ key: "k", id: "r", cost: 4, costs: [1, 3] });
    expect(object.remaining(enforced)).toBe(8);
    expect(object.remaining(full)).toBe(0);
    expect(object.remaining(shadow)).toBe(6);
  });

  it("a dry run that denies opens no reservation", async () => {
    const object = new TestObject();
    allowedBy(object, dry("1/minute"));
    const { isOpen } = object.limiter.reserve({ ...call(dry("1/minute")), id: "r", ttlMs: 60_000 });
    expect(isOpen).toBe(false);
    object.at(1);
    expect(object.limiter.settle({ key: "k", id: "r", cost: 0 })).toEqual({ settled: false });
  });
});
