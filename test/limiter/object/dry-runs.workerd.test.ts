import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Charge } from "../../../src/limiter/protocol.ts";
import { at, call, charge, newObject, remaining, startMs, type Stub } from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

const dry = (limits: string, policy = "dry"): Charge => ({
  ...charge(limits, 1, policy),
  isDryRun: true,
});

const allowedBy = async (object: Stub, ...charges: Charge[]): Promise<boolean[]> =>
  (await object.check(call(charges))).decisions.map(({ allowed }) => allowed);

describe("a dry run beside policies that are enforced", () => {
  it("has no say in what they decide, and counts by its own limits", async () => {
    const object = newObject();
    const [enforced, shadow] = [charge("5/minute"), dry("2/minute")];
    const answers = [];
    // oxlint-disable-next-line no-await-in-loop
    for (let ask = 0; ask < 6; ask++) answers.push(await allowedBy(object, enforced, shadow));
    expect(answers).toEqual([
      [true, true],
      [true, true],
      [true, false],
      [true, false],
      [true, false],
      [false, false],
    ]);
  });

  it("is not charged for what they deny", async () => {
    const object = newObject();
    const [enforced, shadow] = [charge("1/minute"), dry("9/minute")];
    await allowedBy(object, shadow, enforced);
    expect(await allowedBy(object, shadow, enforced)).toEqual([true, false]);
    expect(await remaining(object, shadow)).toBe(8);
  });

  it("stands apart from other dry runs", async () => {
    const object = newObject();
    const shadows = [dry("1/minute", "a"), dry("3/minute", "b")];
    expect(await allowedBy(object, ...shadows)).toEqual([true, true]);
    expect(await allowedBy(object, ...shadows)).toEqual([false, true]);
    expect(await allowedBy(object, ...shadows)).toEqual([false, true]);
    expect(await allowedBy(object, ...shadows)).toEqual([false, false]);
  });

  it("is reserved and settled with them, as far as it was allowed", async () => {
    const object = newObject();
    const [enforced, full, shadow] = [charge("9/minute"), dry("1/minute", "full"), dry("9/minute")];
    await allowedBy(object, full);
    const reserved = await object.reserve({
      ...call([enforced, full, shadow].map((each) => ({ ...each, cost: 4 }))),
      id: "r",
      ttlMs: 60_000,
    });
    expect([reserved.isOpen, reserved.decisions.map(({ allowed }) => allowed)]).toEqual([
      true,
      [true, false, true],
    ]);
    await object.settle({ key: "k", id: "r", cost: 4, costs: [1, 3] });
    expect(await remaining(object, enforced)).toBe(8);
    expect(await remaining(object, full)).toBe(0);
    expect(await remaining(object, shadow)).toBe(6);
  });

  it("opens no reservation where nothing of it is spent", async () => {
    const object = newObject();
    await allowedBy(object, dry("1/minute"));
    const { isOpen } = await object.reserve({ ...call(dry("1/minute")), id: "r", ttlMs: 60_000 });
    expect(isOpen).toBe(false);
    at(1);
    expect(await object.settle({ key: "k", id: "r", cost: 0 })).toEqual({ settled: false });
  });
});
