/** Bans, rules, slices, reservations and versions in the result of `explain`. */
import { expect, it } from "vitest";
import { call, charge, confirmed } from "../../fakes/calls.ts";
import { startMs } from "../../fakes/isolate.ts";
import { block, limits, ruled, setRules, until } from "../../fakes/ruled-object.ts";
import { TestObject } from "../../fakes/test-object.ts";

const hour = charge("100/hour");
const nothingOpen = { count: 0, units: 0, nextEndAtMs: null };

it("an explanation of an unknown key has the limits of the call and nothing else", async () => {
  const object = new TestObject();
  const { atMs, charges, reply } = object.limiter.explain(call(hour));
  expect(atMs).toBe(startMs);
  expect(reply).toEqual(object.limiter.look(call(hour)));
  expect(charges).toEqual([
    {
      policy: "p",
      limits: hour.limits,
      accounts: [expect.anything()],
      bannedForMs: 0,
      keyRules: [],
      keyRulesVersion: null,
      policyRulesVersion: null,
      slices: nothingOpen,
      reservations: nothingOpen,
    },
  ]);
  expect([object.limiter.cachedBytes, object.storage.written.rows]).toEqual([0, 0]);
});

it("an explanation lists bans, rules, slices, reservations and versions of each policy", () => {
  const object = new TestObject();
  const boost = { ...limits("200/hour", "boost"), ...until(60_000) };
  const rules = { epoch: 5, version: 3, text: "[]" };
  const ban = {
    strikes: charge("1/hour").limits,
    term: charge("1/hour").limits,
  };
  const strict = { ...charge("1/hour", 2, "strict"), ban };
  object.limiter.check(call(strict));
  setRules(object, 7, boost, block);
  setRules(object, 8, boost);
  object.limiter.reserve({ ...call({ ...hour, cost: 3, rules }), id: "r1", ttlMs: 60_000 });
  object.at(1_000);
  object.limiter.reserve({ ...call({ ...hour, cost: 4, rules }), id: "r2", ttlMs: 30_000 });
  object.lease({ ...hour, cost: 0 }, { units: 10, ttlMs: 5_000 });
  object.at(2_000);
  const { atMs, reply, charges } = object.limiter.explain(call([hour, strict]));
  expect([atMs, reply.keyRules]).toEqual([startMs + 2_000, [boost, null]]);
  expect(charges).toEqual([
    {
      policy: "p",
      limits: boost.limits,
      accounts: [expect.anything()],
      bannedForMs: 0,
      keyRules: [boost],
      keyRulesVersion: { epoch: 1, version: 8 },
      policyRulesVersion: { epoch: 5, version: 3 },
      slices: { count: 1, units: 10, nextEndAtMs: startMs + 6_000 },
      reservations: { count: 2, units: 7, nextEndAtMs: startMs + 31_000 },
    },
    {
      policy: "strict",
      limits: strict.limits,
      accounts: [expect.anything()],
      bannedForMs: 3_600_000 - 2_000,
      keyRules: [],
      keyRulesVersion: null,
      policyRulesVersion: null,
      slices: nothingOpen,
      reservations: nothingOpen,
    },
  ]);
});

it("an explanation omits reservations that have expired or belong to other policies", () => {
  const object = new TestObject();
  object.limiter.reserve({ ...call(hour), id: "r1", ttlMs: 1_000 });
  object.limiter.reserve({ ...call(charge("9/hour", 1, "q")), id: "r2", ttlMs: 60_000 });
  object.at(1_000);
  expect(object.limiter.explain(call(hour)).charges[0]?.reservations).toEqual(nothingOpen);
});

it("an explanation writes nothing and changes no later decision", async () => {
  const object = ruled(limits("200/hour"));
  object.limiter.check(confirmed({ ...hour, cost: 50 }));
  const writes = object.storage.countWrites();
  const newer = { ...hour, rules: { epoch: 9, version: 9, text: "[1]" } };
  for (let count = 0; count < 5; count++) object.limiter.explain(call({ ...newer, cost: 500 }));
  expect(object.remaining(hour)).toBe(150);
  await object.evict();
  expect(writes.rows).toBe(0);
});
