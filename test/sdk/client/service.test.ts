/** Errors of a service binding, as other Workers receive them. */
import { describe, expect, it } from "vitest";
import { createClientAt } from "../../../src/sdk/client/client.ts";
import { thrownBy } from "./setup.ts";
import { SkippingClock, timeoutMs } from "./skipping-clock.ts";

const key = { policy: "api", key: "k" };

/** A client whose service rejects every call with this error, and the names of the calls. */
function clientOf(error: unknown) {
  const calls: string[] = [];
  const clock = new SkippingClock();
  // Like a binding, the object has a method for every name.
  const service = new Proxy(
    {},
    {
      get: (_, name) => (): Promise<never> => {
        calls.push(String(name));
        return Promise.reject(error);
      },
    },
  ) as never;
  return { limiter: createClientAt(clock, () => 0, { service, timeoutMs }), calls, clock };
}

const errorOf = (title: string, status: number, members: object = {}): Error =>
  Object.assign(new Error(`${title}: Detail.`), {
    problem: { type: "about:blank", title, status, detail: "Detail.", ...members },
  });

describe("an error of the service", () => {
  it.each([
    ["Not Found", 404],
    ["Unprocessable Content", 422],
    ["Too Many Requests", 429],
    ["Internal Server Error", 500],
  ])("a problem %s of the service is thrown and not repeated", async (title, status) => {
    const thrown = errorOf(title, status);
    const { limiter, calls } = clientOf(thrown);
    expect(await thrownBy(limiter.look(key))).toMatchObject({
      name: "HeadgateError",
      message: `service.look(): ${title}: Detail.`,
      status,
      problem: { title, status },
      cause: thrown,
      isSafeToRepeat: true,
    });
    expect(calls).toEqual(["look"]);
  });

  it("a 503 of the service is repeated, unless the call may have been charged", async () => {
    const { limiter, calls, clock } = clientOf(errorOf("Service Unavailable", 503));
    expect(await thrownBy(limiter.settle({ id: "i", cost: 1 }))).toMatchObject({ status: 503 });
    expect(await thrownBy(limiter.check(key))).toMatchObject({
      status: 503,
      isSafeToRepeat: false,
    });
    expect(calls).toEqual(["settle", "settle", "settle", "check"]);
    expect(clock.waits).toEqual([100, 200]);
  });

  it("a lost connection to the service is repeated, unless the call may have been charged", async () => {
    const { limiter, calls } = clientOf(new Error("Network connection lost."));
    expect(await thrownBy(limiter.forget(key))).toMatchObject({ status: null });
    expect(await thrownBy(limiter.reserve({ ...key, ttlMs: 1_000 }))).toMatchObject({
      message: "service.reserve(): Network connection lost.",
      status: null,
      isSafeToRepeat: false,
    });
    expect(calls).toEqual(["forget", "forget", "forget", "reserve"]);
  });

  it.each([
    ["Not Found: There is no policy with this name.", 404, true],
    ["Unprocessable Content: cost: expected an integer", 422, true],
    ["Service Unavailable: The rate limiter did not reach a decision.", 503, false],
  ])(
    "the status of the error %j without problem details is that of its title",
    async (message, status, isSafeToRepeat) => {
      const { limiter, calls } = clientOf(new Error(message));
      expect(await thrownBy(limiter.check(key))).toMatchObject({
        message: `service.check(): ${message}`,
        status,
        problem: null,
        isSafeToRepeat,
      });
      expect(calls).toEqual(["check"]);
    },
  );

  it("a binding to another entrypoint causes an error that names the expected entrypoint", async () => {
    const { limiter, calls } = clientOf(new TypeError('The RPC receiver does not implement the method "look".'));
    expect(String(await thrownBy(limiter.look(key)))).toBe(
      'TypeError: service: expected a service binding with entrypoint = "Headgate", got one without look()',
    );
    expect(calls).toEqual(["look"]);
  });

  it("when the answer comes from another service, the error names the field that is wrong", async () => {
    const service = new Proxy({}, { get: () => async () => ({ allowed: "yes" }) }) as never;
    const limiter = createClientAt(new SkippingClock(), () => 0, { service, timeoutMs });
    expect(await thrownBy(limiter.look(key))).toMatchObject({
      message: 'service.look(): expected allowed to be true or false, got "yes"',
    });
  });
});
