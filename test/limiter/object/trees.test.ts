/** Charges of several keys in one call: the levels of a tree, whose root's key the call names. */
import { describe, expect, it } from "vitest";
import type { Charge, CheckReply, KeyRule } from "../../../src/limiter/protocol.ts";
import { parseLimits } from "../../../src/strategies/index.ts";
import { call, charge, logOf } from "../../fakes/calls.ts";
import { TestObject } from "../../fakes/test-object.ts";

const on = (key: string, each: Charge): Charge => ({ ...each, key });

/** The charges of one request: the organisation `k`, the team `k t`, and a user of that team. */
const tree = (user = "k t u", cost = 1): Charge[] => [
  logOf(cost, "org"),
  on("k t", charge("50/minute", cost, "team", "sliding-log")),
  on(user, charge("10/minute", cost, "user", "sliding-log")),
];

const [org, team, user] = tree() as [Charge, Charge, Charge];

const left = (object: TestObject, charges = tree()): (number | undefined)[] =>
  object.limiter.look(call(charges)).decisions.map(({ limits }) => limits[0]?.remaining);

const allowedBy = (reply: CheckReply): boolean[] => reply.decisions.map(({ allowed }) => allowed);

const reserving = (charges: readonly Charge[], id = "r", ttlMs = 60_000) => ({ ...call(charges), id, ttlMs });

const stateRule: KeyRule = { id: "rule", kind: "allow" };
const firstVersion = { epoch: 1, version: 1 };

describe("a check of several keys", () => {
  it("a check charges each key, and other users of the team find what is left of the levels that they share", () => {
    const object = new TestObject();
    expect(allowedBy(object.limiter.check(call(tree("k t u", 3))))).toEqual([true, true, true]);
    expect([left(object), left(object, tree("k t v"))]).toEqual([
      [97, 47, 7],
      [97, 47, 10],
    ]);
  });

  it("a check charges no level if one denies, whichever level that is", () => {
    const object = new TestObject();
    expect(allowedBy(object.limiter.check(call([org, team, { ...user, cost: 11 }])))).toEqual([true, true, false]);
    expect(allowedBy(object.limiter.check(call([org, { ...team, cost: 51 }, user])))).toEqual([true, false, true]);
    expect(allowedBy(object.limiter.check(call([{ ...org, cost: 101 }, team, user])))).toEqual([false, true, true]);
    expect(left(object)).toEqual([100, 50, 10]);
  });

  it("a root without a charge of its own decides nothing", () => {
    const object = new TestObject();
    object.limiter.check(call({ ...org, cost: 100 }));
    expect(allowedBy(object.limiter.check(call([team, user])))).toEqual([true, true]);
    expect(left(object)).toEqual([0, 49, 9]);
  });

  it("a denial states the wait of each level by its own limit", () => {
    const object = new TestObject();
    object.limiter.check(call({ ...org, cost: 100 }));
    object.at(10_000);
    object.limiter.check(call({ ...user, cost: 10 }));
    const { decisions } = object.limiter.check(call(tree()));
    expect(decisions.map(({ retryAfterMs }) => retryAfterMs)).toEqual([50_000, 0, 60_000]);
  });

  it("the flat form of a call with keys is decided as the nested one", () => {
    const object = new TestObject();
    const texts = tree().map(({ policy, limits }) => JSON.stringify({ policy, limits }));
    const keys = ["k", "k t", "k t u"];
    const check = (cost: number) => ["k", 0, 1, 3, 0, cost, 0, 1, cost, 1, 2, cost, 2];
    const replies = object.limiter.decideTree(texts, keys, [...check(4), ...check(7)]);
    expect(left(object)).toEqual([96, 46, 6]);
    const allowed = 5;
    const valuesOfCharge = 11;
    const valuesOfReply = 1 + 3 * valuesOfCharge;
    const ofDecisions = [0, 1, 2].map((index) => [
      replies[allowed + index * valuesOfCharge],
      replies[valuesOfReply + allowed + index * valuesOfCharge],
    ]);
    expect(ofDecisions).toEqual([
      [1, 1],
      [1, 1],
      [1, 0],
    ]);
  });

  it("a refund gives back the charge of each key", () => {
    const object = new TestObject();
    const { spentAtMs } = object.limiter.check(call(tree("k t u", 5)));
    object.at(100);
    const charges = tree("k t u", 5).map((each, index) => ({ ...each, spentAtMs: spentAtMs[index] ?? 0 }));
    object.limiter.refundTree({ key: "k", charges });
    expect(left(object)).toEqual([100, 50, 10]);
  });

  it("an explanation describes the state of each level's key", () => {
    const object = new TestObject();
    object.limiter.check(call(tree("k t u", 2)));
    object.limiter.reserve(reserving([team, user]));
    object.limiter.setRules("k t u", "user", [stateRule], firstVersion);
    const { charges } = object.limiter.explainTree(call(tree()));
    expect(charges.map(({ policy, reservations, keyRules }) => [policy, reservations.units, keyRules.length])).toEqual([
      ["org", 0, 0],
      ["team", 1, 0],
      ["user", 1, 1],
    ]);
  });

  it("forgetting one level of one key leaves the other levels and keys as they are", () => {
    const object = new TestObject();
    object.limiter.check(call(tree("k t u", 2)));
    object.limiter.check(call(tree("k t v", 3)));
    object.limiter.forget({ key: "k t u", policy: "user" });
    expect([left(object), left(object, tree("k t v"))]).toEqual([
      [95, 45, 10],
      [95, 45, 7],
    ]);
  });
});

describe("bans, dry runs and key rules of a level", () => {
  const ban = {
    strikes: parseLimits({ limit: 2, window: "10m", strategy: "sliding-log" }),
    term: parseLimits({ limit: 1, window: "1h", strategy: "fixed-window" }),
  };

  it("denials by a level bring a ban of that level's key, which denies the requests of that key alone", () => {
    const object = new TestObject();
    const banning = (key: string, cost = 1): Charge[] => [org, { ...on(key, user), cost, ban }];
    for (let denial = 0; denial < 2; denial++) object.limiter.check(call(banning("k u", 11)));
    const { decisions } = object.limiter.check(call(banning("k u")));
    expect(decisions.map(({ allowed, bannedForMs }) => [allowed, bannedForMs])).toEqual([
      [true, 0],
      [false, 3_600_000],
    ]);
    expect(allowedBy(object.limiter.check(call(banning("k v"))))).toEqual([true, true]);
    expect(left(object, banning("k v"))).toEqual([99, 9]);
  });

  it("a level in a dry run never denies, and is charged by its own limit", () => {
    const object = new TestObject();
    const dry = [org, { ...team, ...charge("1/minute", 1, "team"), isDryRun: true }, user];
    const replies = [0, 1].map(() => allowedBy(object.limiter.check(call(dry))));
    expect(replies).toEqual([
      [true, true, true],
      [true, false, true],
    ]);
    expect(left(object, dry)).toEqual([98, 0, 8]);
  });

  it("a rule that allows a key exempts it from its level, and the other levels are charged", () => {
    const object = new TestObject();
    object.limiter.setRules("k t u", "user", [stateRule], firstVersion);
    expect(object.limiter.check(call(tree("k t u", 30)))).toMatchObject({
      decisions: [{ allowed: true }, { allowed: true }, { allowed: true }],
      keyRules: [null, null, stateRule],
    });
    expect(left(object)).toEqual([70, 20, 10]);
  });

  it("a rule that blocks a key denies its requests, charges no level, and leaves other keys alone", () => {
    const object = new TestObject();
    object.limiter.setRules("k t", "team", [{ id: "rule", kind: "block" }], firstVersion);
    expect(object.limiter.check(call(tree()))).toMatchObject({ decisions: [{}, { allowed: false }, {}], isFirm: true });
    const elsewhere = [org, on("k s", team), on("k s u", user)];
    expect(allowedBy(object.limiter.check(call(elsewhere)))).toEqual([true, true, true]);
    expect([left(object), left(object, elsewhere)]).toEqual([
      [99, 50, 10],
      [99, 49, 9],
    ]);
  });
});

describe("a denial of a tree", () => {
  const full = tree("k t u", 11);

  it("a denial is firm if nothing of any level can be given back", () => {
    expect(new TestObject().limiter.check(call(full))).toMatchObject({ isFirm: true });
  });

  it.for([
    ["the root", [org]],
    ["a level that allows", [team]],
  ] as const)("a denial is not firm while a reservation of %s is open", ([, charges]) => {
    const object = new TestObject();
    object.limiter.reserve(reserving(charges));
    expect(object.limiter.check(call(full)).isFirm).toBeUndefined();
  });

  it("a denial is firm for a short time only while a spend of a shared level is provisional", () => {
    const object = new TestObject();
    object.limiter.check({ ...call(tree("k t v")), provisionalMs: 1_000 });
    expect(object.limiter.check(call(full))).toMatchObject({ isFirm: true, firmForMs: 100 });
  });
});

describe("the policy rules of a level", () => {
  const rules = (version: number) => ({ epoch: 1, version, text: `[${version}]` });
  const under = (version: number): Charge[] => [org, { ...team, rules: rules(version) }];

  it("a call under older rules of any level is not decided, and charges no level", () => {
    const object = new TestObject();
    object.limiter.check(call(under(2)));
    expect(object.limiter.check(call(under(1)))).toMatchObject({ decisions: [], stale: [{ policy: "team" }] });
    expect(left(object)).toEqual([99, 49, 10]);
  });

  it.for<[string, (object: TestObject) => CheckReply]>([
    ["check", (object) => object.limiter.check(call(under(1)))],
    ["look", (object) => object.limiter.look(call(under(1)))],
    ["reservation", (object) => object.limiter.reserve(reserving(under(1)))],
    ["explanation", (object) => object.limiter.explain(call(under(1))).reply],
  ])("a %s after a restart is stale under rules that are older than those in the row of a level", async ([, ask]) => {
    const object = new TestObject();
    object.limiter.check(call(under(2)));
    await object.evict();
    expect(ask(object)).toMatchObject({ decisions: [], stale: [{ policy: "team", ...rules(2) }] });
  });
});
