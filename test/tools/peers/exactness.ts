/** Replays the traffic of the accuracy table through other rate limiters. */
import { randomFrom } from "../../random.ts";
import { type Accuracy, shape, sumOf, type Tally, tallyOf } from "../accuracy-replay.ts";
import { markdownTable, percent, type Row } from "../table.ts";
import { type KeyArrivals, kinds } from "../traffic.ts";
import { type PeerLimiter, peerLimiters } from "./limiters.ts";
import { inVirtualTime } from "./virtual-time.ts";

/** The number of isolates, processes or locations to which requests are distributed at random. */
export const manyPlaces = 3;

export interface PeerExactness {
  readonly title: string;
  readonly counters: string;
  /** All requests reach one place. */
  readonly inOne: Tally;
  /** Each request reaches one of `manyPlaces`. */
  readonly inMany: Tally;
}

/** The rows of Headgate, where one object decides all requests of a key, from all isolates. */
const headgateRows = [
  ["sliding-log", "`sliding-log`"],
  ["sliding-buckets keep", "`sliding-buckets`"],
  ["sliding-window-counter first-request", "`sliding-window-counter`, the default"],
  ["fixed-window first-request", "`fixed-window`"],
] as const;

export async function measurePeers(accuracy: readonly Accuracy[], requests = shape.requests): Promise<PeerExactness[]> {
  const own = headgateRows.map(([form, title]): PeerExactness => {
    const measured = accuracy.find((each) => each.form.title === form);
    if (measured === undefined) throw new Error(`${form} is not measured`);
    const tally = sumOf([...measured.tallies.values()]);
    return { title: `Headgate, ${title}`, counters: "one object", inOne: tally, inMany: tally };
  });
  const peers: PeerExactness[] = [];
  for (const { title, counters, start } of peerLimiters) {
    const inOne = await tallyOfPeer(start, 1, requests);
    const inMany = await tallyOfPeer(start, manyPlaces, requests);
    peers.push({ title, counters, inOne, inMany });
  }
  return [...own, ...peers];
}

async function tallyOfPeer(start: PeerLimiter["start"], places: number, requests: number): Promise<Tally> {
  const tallies: Tally[] = [];
  for (const arrivalsOf of Object.values(kinds)) {
    const arrivals = arrivalsOf({ ...shape, requests });
    const decisions = await decideAll(start, places, arrivals);
    arrivals.forEach((instants, key) => {
      const allowed = decisions[key]?.values();
      const next = (): boolean => allowed?.next().value ?? false;
      if (instants.length === 0) return;
      tallies.push(tallyOf(instants, () => ({ allowed: next(), delayMs: 0 })));
    });
  }
  return sumOf(tallies);
}

/** @returns the decisions on the requests of each key, in their order */
async function decideAll(start: PeerLimiter["start"], places: number, arrivals: KeyArrivals): Promise<boolean[][]> {
  const random = randomFrom(places);
  const decisions: boolean[][] = arrivals.map(() => []);
  const requests = arrivals
    .flatMap((instants, key) => instants.map((atMs) => ({ atMs, key })))
    .toSorted((a, b) => a.atMs - b.atMs);
  await inVirtualTime(requests[0]?.atMs ?? 0, async (reach) => {
    const deciders = start(shape, places);
    for (const { atMs, key } of requests) {
      reach(atMs);
      const decide = deciders[Math.floor(random() * places)];
      decisions[key]?.push((await decide?.(`key-${key}`)) ?? false);
    }
  });
  return decisions;
}

const exactnessHeader: Row = [
  "limiter",
  "counters in",
  "over-admitted",
  "wrongly denied",
  "most in a window",
  `most, ${manyPlaces} places`,
];

export function exactnessTable(measured: readonly PeerExactness[]): string {
  const rows = measured.map(({ title, counters, inOne, inMany }) => [
    title,
    counters,
    `${percent(inOne.over, inOne.requests)} %`,
    `${percent(inOne.under, inOne.requests)} %`,
    ratio(inOne),
    ratio(inMany),
  ]);
  return markdownTable(exactnessHeader, rows);
}

const ratio = ({ most }: Tally): string => `${(most / shape.limit).toFixed(2)} × limit`;
