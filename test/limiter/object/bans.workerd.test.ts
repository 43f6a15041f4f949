import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Charge } from "../../../src/limiter/protocol.ts";
import { readPolicy } from "../../../src/config/index.ts";
import {
  at,
  call,
  charge,
  newObject,
  remainingOf,
  startMs,
  stored,
  type Stub,
} from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

const banOf = (ban: unknown): NonNullable<Charge["ban"]> => {
  const policy = readPolicy("", "", { name: "p", limits: "1/s", ban }, () => undefined);
  if (policy?.ban == null) throw new Error("a ban was configured");
  return policy.ban;
};

const banning = (limits: string, ban: unknown, policy = "p"): Charge => ({
  ...charge(limits, 1, policy),
  ban: banOf(ban),
});

const thrice = { after: 3, within: "10m", for: "1h" };

interface Said {
  allowed: boolean;
  bannedForMs: number;
  retryAfterMs: number | null;
}

const ask = async (object: Stub, ...charges: Charge[]): Promise<Said> => {
  const { decisions } = await object.check(call(charges));
  const [decision] = decisions;
  if (decision === undefined) throw new Error("no decision");
  const { allowed, bannedForMs, retryAfterMs } = decision;
  return { allowed, bannedForMs, retryAfterMs };
};

const free = { allowed: true, bannedForMs: 0, retryAfterMs: 0 };
const hourMs = 3_600_000;

describe("a ban after three denials within ten minutes", () => {
  it("begins with the third, and refuses for an hour, to the millisecond", async () => {
    const object = newObject();
    const login = banning("1/minute", thrice);
    expect(await ask(object, login)).toEqual(free);
    at(1_000);
    expect(await ask(object, login)).toMatchObject({ bannedForMs: 0, retryAfterMs: 59_000 });
    at(2_000);
    expect(await ask(object, login)).toMatchObject({ bannedForMs: 0 });
    at(3_000);
    expect(await ask(object, login)).toEqual({
      allowed: false,
      bannedForMs: hourMs,
      retryAfterMs: hourMs,
    });
    at(2_999 + hourMs);
    expect(await ask(object, login)).toMatchObject({ allowed: false, retryAfterMs: 4 - 3 });
    at(3_000 + hourMs);
    expect(await ask(object, login)).toEqual(free);
  });

  it("counts only denials of the last ten minutes", async () => {
    const object = newObject();
    const login = banning("1/h", thrice);
    for (const minutes of [0, 1, 2, 11, 13]) {
      at(minutes * 60_000);
      // oxlint-disable-next-line no-await-in-loop
      expect(await ask(object, login)).toMatchObject({ bannedForMs: 0 });
    }
    at(14 * 60_000);
    expect(await ask(object, login)).toMatchObject({ bannedForMs: hourMs });
  });

  it("counts afresh after it, and no refusal of its own", async () => {
    const object = newObject();
    const short = banning("1/day", { after: 2, within: "1h", for: "1m" });
    await ask(object, short);
    await ask(object, short);
    expect(await ask(object, short)).toMatchObject({ bannedForMs: 60_000 });
    at(30_000);
    expect(await ask(object, short)).toMatchObject({ bannedForMs: 30_000 });
    at(60_000);
    expect(await ask(object, short)).toMatchObject({ allowed: false, bannedForMs: 0 });
    expect(await ask(object, short)).toMatchObject({ bannedForMs: 60_000 });
  });

  it("is told by a look, which is no strike", async () => {
    const object = newObject();
    const strict = banning("1/minute", "10m");
    await ask(object, strict);
    const looked = async () => (await object.look(call({ ...strict, cost: 1 }))).decisions[0];
    expect(await looked()).toMatchObject({ allowed: false, bannedForMs: 0 });
    expect(await looked()).toMatchObject({ allowed: false, bannedForMs: 0 });
    expect(await ask(object, strict)).toMatchObject({ bannedForMs: 600_000 });
    expect(await looked()).toMatchObject({ allowed: false, bannedForMs: 600_000 });
  });

  it("spends nothing while it lasts, of any policy that is decided with it", async () => {
    const object = newObject();
    const strict = banning("1/minute", "10m");
    const wide = charge("5/day", 1, "wide");
    await ask(object, strict, wide);
    await ask(object, strict, wide);
    at(120_000);
    expect(await ask(object, strict, wide)).toMatchObject({ bannedForMs: 480_000 });
    expect(remainingOf((await object.look(call({ ...wide, cost: 0 }))).decisions)).toBe(4);
    expect(remainingOf((await object.look(call({ ...strict, cost: 0 }))).decisions)).toBe(1);
  });

  it("has no strike by what another policy denies", async () => {
    const object = newObject();
    const strict = banning("100/minute", "10m");
    const narrow = charge("1/day", 1, "narrow");
    await ask(object, strict, narrow);
    expect(await ask(object, strict, narrow)).toMatchObject({ allowed: true, bannedForMs: 0 });
    expect(await ask(object, strict)).toEqual(free);
  });

  it("lasts when its object is put out of memory, strikes as well", async () => {
    const object = newObject();
    const login = banning("1/second", thrice);
    await ask(object, login);
    await ask(object, login);
    await ask(object, login);
    await evictDurableObject(object);
    at(1_000);
    expect(await ask(object, login)).toMatchObject({ allowed: true });
    expect(await ask(object, login)).toMatchObject({ bannedForMs: hourMs });
    await evictDurableObject(object);
    at(11_000);
    expect(await ask(object, login)).toMatchObject({ bannedForMs: hourMs - 10_000 });
  });

  it("is lifted when the policy forgets the key", async () => {
    const object = newObject();
    const strict = banning("1/minute", "10m");
    await ask(object, strict);
    await ask(object, strict);
    await object.forget({ key: "k", policy: "p" });
    expect(await ask(object, strict)).toEqual(free);
    expect(await ask(object, strict)).toMatchObject({ bannedForMs: 600_000 });
  });

  it("leaves nothing in storage once it is over", async () => {
    const object = newObject();
    const strict = banning("1/second", "10m");
    await ask(object, strict);
    await ask(object, strict);
    at(600_000);
    await runDurableObjectAlarm(object);
    at(2 * hourMs);
    await runDurableObjectAlarm(object);
    expect(await stored(object)).toEqual([[], null]);
  });

  it("is not lengthened by a clock that steps back, and not endless by one that was ahead", async () => {
    const object = newObject();
    const strict = banning("1/minute", "10m");
    await ask(object, strict);
    await ask(object, strict);
    at(-30_000);
    expect(await ask(object, strict)).toMatchObject({ bannedForMs: 630_000 });
    at(-hourMs);
    expect(await ask(object, strict)).toMatchObject({ bannedForMs: 600_000 });
  });
});
