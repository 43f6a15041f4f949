/** Bans: after repeated denials by its own limits, a policy denies a key for a while. */
import { describe, expect, it } from "vitest";
import type { Charge } from "../../../src/limiter/protocol.ts";
import { readPolicy } from "../../../src/policy/policy.ts";
import { call, charge, remainingOf } from "../../fakes/calls.ts";
import { TestObject } from "../../fakes/test-object.ts";

const banOf = (ban: unknown): NonNullable<Charge["ban"]> => {
  const policy = readPolicy("", "", { name: "p", limits: "1/s", ban }, () => undefined);
  if (policy?.ban == null) throw new Error("a ban was configured");
  return policy.ban;
};

const banning = (limits: string, ban: unknown, policy = "p"): Charge => ({
  ...charge(limits, 1, policy),
  ban: banOf(ban),
});

const threeStrikes = { after: 3, within: "10m", for: "1h" };

interface BanDecision {
  allowed: boolean;
  bannedForMs: number;
  retryAfterMs: number | null;
}

const check = (object: TestObject, ...charges: Charge[]): BanDecision => {
  const { decisions } = object.limiter.check(call(charges));
  const [decision] = decisions;
  if (decision === undefined) throw new Error("no decision");
  const { allowed, bannedForMs, retryAfterMs } = decision;
  return { allowed, bannedForMs, retryAfterMs };
};

const allowedAtOnce = { allowed: true, bannedForMs: 0, retryAfterMs: 0 };
const hourMs = 3_600_000;

describe("a ban", () => {
  it("a ban after three denials begins with the third denial and lasts exactly one hour", async () => {
    const object = new TestObject();
    const login = banning("1/minute", threeStrikes);
    expect(check(object, login)).toEqual(allowedAtOnce);
    object.at(1_000);
    expect(check(object, login)).toMatchObject({ bannedForMs: 0, retryAfterMs: 59_000 });
    object.at(2_000);
    expect(check(object, login)).toMatchObject({ bannedForMs: 0 });
    object.at(3_000);
    expect(check(object, login)).toEqual({
      allowed: false,
      bannedForMs: hourMs,
      retryAfterMs: hourMs,
    });
    object.at(2_999 + hourMs);
    expect(check(object, login)).toMatchObject({ allowed: false, retryAfterMs: 1 });
    object.at(3_000 + hourMs);
    expect(check(object, login)).toEqual(allowedAtOnce);
  });

  it("only denials of the last ten minutes count towards a ban", async () => {
    const object = new TestObject();
    const login = banning("1/h", threeStrikes);
    for (const minutes of [0, 1, 2, 11, 13]) {
      object.at(minutes * 60_000);
      // oxlint-disable-next-line no-await-in-loop
      expect(check(object, login)).toMatchObject({ bannedForMs: 0 });
    }
    object.at(14 * 60_000);
    expect(check(object, login)).toMatchObject({ bannedForMs: hourMs });
  });

  it("requests during a ban are not strikes (denials that count towards a ban), and strikes count from zero after the ban", async () => {
    const object = new TestObject();
    const short = banning("1/day", { after: 2, within: "1h", for: "1m" });
    check(object, short);
    check(object, short);
    expect(check(object, short)).toMatchObject({ bannedForMs: 60_000 });
    object.at(30_000);
    expect(check(object, short)).toMatchObject({ bannedForMs: 30_000 });
    object.at(60_000);
    expect(check(object, short)).toMatchObject({ allowed: false, bannedForMs: 0 });
    expect(check(object, short)).toMatchObject({ bannedForMs: 60_000 });
  });

  it("a look reports a ban and is not a strike (a denial that counts towards a ban)", async () => {
    const object = new TestObject();
    const strict = banning("1/minute", "10m");
    check(object, strict);
    const look = () => object.limiter.look(call({ ...strict, cost: 1 })).decisions[0];
    expect(look()).toMatchObject({ allowed: false, bannedForMs: 0 });
    expect(look()).toMatchObject({ allowed: false, bannedForMs: 0 });
    expect(check(object, strict)).toMatchObject({ bannedForMs: 600_000 });
    expect(look()).toMatchObject({ allowed: false, bannedForMs: 600_000 });
  });

  it("during a ban by one policy, no policy in the same call spends", async () => {
    const object = new TestObject();
    const strict = banning("1/minute", "10m");
    const wide = charge("5/day", 1, "wide");
    check(object, strict, wide);
    check(object, strict, wide);
    object.at(120_000);
    expect(check(object, strict, wide)).toMatchObject({ bannedForMs: 480_000 });
    expect(remainingOf(object.limiter.look(call({ ...wide, cost: 0 })).decisions)).toBe(4);
    expect(remainingOf(object.limiter.look(call({ ...strict, cost: 0 })).decisions)).toBe(1);
  });

  it("a denial by another policy is not a strike (a denial that counts towards a ban)", async () => {
    const object = new TestObject();
    const strict = banning("100/minute", "10m");
    const narrow = charge("1/day", 1, "narrow");
    check(object, strict, narrow);
    expect(check(object, strict, narrow)).toMatchObject({ allowed: true, bannedForMs: 0 });
    expect(check(object, strict)).toEqual(allowedAtOnce);
  });

  it("a ban and its strikes (denials that count towards a ban) survive an eviction of the object", async () => {
    const object = new TestObject();
    const login = banning("1/second", threeStrikes);
    check(object, login);
    check(object, login);
    check(object, login);
    await object.evict();
    object.at(1_000);
    expect(check(object, login)).toMatchObject({ allowed: true });
    expect(check(object, login)).toMatchObject({ bannedForMs: hourMs });
    await object.evict();
    object.at(11_000);
    expect(check(object, login)).toMatchObject({ bannedForMs: hourMs - 10_000 });
  });

  it("deleting the key lifts its ban", async () => {
    const object = new TestObject();
    const strict = banning("1/minute", "10m");
    check(object, strict);
    check(object, strict);
    object.limiter.forget({ key: "k", policy: "p" });
    expect(check(object, strict)).toEqual(allowedAtOnce);
    expect(check(object, strict)).toMatchObject({ bannedForMs: 600_000 });
  });

  it("a ban that has ended leaves nothing in storage", async () => {
    const object = new TestObject();
    const strict = banning("1/second", "10m");
    check(object, strict);
    check(object, strict);
    object.at(600_000);
    await object.runAlarm();
    object.at(2 * hourMs);
    await object.runAlarm();
    expect(await object.stored()).toEqual([[], null]);
  });

  it("a clock that steps back by 30 s lengthens a ban by 30 s, and one that steps back by an hour restarts the ban", async () => {
    const object = new TestObject();
    const strict = banning("1/minute", "10m");
    check(object, strict);
    check(object, strict);
    object.at(-30_000);
    expect(check(object, strict)).toMatchObject({ bannedForMs: 630_000 });
    object.at(-hourMs);
    expect(check(object, strict)).toMatchObject({ bannedForMs: 600_000 });
  });
});
