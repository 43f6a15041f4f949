/** Units of a slice that an isolate spent for a request while a later object could still deny it. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { LeaseCall, ReturnCall } from "../../../src/limiter/protocol.ts";
import type { Spend } from "../../../src/limiter/client/outcome.ts";
import { settled, spendOf, TestIsolate } from "../../fakes/isolate.ts";

/** Calls that fail report it. */
beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const fields = { limits: "1000/hour", consistency: "leased", timeout: "500ms" };
const leased = spendOf(fields);
const other = { name: "other", limits: "1/hour", timeout: "9s" };
const allowing = spendOf(other, 1, "other");
const denying = spendOf(other, 2, "other");

/** An isolate that has borrowed 8 units and spent 2 of them, after 6 that the object decided. */
async function borrower(): Promise<TestIsolate> {
  const isolate = new TestIsolate();
  await ask(isolate, 8);
  isolate.calls.length = 0;
  return isolate;
}

async function ask(isolate: TestIsolate, requests: number, spend: Spend = leased): Promise<void> {
  for (let request = 0; request < requests; request++) {
    // oxlint-disable-next-line no-await-in-loop
    expect(await isolate.outcomes(spend)).toEqual([true]);
  }
}

/** Has the object of the other key answer only when `decide` is called, and calls for further slices never. */
function delayDecision(isolate: TestIsolate): { decide: () => Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  isolate.before = ({ object, argument }) => {
    if (object === "other") return promise;
    const isRefill = (argument as Partial<LeaseCall>).charges?.[0]?.cost === 0;
    return isRefill ? new Promise(() => undefined) : Promise.resolve();
  };
  return {
    decide: () => {
      resolve();
      return settled();
    },
  };
}

/** Units used of each slice that was returned in a call of its own since this was last asked. */
const returned = (isolate: TestIsolate): number[] =>
  isolate.calls
    .splice(0)
    .filter(({ name }) => name === "giveBackSlices")
    .flatMap(({ argument }) => (argument as ReturnCall).returned.map(({ used }) => used));

const refunds = (isolate: TestIsolate): unknown[] =>
  isolate.calls.filter(({ name }) => name === "refund");

const leftAtObject = (isolate: TestIsolate): number | undefined => {
  const charge = { policy: "p", limits: leased.policy.limits, cost: 1 };
  const { decisions } = isolate.object("k").look({ key: "k", charges: [charge] });
  return decisions[0]?.limits[0]?.remaining;
};

describe("a slice with a spend that a later object may still deny", () => {
  it("is returned 75 ms after its end at the latest, with the spend counted as used", async () => {
    const isolate = await borrower();
    delayDecision(isolate);
    void isolate.admit(leased, allowing);
    await isolate.clock.pass(1_074);
    expect(returned(isolate)).toEqual([]);
    await isolate.clock.pass(1);
    expect(returned(isolate)).toEqual([3]);
    expect(leftAtObject(isolate)).toBe(1_000 - 6 - 3);
  });

  it("is returned without the units as soon as the request is denied after its end", async () => {
    const isolate = await borrower();
    const { decide } = delayDecision(isolate);
    const outcomes = isolate.outcomes({ ...leased, cost: 3 }, denying);
    await isolate.clock.pass(1_050);
    await decide();
    expect(await outcomes).toEqual([true, false]);
    await settled();
    expect([refunds(isolate), returned(isolate)]).toEqual([[], [2]]);
    expect(leftAtObject(isolate)).toBe(992);
    await isolate.clock.pass(5_000);
    expect([refunds(isolate), returned(isolate)]).toEqual([[], []]);
    expect(leftAtObject(isolate)).toBe(992);
  });

  it("is returned with the units as soon as the request is admitted after its end", async () => {
    const isolate = await borrower();
    const { decide } = delayDecision(isolate);
    const outcomes = isolate.outcomes(leased, allowing);
    await isolate.clock.pass(1_050);
    await decide();
    expect(await outcomes).toEqual([true, true]);
    await settled();
    expect(returned(isolate)).toEqual([3]);
    expect(leftAtObject(isolate)).toBe(991);
  });

  it("waits for the next call when it is admitted after the end and nothing is left of the slice", async () => {
    const isolate = await borrower();
    const { decide } = delayDecision(isolate);
    const outcomes = isolate.outcomes(
      { ...leased, cost: 6 },
      spendOf({ ...other, limits: "6/hour" }, 6, "other"),
    );
    await isolate.clock.pass(1_050);
    await decide();
    expect(await outcomes).toEqual([true, true]);
    await settled();
    expect(returned(isolate)).toEqual([]);
  });

  it("is not returned by the next call for a slice before the request is decided", async () => {
    const isolate = await borrower();
    const { decide } = delayDecision(isolate);
    const outcomes = isolate.outcomes(leased, denying);
    await isolate.clock.pass(1_020);
    await ask(isolate, 1);
    expect(isolate.calls.at(-1)).toMatchObject({ name: "lease", argument: { returned: [] } });
    await decide();
    expect(await outcomes).toEqual([true, false]);
    await isolate.clock.pass(5_000);
    expect(leftAtObject(isolate)).toBe(991);
  });

  it("is returned at its end when the request was admitted and then given back", async () => {
    const isolate = await borrower();
    const admission = await isolate.admit(leased, allowing);
    expect(admission.isRefused).toBe(false);
    const isGivenBack = admission.giveBack();
    await isolate.clock.pass(1_000);
    await isGivenBack;
    expect(returned(isolate)).toEqual([2]);
    expect(leftAtObject(isolate)).toBe(992);
  });

  it("has the units refunded when the object took all of it for spent before the denial", async () => {
    const isolate = await borrower();
    const { decide } = delayDecision(isolate);
    const outcomes = isolate.outcomes({ ...leased, cost: 6 }, denying);
    await isolate.clock.pass(5_000);
    expect(returned(isolate)).toEqual([]);
    await decide();
    expect(await outcomes).toEqual([true, false]);
    await settled();
    expect(leftAtObject(isolate)).toBe(1_000 - 6 - 2);
  });

  it("has nothing refunded when nobody knows at which instant the object counted it", async () => {
    const isolate = await borrower();
    const { decide } = delayDecision(isolate);
    const object = isolate.object("k");
    const giveBackSlices = object.giveBackSlices.bind(object);
    vi.spyOn(object, "giveBackSlices").mockImplementationOnce((call) => {
      giveBackSlices(call);
      throw new Error("the answer is lost");
    });
    const outcomes = isolate.outcomes(leased, denying);
    await isolate.clock.pass(1_500);
    expect(returned(isolate)).toEqual([3, 3]);
    await decide();
    expect(await outcomes).toEqual([true, false]);
    await isolate.clock.pass(5_000);
    expect(refunds(isolate)).toEqual([]);
    expect(leftAtObject(isolate)).toBe(991);
  });
});

describe("the slices that an isolate keeps", () => {
  const policyNumber = (number: number): Spend => spendOf({ ...fields, name: `p-${number}` });

  it("are those of the 16 sets of policies that a key was asked for last", async () => {
    const isolate = await borrower();
    for (let number = 1; number <= 15; number++) await ask(isolate, 1, policyNumber(number));
    isolate.calls.length = 0;
    await ask(isolate, 1);
    expect(isolate.calls).toEqual([]);
    for (let number = 16; number <= 30; number++) await ask(isolate, 1, policyNumber(number));
    expect(returned(isolate)).toEqual([]);
    await ask(isolate, 1, policyNumber(31));
    expect(returned(isolate)).toEqual([3]);
    expect(leftAtObject(isolate)).toBe(991);
  });

  it("are those of the 1,024 keys that it was asked for last", async () => {
    const isolate = await borrower();
    const askOthers = async (count: number, name: string): Promise<void> => {
      for (let key = 0; key < count; key++) {
        // oxlint-disable-next-line no-await-in-loop
        await ask(isolate, 1, { ...leased, partitionKey: `${name}-${key}` });
      }
    };
    await askOthers(1_023, "first");
    isolate.calls.length = 0;
    await ask(isolate, 1);
    expect(isolate.calls).toEqual([]);
    await askOthers(1_023, "second");
    expect(returned(isolate)).toEqual([]);
    await askOthers(1, "third");
    expect(returned(isolate)).toEqual([3]);
  });

  it("are those of fewer keys when each has many limits", async () => {
    const isolate = await borrower();
    const limits = Array.from({ length: 16 }, (_, index) => `${1_000 + index}/${1 + index}h`);
    const wide = spendOf({ ...fields, name: "wide", limits });
    for (let key = 0; key < 600; key++) {
      // oxlint-disable-next-line no-await-in-loop
      await ask(isolate, 1, { ...wide, partitionKey: `other-${key}` });
    }
    expect(returned(isolate)).toEqual([2]);
  });

  it("leave no unit behind when one has to go whose request is then denied", async () => {
    const isolate = await borrower();
    const { decide } = delayDecision(isolate);
    const outcomes = isolate.outcomes({ ...leased, cost: 3 }, denying);
    for (let number = 1; number <= 16; number++) await ask(isolate, 1, policyNumber(number));
    expect(returned(isolate)).toEqual([]);
    await decide();
    expect(await outcomes).toEqual([true, false]);
    await settled();
    expect(returned(isolate)).toEqual([2]);
    expect(leftAtObject(isolate)).toBe(992);
  });
});

describe("the second of a slice", () => {
  it("begins when the slice is asked for, not when the answer arrives", async () => {
    const isolate = new TestIsolate();
    await ask(isolate, 5);
    isolate.before = ({ name }) =>
      name === "lease"
        ? new Promise((resolve) => void isolate.clock.after(300, () => resolve(1)))
        : Promise.resolve();
    const sixth = isolate.outcomes(leased);
    await isolate.clock.pass(300);
    expect(await sixth).toEqual([true]);
    isolate.calls.length = 0;
    await isolate.clock.pass(699);
    expect(returned(isolate)).toEqual([]);
    await isolate.clock.pass(1);
    expect(returned(isolate)).toEqual([0]);
  });

  it("has the next slice asked for in its last 200 ms", async () => {
    const isolate = await borrower();
    await isolate.clock.pass(799);
    await ask(isolate, 1);
    expect(isolate.calls).toEqual([]);
    await isolate.clock.pass(1);
    await ask(isolate, 1);
    expect(isolate.calls).toMatchObject([{ name: "lease", argument: { charges: [{ cost: 0 }] } }]);
  });
});
