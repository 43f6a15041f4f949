/** The binding of objects in memory: names, jurisdictions, cloned values and alarms. */
import { expect, it } from "vitest";
import type { RateLimiter } from "../../../src/limiter/object/durable-object.ts";
import { MemoryNamespace, MemoryObjects } from "../../../src/sdk/testing/memory-objects.ts";
import { VirtualClock } from "../../../src/sdk/testing/virtual-clock.ts";
import { call, charge, remainingOf } from "../../fakes/calls.ts";

const clock = new VirtualClock(0);
const namespace = (): DurableObjectNamespace<RateLimiter> =>
  new MemoryNamespace(new MemoryObjects(clock), (_, reply) => reply());

const perDay = charge("5/day");
const spend = async (stub: DurableObjectStub<RateLimiter>): Promise<number | undefined> =>
  remainingOf((await stub.check(call(perDay))).decisions);

it("stubs of one name call the same object, in whatever way and with whatever location hint they were created", async () => {
  const objects = namespace();
  const id = objects.idFromName("a");
  const stubs = [
    objects.getByName("a"),
    objects.getByName("a", { locationHint: "weur" }),
    objects.get(id),
    objects.get(objects.idFromString(id.toString()), { locationHint: "enam" }),
  ];
  const remaining: unknown[] = [];
  for (const stub of stubs) {
    // oxlint-disable-next-line no-await-in-loop
    remaining.push(await spend(stub));
  }
  expect(remaining).toEqual([4, 3, 2, 1]);
});

it("objects with another name, another jurisdiction or a unique id are different objects", async () => {
  const objects = namespace();
  const european = objects.jurisdiction("eu");
  const stubs = [
    objects.getByName("a"),
    objects.getByName("b"),
    european.getByName("a"),
    objects.get(objects.newUniqueId()),
    objects.get(objects.newUniqueId()),
    european.get(european.newUniqueId()),
  ];
  expect(await Promise.all(stubs.map(spend))).toEqual(stubs.map(() => 4));
  expect(objects.idFromName("a").equals(objects.idFromName("a"))).toBe(true);
  expect(objects.idFromName("a").equals(european.idFromName("a"))).toBe(false);
  expect(objects.idFromName("a").name).toBe("a");
});

it("arguments of a call to an object are cloned, and a value that cannot be cloned is an error", async () => {
  const stub = namespace().getByName("a");
  const sent = call(perDay);
  const reply = stub.check(sent);
  Object.assign(sent, { key: "changed after the call" });
  expect(remainingOf((await reply).decisions)).toBe(4);
  const uncloneable = { ...call(perDay), callback: () => undefined };
  await expect(stub.check(uncloneable)).rejects.toThrow(/could not be cloned/);
});

it.each(["constructor", "alarm", "unknown", "toString"])(
  "a call of %j, which is no method of an object for callers, fails as on the platform",
  async (method) => {
    const stub = namespace().getByName("a") as unknown as Record<string, () => Promise<unknown>>;
    await expect(stub[method]?.()).rejects.toThrow(`The RPC receiver does not implement the method "${method}".`);
  },
);

it("awaiting a stub returns the stub, since it is not a promise", async () => {
  const stub = namespace().getByName("a");
  expect(await Promise.resolve(stub)).toBe(stub);
});

it("an object in memory has every method of the platform's class", () => {
  type Method = Exclude<keyof RateLimiter, keyof DurableObject | `__${string}`>;
  const methods: Readonly<Record<Method, true>> = {
    decide: true,
    decideTree: true,
    reserveTree: true,
    refundTree: true,
    explainTree: true,
    check: true,
    lease: true,
    giveBackSlices: true,
    look: true,
    explain: true,
    refund: true,
    forget: true,
    reserve: true,
    sync: true,
    renew: true,
    settle: true,
    setRules: true,
  };
  const object = new MemoryObjects(clock).object("a");
  const missing = Object.keys(methods).filter((method) => !(method in object));
  expect(missing).toEqual([]);
});

it("an object deletes its stored rows when the clock passes its alarm", async () => {
  const time = new VirtualClock(0);
  const objects = new MemoryObjects(time);
  const object = objects.object("a");
  object.check(call(charge("5/minute")));
  await time.advance("2s");
  expect(time.hasTimer).toBe(true);
  await time.advance("2h");
  expect(time.hasTimer).toBe(false);
});
