/** Objects of a test's own, the calls they take, and what they leave in storage. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { vi } from "vitest";
import type {
  Charge,
  CheckCall,
  LeaseReply,
  ReturnReply,
  SliceReturned,
} from "../../src/limiter/protocol.ts";
import type { RateLimiter } from "../../src/limiter/object/rate-limiter.ts";
import { type Decision, type LimitInput, parseLimits } from "../../src/strategies/index.ts";

export type Stub = DurableObjectStub<RateLimiter>;

/** Ahead of the real clock, which alarms follow: one set in the past would fire at once. */
export const startMs = Date.UTC(2100, 0, 1);

/** Sets the clock of objects, which share the tests' isolate, so long after the start. */
export const at = (offsetMs: number): unknown => vi.setSystemTime(startMs + offsetMs);

export const newObject = (): Stub => env.RATE_LIMITER.getByName(crypto.randomUUID());

/** A charge of one policy, which names its limits too. */
export const charge = (
  limits: string | LimitInput,
  cost = 1,
  policy = "p",
  strategy = "fixed-window",
): Charge => ({ policy, limits: parseLimits(limits, { policy, strategy }), cost });

export const call = (charges: Charge | readonly Charge[], key = "k"): CheckCall => ({
  key,
  charges: "policy" in charges ? [charges] : charges,
});

export const confirmed = (charges: Charge | readonly Charge[], key = "k"): CheckCall => ({
  ...call(charges, key),
  durability: "confirmed",
});

/** What is left of the first limit of a charge. */
export async function remaining(object: Stub, each: Charge, key = "k"): Promise<unknown> {
  const { decisions } = await object.look(call(each, key));
  return remainingOf(decisions);
}

export const remainingOf = (decisions: readonly Decision[]): unknown =>
  decisions[0]?.limits[0]?.remaining;

interface Wanted {
  readonly units?: number;
  readonly ttlMs?: number;
  readonly id?: string;
  readonly returned?: SliceReturned[];
}

let slices = 0;

/** Borrows; with an id of its own unless one is given. */
export async function lease(
  object: Stub,
  charges: Charge | readonly Charge[],
  { units = 10, ttlMs = 5_000, id = `slice-${slices++}`, returned = [] }: Wanted = {},
): Promise<LeaseReply & { id: string }> {
  const leased = await object.lease({ ...call(charges), wanted: { id, units, ttlMs }, returned });
  return { ...leased, id };
}

export const giveBack = (object: Stub, id: string, used: number): Promise<ReturnReply> =>
  object.giveBackSlices({ key: "k", returned: [{ id, used }] });

/** 100 units in any minute. */
export const logOf = (cost: number, policy = "p"): Charge =>
  charge("100/minute", cost, policy, "sliding-log");

/** The names of an object's rows, and when its alarm is due after the start. */
export const stored = (object: Stub): Promise<[string[], number | null]> =>
  runInDurableObject(object, async (_, { storage }) => {
    const alarmAtMs = await storage.getAlarm();
    return [[...(await storage.list()).keys()], alarmAtMs === null ? null : alarmAtMs - startMs];
  });

export interface Written {
  /** Rows put or deleted. */
  readonly rows: number;
  readonly alarms: number;
  /** Rows of each put. */
  readonly puts: number[];
  readonly confirmedPuts: number;
  readonly deletedAll: number;
}

/** Counts what an object writes from now on, for as long as it stays in memory. */
export function counted(object: Stub): Promise<Written> {
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

/** Does something and returns the events that it logs. */
export async function eventsOf(act: () => unknown): Promise<string> {
  const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
  await act();
  const said = errors.mock.calls.join("\n");
  errors.mockRestore();
  return said;
}
