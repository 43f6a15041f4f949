/** The checks after all requests have been answered: nothing is in flight, and every reservation is settled. */
import { setTimeout } from "node:timers/promises";
import { jsonOf } from "./answers.ts";
import { slots } from "./by-rule.ts";
import { callOf, queryOf } from "./checks.ts";
import { Connection, type TargetAddress } from "./connection.ts";
import { Draw } from "./draw.ts";
import type { ExpectedCharge, SpendRecord } from "./ledger.ts";
import type { OriginReport } from "./origin.ts";
import { remainingByLimit } from "./own.ts";
import { catchAll, everything } from "./requests.ts";
import type { FuzzResult } from "./run.ts";

export interface Aftermath {
  readonly keys: number;
  readonly faults: readonly string[];
}

const patienceMs = 30_000;
/** The time for settlements after the responses, including those of disconnected clients. */
const settledMs = 8_000;

type Remaining = (charge: ExpectedCharge) => Promise<Map<string, number>>;

export async function aftermath(place: TargetAddress, origin: URL, course: FuzzResult): Promise<Aftermath> {
  const connection = new Connection(place);
  const remaining: Remaining = async (charge) => {
    const { bytes } = callOf(new Draw(0, 0), "GET", `/check${queryOf(charge)}`);
    return remainingByLimit(jsonOf(await connection.exchange(bytes, false, patienceMs)));
  };
  const { ledger, passages } = course;
  const arrivals = await arrivalsAt(origin);
  const looks = [
    ...ledger.charges().flatMap((charge) => ofKey(charge, ledger, remaining)),
    ...Object.keys(arrivals.mostInFlight).map((key) => ofSlots(key, remaining)),
  ];
  const untilMs = Date.now() + settledMs;
  const faults: string[] = [];
  for (const look of looks) {
    // There are thousands of looks, so they run one after the other.
    // oxlint-disable-next-line no-await-in-loop
    faults.push(...(await inTime(look, untilMs)));
  }
  const left = (await remaining(everything)).get(everything.policy) ?? 0;
  connection.close();
  faults.push(...arrivalFaults(course, await arrivalsAt(origin), catchAll.limit - left));
  faults.push(...passages.banFaults(), ...passages.queueFaults());
  return { keys: looks.length, faults };
}

type Look = () => Promise<string[]>;

/** Checks that the units spent by a key equal the cost of its requests. Checks only keys that `/check` can name. */
function ofKey(charge: ExpectedCharge, ledger: SpendRecord, remaining: Remaining): Look[] {
  const { policy, key, named } = charge;
  if (named === null || named.length === 0) return [];
  return [
    async () => {
      const faults = ledger.settled(charge, await remaining(charge));
      return faults.map((fault) => `${policy} ${key}: ${fault}`);
    },
  ];
}

/** Checks that all slots are free. */
function ofSlots(key: string, remaining: Remaining): Look {
  return async () => {
    const free = (await remaining({ ...everything, policy: "slots", named: [key] })).get("slots");
    return free === slots ? [] : [`slots ${key}: ${free} of ${slots} are free at the end`];
  };
}

/** Repeats a look until the look finds no fault or the time is up. */
async function inTime(look: Look, untilMs: number): Promise<string[]> {
  for (;;) {
    // oxlint-disable no-await-in-loop
    const faults = await look();
    if (faults.length === 0 || Date.now() > untilMs) return faults;
    await setTimeout(100);
    // oxlint-enable no-await-in-loop
  }
}

async function arrivalsAt(origin: URL): Promise<OriginReport> {
  const response = await fetch(new URL("/arrivals", origin));
  return response.json<OriginReport>();
}

/** @param spent the units spent by the policy that matches every request */
export function arrivalFaults(
  { letIn, denied, lost }: Pick<FuzzResult, "letIn" | "denied" | "lost">,
  { ids, changed, count, mostInFlight }: OriginReport,
  spent: number,
): string[] {
  const arrived = new Set(ids);
  const missing = letIn.filter((id) => !arrived.has(id));
  const smuggled = denied.filter((id) => arrived.has(id));
  const crowded = Object.entries(mostInFlight).filter(([, most]) => most > slots);
  return [
    ...(ids.length > arrived.size ? ["a request has reached the origin twice"] : []),
    ...changed.map((id) => `request ${id} has reached the origin with another method or not through Headgate`),
    ...missing.map((id) => `request ${id} was allowed and has not reached the origin`),
    ...smuggled.map((id) => `request ${id} was denied, and has reached the origin`),
    ...crowded.map(([key, most]) => `slots ${key}: ${most} were in flight at the same time`),
    ...(count <= spent && spent <= count + lost
      ? []
      : [`${count} requests have reached the origin, and ${spent} units were spent for them`]),
  ];
}
