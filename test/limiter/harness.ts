/** Objects on the platform, for tests that run in workerd. Tests in plain Node use test/fakes/test-object.ts. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { vi } from "vitest";
import type { Charge } from "../../src/limiter/protocol.ts";
import type { RateLimiter } from "../../src/limiter/object/durable-object.ts";
import { call, remainingOf } from "../fakes/calls.ts";
import { startMs } from "../fakes/isolate.ts";
import type { WriteCounts } from "../fakes/counted-storage.ts";

export { call, charge, confirmed, eventsOf, remainingOf } from "../fakes/calls.ts";
export { startMs } from "../fakes/isolate.ts";

export type Stub = DurableObjectStub<RateLimiter>;

/**
 * Sets the clock of all objects, which share the isolate of the tests, to `offsetMs` after `startMs`. This is ahead of
 * the platform's clock: an alarm in the platform's past would fire at once.
 */
export const at = (offsetMs: number): unknown => vi.setSystemTime(startMs + offsetMs);

export const newObject = (): Stub => env.RATE_LIMITER.getByName(crypto.randomUUID());

/** The remaining units of the first limit of a charge. */
export async function remaining(object: Stub, each: Charge, key = "k"): Promise<unknown> {
  const { decisions } = await object.look(call(each, key));
  return remainingOf(decisions);
}

/** The names of an object's rows, and the time of its alarm in milliseconds after `startMs`. */
export const stored = (object: Stub): Promise<[string[], number | null]> =>
  runInDurableObject(object, async (_, { storage }) => {
    const alarmAtMs = await storage.getAlarm();
    return [[...(await storage.list()).keys()], alarmAtMs === null ? null : alarmAtMs - startMs];
  });

/** Counts the writes of an object from now on, until it is evicted. */
export function countWrites(object: Stub): Promise<Readonly<WriteCounts>> {
  return runInDurableObject(object, (_, { storage }) => {
    const [put, remove] = [vi.spyOn(storage, "put"), vi.spyOn(storage, "delete")];
    const [setAlarm, deleteAll] = [vi.spyOn(storage, "setAlarm"), vi.spyOn(storage, "deleteAll")];
    const rowsOf = ([rows]: readonly unknown[]): number => Object.keys(Object(rows)).length;
    const sum = (calls: readonly (readonly unknown[])[]): number =>
      calls.reduce((rows, each) => rows + rowsOf(each), 0);
    return {
      get rows() {
        return sum(put.mock.calls) + sum(remove.mock.calls);
      },
      get alarms() {
        return setAlarm.mock.calls.length;
      },
      get puts() {
        return put.mock.calls.map(rowsOf);
      },
      get confirmedPuts() {
        const options = put.mock.calls.map((args): unknown => args.at(-1));
        return options.filter((each) => !Object(each).allowUnconfirmed).length;
      },
      get deletedAll() {
        return deleteAll.mock.calls.length;
      },
    };
  });
}
