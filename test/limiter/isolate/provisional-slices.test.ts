/** Provisional spends from a slice: a later object may still deny the request. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { LimiterClient } from "../../../src/limiter/isolate/client.ts";
import type { Clock } from "../../../src/limiter/clock.ts";
import type { LeaseCall, ReturnCall } from "../../../src/limiter/protocol.ts";
import type { Spend, ChargeResult } from "../../../src/limiter/isolate/outcome.ts";
import { settled, spendOf, TestIsolate, scopeOf } from "../../fakes/isolate.ts";

/** Silences the log of failed calls. */
beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const fields = { limits: "1000/hour", consistency: "leased", timeout: "500ms" };
const leased = spendOf(fields);
const other = { name: "other", limits: "1/hour", timeout: "9s" };
const allowing = spendOf(other, 1, "other");
const denying = spendOf(other, 2, "other");

/** An isolate that has borrowed 8 units and spent 2 of them, after 6 requests that the object decided. */
async function borrower(): Promise<TestIsolate> {
  const isolate = new TestIsolate();
  await admit(isolate, 8);
  isolate.calls.length = 0;
  return isolate;
}

async function admit(isolate: TestIsolate, requests: number, spend: Spend = leased): Promise<void> {
  for (let request = 0; request < requests; request++) {
    // oxlint-disable-next-line no-await-in-loop
    expect(await isolate.outcomes(spend)).toEqual([true]);
  }
}

/** Delays the answers of the object `other` until `decide` is called. Calls for the next slice are never answered. */
function delayDecision(isolate: TestIsolate): { decide: () => Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  isolate.before = ({ object, argument }) => {
    if (object === "other") return promise;
    const isForNextSlice = (argument as Partial<LeaseCall>).charges?.[0]?.cost === 0;
    return isForNextSlice ? new Promise(() => undefined) : Promise.resolve();
  };
  return {
    decide: () => {
      resolve();
      return settled();
    },
  };
}

/**
 * Removes the recorded calls.
 * @returns the used units of each slice that a call without another purpose has returned
 */
const returned = (isolate: TestIsolate): number[] =>
  isolate.calls
    .splice(0)
    .filter(({ name }) => name === "giveBackSlices")
    .flatMap(({ argument }) => (argument as ReturnCall).returned.map(({ used }) => used));

const refunds = (isolate: TestIsolate): unknown[] => isolate.calls.filter(({ name }) => name === "refund");

const leftAtObject = (isolate: TestIsolate): number | undefined => {
  const charge = { policy: "p", limits: leased.policy.limits, cost: 1 };
  const { decisions } = isolate.object("k").look({ key: "k", charges: [charge] });
  return decisions[0]?.limits[0]?.remaining;
};

describe("a slice with a provisional spend", () => {
  it("a slice with a provisional spend is returned 75 ms after its end, and the spend counts as used", async () => {
    const isolate = await borrower();
    delayDecision(isolate);
    void isolate.admit(leased, allowing);
    await isolate.clock.pass(1_074);
    expect(returned(isolate)).toEqual([]);
    await isolate.clock.pass(1);
    expect(returned(isolate)).toEqual([3]);
    expect(leftAtObject(isolate)).toBe(1_000 - 6 - 3);
  });

  it("when a request is denied after its slice has ended, the slice is returned at once, without the request's units", async () => {
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

  it("when a request is admitted after its slice has ended, the slice is returned at once, with the request's units", async () => {
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

  it("an ended slice without unused units causes no call for its return alone", async () => {
    const isolate = await borrower();
    const { decide } = delayDecision(isolate);
    const outcomes = isolate.outcomes({ ...leased, cost: 6 }, spendOf({ ...other, limits: "6/hour" }, 6, "other"));
    await isolate.clock.pass(1_050);
    await decide();
    expect(await outcomes).toEqual([true, true]);
    await settled();
    expect(returned(isolate)).toEqual([]);
  });

  it("the next lease call does not return a slice with a provisional spend", async () => {
    const isolate = await borrower();
    const { decide } = delayDecision(isolate);
    const outcomes = isolate.outcomes(leased, denying);
    await isolate.clock.pass(1_020);
    await admit(isolate, 1);
    expect(isolate.calls.at(-1)).toMatchObject({ name: "lease", argument: { returned: [] } });
    await decide();
    expect(await outcomes).toEqual([true, false]);
    await isolate.clock.pass(5_000);
    expect(leftAtObject(isolate)).toBe(991);
  });

  it("a spend that is admitted and then refunded is not among the used units of its slice", async () => {
    const isolate = await borrower();
    const admission = await isolate.admit(leased, allowing);
    expect(admission.isRefused).toBe(false);
    const isGivenBack = admission.giveBack();
    await isolate.clock.pass(1_000);
    await isGivenBack;
    expect(returned(isolate)).toEqual([2]);
    expect(leftAtObject(isolate)).toBe(992);
  });

  it("a denied request is refunded by the object if the object has already booked the whole slice", async () => {
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

  it("a denied request is not refunded if a lost answer leaves the time of its booking unknown", async () => {
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

  it("for each key, an isolate keeps the slices of the 16 most recently used sets of policies", async () => {
    const isolate = await borrower();
    for (let number = 1; number <= 15; number++) await admit(isolate, 1, policyNumber(number));
    isolate.calls.length = 0;
    await admit(isolate, 1);
    expect(isolate.calls).toEqual([]);
    for (let number = 16; number <= 30; number++) await admit(isolate, 1, policyNumber(number));
    expect(returned(isolate)).toEqual([]);
    await admit(isolate, 1, policyNumber(31));
    expect(returned(isolate)).toEqual([3]);
    expect(leftAtObject(isolate)).toBe(991);
  });

  it("an isolate keeps the slices of the 1,024 most recently used keys", async () => {
    const isolate = await borrower();
    const admitOthers = async (count: number, name: string): Promise<void> => {
      for (let key = 0; key < count; key++) {
        // oxlint-disable-next-line no-await-in-loop
        await admit(isolate, 1, { ...leased, partitionKey: `${name}-${key}` });
      }
    };
    await admitOthers(1_023, "first");
    isolate.calls.length = 0;
    await admit(isolate, 1);
    expect(isolate.calls).toEqual([]);
    await admitOthers(1_023, "second");
    expect(returned(isolate)).toEqual([]);
    await admitOthers(1, "third");
    expect(returned(isolate)).toEqual([3]);
  });

  it("within a second, an isolate requests slices for at most 512 further keys, and the object decides the remaining keys", async () => {
    const isolate = new TestIsolate();
    const spendOnNewKeys = async (count: number, name: string): Promise<number> => {
      isolate.calls.length = 0;
      for (let key = 0; key < count; key++) {
        const spend = { ...leased, partitionKey: `${name}-${key}`, cost: 10 };
        // oxlint-disable-next-line no-await-in-loop
        expect(await isolate.outcomes(spend)).toEqual([true]);
      }
      const requests = isolate.calls.filter(({ name: call }) => call === "lease");
      expect(requests).toHaveLength(count);
      return requests.filter(({ argument }) => (argument as LeaseCall).wanted !== null).length;
    };
    expect(await spendOnNewKeys(600, "first")).toBe(512);
    await isolate.clock.pass(999);
    expect(await spendOnNewKeys(1, "second")).toBe(0);
    await isolate.clock.pass(1);
    expect(await spendOnNewKeys(2, "third")).toBe(2);
  });

  it("an isolate keeps the slices of fewer keys when the keys' policies have many limits", async () => {
    const isolate = await borrower();
    const limits = Array.from({ length: 16 }, (_, index) => `${1_000 + index}/${1 + index}h`);
    const wide = spendOf({ ...fields, name: "wide", limits });
    for (let key = 0; key < 600; key++) {
      // oxlint-disable-next-line no-await-in-loop
      await admit(isolate, 1, { ...wide, partitionKey: `other-${key}` });
    }
    expect(returned(isolate)).toEqual([2]);
  });

  it("an evicted slice whose provisional request is denied is returned without its units", async () => {
    const isolate = await borrower();
    const { decide } = delayDecision(isolate);
    const outcomes = isolate.outcomes({ ...leased, cost: 3 }, denying);
    for (let number = 1; number <= 16; number++) await admit(isolate, 1, policyNumber(number));
    expect(returned(isolate)).toEqual([]);
    await decide();
    expect(await outcomes).toEqual([true, false]);
    await settled();
    expect(returned(isolate)).toEqual([2]);
    expect(leftAtObject(isolate)).toBe(992);
  });
});

describe("the time of a slice", () => {
  it("the lifetime of a slice begins with the request for it, not with the answer", async () => {
    const isolate = new TestIsolate();
    await admit(isolate, 5);
    isolate.before = ({ name }) =>
      name === "lease" ? new Promise((resolve) => void isolate.clock.after(300, () => resolve(1))) : Promise.resolve();
    const sixth = isolate.outcomes(leased);
    await isolate.clock.pass(300);
    expect(await sixth).toEqual([true]);
    isolate.calls.length = 0;
    await isolate.clock.pass(699);
    expect(returned(isolate)).toEqual([]);
    await isolate.clock.pass(1);
    expect(returned(isolate)).toEqual([0]);
  });

  it("a spend in the last 200 ms of a slice requests the next slice", async () => {
    const isolate = await borrower();
    await isolate.clock.pass(799);
    await admit(isolate, 1);
    expect(isolate.calls).toEqual([]);
    await isolate.clock.pass(1);
    await admit(isolate, 1);
    expect(isolate.calls).toMatchObject([{ name: "lease", argument: { charges: [{ cost: 0 }] } }]);
  });
});

describe("a spend from a slice whose borrower has ended", () => {
  /** A client whose requests can end. The platform then drops the timers and calls of these requests. */
  function mortalClient(isolate: TestIsolate): { client: LimiterClient; endRequests: () => void } {
    const timers: (() => void)[] = [];
    const after: Clock["after"] = (afterMs, act) => {
      const cancel = isolate.clock.after(afterMs, act);
      timers.push(cancel);
      return cancel;
    };
    const client = new LimiterClient(isolate.namespace(), { now: isolate.clock.now, after });
    const endRequests = (): void => {
      for (const cancel of timers.splice(0)) cancel();
    };
    return { client, endRequests };
  }

  async function borrowed(
    isolate: TestIsolate,
  ): Promise<ReturnType<typeof mortalClient> & { admission: ChargeResult }> {
    const { client, endRequests } = mortalClient(isolate);
    for (let request = 0; request < 8; request++) {
      // oxlint-disable-next-line no-await-in-loop
      await client.admit([leased], scopeOf());
    }
    endRequests();
    const admission = await client.admit([leased, allowing], scopeOf());
    isolate.calls.length = 0;
    return { client, endRequests, admission };
  }

  it("a spend is refunded within its slice when no other request is alive to return the slice", async () => {
    const isolate = new TestIsolate();
    const { admission } = await borrowed(isolate);
    const isGivenBack = admission.giveBack();
    await isolate.clock.pass(1_500);
    await isGivenBack;
    expect(returned(isolate)).toEqual([2]);
    expect(leftAtObject(isolate)).toBe(992);
  });

  it("a spend can be refunded even if the request that returns the slice ends before the reply", async () => {
    const isolate = new TestIsolate();
    const { client, endRequests, admission } = await borrowed(isolate);
    await isolate.clock.pass(1_010);
    isolate.before = ({ name }) => (name === "lease" ? new Promise(() => undefined) : Promise.resolve());
    // This request uses up the slice, so its lease call returns the slice.
    void client.admit([{ ...leased, cost: 2 }], scopeOf());
    await settled();
    expect(isolate.calls.at(-1)).toMatchObject({ argument: { returned: [{ used: 3 }] } });
    endRequests();
    const isGivenBack = admission.giveBack();
    await isolate.clock.pass(6_000);
    await isGivenBack;
    expect(refunds(isolate).filter((call) => Object(call).object === "k")).toEqual([]);
  });
});
