import { describe, expect, it } from "vitest";
import { type ExpectedCharge, SpendRecord } from "./ledger.ts";

const one: ExpectedCharge = {
  policy: "login",
  key: "somebody",
  named: ["somebody"],
  quotas: [{ name: "login", limit: 2 }],
  cost: 1,
  finalCost: 1,
};

const left = (remaining: number): Map<string, number> => new Map([["login", remaining]]);

/** A ledger after this number of allowed requests, sent one after the other. */
function after(count: number, charge = one): SpendRecord {
  const ledger = new SpendRecord();
  for (let request = 0; request < count; request++) ledger.allow(ledger.send([charge]), null);
  return ledger;
}

describe("the spend record of a fuzz run", () => {
  it("a quota that is spent unit by unit up to its limit has no fault", () => {
    const ledger = new SpendRecord();
    expect(ledger.allow(ledger.send([one]), left(1))).toEqual([]);
    expect(ledger.allow(ledger.send([one]), left(0))).toEqual([]);
    expect(ledger.deny(ledger.send([one]), ["login"])).toEqual([]);
    expect(ledger.settled(one, left(0))).toEqual([]);
  });

  it("concurrent requests may be decided in any order without a fault", () => {
    const ledger = new SpendRecord();
    const [first, second, third] = [ledger.send([one]), ledger.send([one]), ledger.send([one])];
    expect(ledger.deny(second, ["login"])).toEqual([]);
    expect(ledger.allow(third, left(0))).toEqual([]);
    expect(ledger.allow(first, left(1))).toEqual([]);
  });

  it("a request allowed beyond the limit is a fault", () => {
    const ledger = after(2);
    expect(ledger.allow(ledger.send([one]), null)).toEqual(['"login" allowed more than its limit of 2']);
  });

  it("a quota that grows without a refund is a fault", () => {
    const ledger = after(1);
    const fault = '"login": expected 1 of 2 remaining, got 2';
    expect(ledger.looked(one, ledger.leastOf(one), left(2))).toEqual([fault]);
    expect(ledger.settled(one, left(2))).toEqual([fault]);
    expect(ledger.allow(ledger.send([one]), left(1))).toEqual(['"login": expected 0 of 2 remaining, got 1']);
  });

  it("a quota that shrinks without a charge is a fault", () => {
    expect(after(1).settled(one, left(0))).toEqual(['"login": expected 1 of 2 remaining, got 0']);
  });

  it("the denial of a request that fits is a fault, and so is the denial by a limit that does not apply", () => {
    const ledger = after(1);
    expect(ledger.deny(ledger.send([one]), ["login"])).toEqual(['"login" denied a request that fits']);
    expect(ledger.deny(ledger.send([one]), ["other"])).toEqual(['"other" denied a request that it does not apply to']);
  });

  it("a response in which a limit is missing is a fault", () => {
    const ledger = new SpendRecord();
    expect(ledger.allow(ledger.send([one]), new Map())).toEqual(['the response does not report "login"']);
  });

  it("the final cost of a request counts from its end on, and not earlier", () => {
    const failed = { ...one, finalCost: 0 };
    const ledger = after(1, failed);
    expect(ledger.looked(one, ledger.leastOf(one), left(1))).toEqual([]);
    expect(ledger.looked(one, ledger.leastOf(one), left(2))).toEqual([]);
    expect(ledger.settled(one, left(2))).toEqual([]);
    expect(ledger.settled(one, left(1))).toHaveLength(1);
  });

  it("the response may report a debt only as 0 remaining units", () => {
    const dear = { ...one, finalCost: 5 };
    const ledger = after(1, dear);
    expect(ledger.settled(one, left(0))).toEqual([]);
    expect(ledger.settled(one, left(1))).toHaveLength(1);
  });

  it("a request with an unknown outcome may or may not have been charged", () => {
    const ledger = new SpendRecord();
    ledger.lose(ledger.send([one]));
    expect([2, 1, 0].map((remaining) => ledger.settled(one, left(remaining)).length)).toEqual([0, 0, 1]);
  });

  it("a dry run charges requests up to its limit and denies none", () => {
    const dry = { ...one, isDryRun: true };
    const ledger = after(1, dry);
    expect(ledger.settled(dry, left(1))).toEqual([]);
    expect(ledger.allow(ledger.send([dry]), null)).toEqual([]);
    expect(ledger.allow(ledger.send([dry]), null)).toEqual([]);
    expect(ledger.settled(dry, left(0))).toEqual([]);
  });

  it("a refund may be missing for a moment, but not at the end", () => {
    const passing = { ...one, isPassing: true };
    const ledger = new SpendRecord();
    expect(ledger.deny(ledger.send([passing]), [])).toEqual([]);
    expect(ledger.looked(one, ledger.leastOf(one), left(1))).toEqual([]);
    expect(ledger.settled(one, left(2))).toEqual([]);
    expect(ledger.settled(one, left(1))).toHaveLength(1);
  });
});
