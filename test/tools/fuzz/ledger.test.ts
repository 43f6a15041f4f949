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

/** A ledger that has seen so many requests let in, one after the other. */
function after(count: number, charge = one): SpendRecord {
  const ledger = new SpendRecord();
  for (let request = 0; request < count; request++) ledger.letIn(ledger.send([charge]), null);
  return ledger;
}

describe("the ledger of a fuzz run", () => {
  it("finds nothing wrong with a quota that is spent unit by unit, and no further", () => {
    const ledger = new SpendRecord();
    expect(ledger.letIn(ledger.send([one]), left(1))).toEqual([]);
    expect(ledger.letIn(ledger.send([one]), left(0))).toEqual([]);
    expect(ledger.refuse(ledger.send([one]), ["login"])).toEqual([]);
    expect(ledger.settled(one, left(0))).toEqual([]);
  });

  it("lets requests that are under way at once be decided in any order", () => {
    const ledger = new SpendRecord();
    const [first, second, third] = [ledger.send([one]), ledger.send([one]), ledger.send([one])];
    expect(ledger.refuse(second, ["login"])).toEqual([]);
    expect(ledger.letIn(third, left(0))).toEqual([]);
    expect(ledger.letIn(first, left(1))).toEqual([]);
  });

  it("tells of a request too many", () => {
    const ledger = after(2);
    expect(ledger.letIn(ledger.send([one]), null)).toEqual(['"login" let in more than its 2']);
  });

  it("tells of quota that comes back by itself", () => {
    const ledger = after(1);
    const fault = '"login" tells that 2 of 2 remain, where it is 1';
    expect(ledger.looked(one, ledger.leastOf(one), left(2))).toEqual([fault]);
    expect(ledger.settled(one, left(2))).toEqual([fault]);
    expect(ledger.letIn(ledger.send([one]), left(1))).toEqual([
      '"login" tells that 1 of 2 remain, where it is 0',
    ]);
  });

  it("tells of quota that is gone for nothing", () => {
    expect(after(1).settled(one, left(0))).toEqual([
      '"login" tells that 0 of 2 remain, where it is 1',
    ]);
  });

  it("tells of a refusal of what would have fitted, and of one by whom it is not for", () => {
    const ledger = after(1);
    expect(ledger.refuse(ledger.send([one]), ["login"])).toEqual([
      '"login" refused what would have fitted',
    ]);
    expect(ledger.refuse(ledger.send([one]), ["other"])).toEqual([
      '"other" refused what it is not for',
    ]);
  });

  it("tells of a limit that says nothing, as if the request had never met it", () => {
    const ledger = new SpendRecord();
    expect(ledger.letIn(ledger.send([one]), new Map())).toEqual(['nothing is told of "login"']);
  });

  it("expects what a request has cost after all, in the end and no earlier", () => {
    const failed = { ...one, finalCost: 0 };
    const ledger = after(1, failed);
    expect(ledger.looked(one, ledger.leastOf(one), left(1))).toEqual([]);
    expect(ledger.looked(one, ledger.leastOf(one), left(2))).toEqual([]);
    expect(ledger.settled(one, left(2))).toEqual([]);
    expect(ledger.settled(one, left(1))).toHaveLength(1);
  });

  it("tells nothing of a debt but that nothing remains", () => {
    const dear = { ...one, finalCost: 5 };
    const ledger = after(1, dear);
    expect(ledger.settled(one, left(0))).toEqual([]);
    expect(ledger.settled(one, left(1))).toHaveLength(1);
  });

  it("takes what nobody has seen the end of for spent or not", () => {
    const ledger = new SpendRecord();
    ledger.lose(ledger.send([one]));
    expect([2, 1, 0].map((remaining) => ledger.settled(one, left(remaining)).length)).toEqual([
      0, 0, 1,
    ]);
  });

  it("expects a dry run to spend as far as it fits, and to refuse nothing", () => {
    const dry = { ...one, isDryRun: true };
    const ledger = after(1, dry);
    expect(ledger.settled(dry, left(1))).toEqual([]);
    expect(ledger.letIn(ledger.send([dry]), null)).toEqual([]);
    expect(ledger.letIn(ledger.send([dry]), null)).toEqual([]);
    expect(ledger.settled(dry, left(0))).toEqual([]);
  });

  it("allows what is given back to be missing for a moment, and not in the end", () => {
    const passing = { ...one, isPassing: true };
    const ledger = new SpendRecord();
    expect(ledger.refuse(ledger.send([passing]), [])).toEqual([]);
    expect(ledger.looked(one, ledger.leastOf(one), left(1))).toEqual([]);
    expect(ledger.settled(one, left(2))).toEqual([]);
    expect(ledger.settled(one, left(1))).toHaveLength(1);
  });
});
