/** Alerts of keys that pass 80, 90 or 100 % of a limit. */
import { describe, expect, it } from "vitest";
import { KeyAlerts } from "../../../src/control/isolate/tail-and-alerts.ts";
import { decisionOf } from "../decisions.ts";

const alerts = (): KeyAlerts => new KeyAlerts();

const note = (to: KeyAlerts, remaining: number, nowMs = 0, capacity = 100, key = "k"): void =>
  to.note("p", key, decisionOf({ remaining, capacity, resetAfterMs: 60_000 }), nowMs);

const percents = (from: KeyAlerts): number[] => from.drain().map(({ percent }) => percent);

describe("key alerts", () => {
  it("an alert states policy, key, limit and percentage, and is returned once", () => {
    const each = alerts();
    note(each, 20);
    expect(each.drain()).toEqual([{ policy: "p", key: "k", limit: "p", percent: 80 }]);
    expect(each.drain()).toEqual([]);
  });

  it("a key that uses up its limit passes each percentage once", () => {
    const each = alerts();
    for (let remaining = 100; remaining >= 0; remaining--) note(each, remaining);
    for (let remaining = 0; remaining <= 20; remaining++) note(each, remaining);
    expect(percents(each)).toEqual([80, 90, 100]);
  });

  it.each([1, 3, 5, 7, 10, 35, 999])("the alerts of a limit of %d units are exact", (capacity) => {
    for (let used = 0; used <= capacity; used++) {
      const each = alerts();
      note(each, capacity - used, 0, capacity);
      const expected = [100, 90, 80].find((percent) => used * 100 >= percent * capacity);
      expect(percents(each)).toEqual(expected === undefined ? [] : [expected]);
    }
  });

  it("a key has new alerts in the next window", () => {
    const each = alerts();
    note(each, 0, 0);
    note(each, 0, 59_999);
    expect(percents(each)).toEqual([100]);
    note(each, 15, 60_000);
    expect(percents(each)).toEqual([80]);
  });

  it("each key and each limit has alerts of its own", () => {
    const each = alerts();
    note(each, 10, 0, 100, "k");
    note(each, 10, 0, 100, "l");
    each.note("p", "k", decisionOf({ name: "a", remaining: 0 }, { name: "b", remaining: 90 }), 0);
    expect(each.drain().map(({ key, limit, percent }) => [key, limit, percent])).toEqual([
      ["k", "p", 90],
      ["l", "p", 90],
      ["k", "a", 100],
    ]);
  });

  it("many keys at once cause at most 64 alerts between two beats", () => {
    const each = alerts();
    for (let number = 0; number < 10_000; number++) note(each, 0, 0, 100, `k${number}`);
    expect(each.drain()).toHaveLength(64);
  });

  it("a key whose alert does not fit into a beat has its alert in a later beat", () => {
    const each = alerts();
    for (let number = 0; number < 64; number++) note(each, 0, 0, 100, `k${number}`);
    note(each, 0, 0, 100, "late");
    expect(each.drain().map(({ key }) => key)).not.toContain("late");
    note(each, 0, 0, 100, "late");
    expect(each.drain().map(({ key }) => key)).toEqual(["late"]);
  });
});
