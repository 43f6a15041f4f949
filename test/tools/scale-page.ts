/** The generated parts of `docs/operate/capacity-and-scale.md`, in the order of the page. */
import { type Bill, objectDollars, perMillion, workerDollars } from "./cost-replay.ts";
import { centsText } from "./cost-table.ts";
import type { Generated } from "./generated.ts";
import { type ModelledLoad, loadOf, mostCallsPerObject, type ServingMode } from "./scale-model.ts";
import type { Replay } from "./scale-replay.ts";
import {
  type Distribution,
  isolatesFor,
  type KeyGroup,
  mostPerIsolate,
  rates,
  uniform,
  zipf,
} from "./scale-traffic.ts";
import { markdownTable, type Row, rough, whole } from "./table.ts";

export const scalePage = "docs/operate/capacity-and-scale.md";

export const scaleDocs = (replayed: readonly Replay[]): Generated => ({
  command: "npm run bench -- scale",
  pages: { [scalePage]: scaleTables(replayed) },
  figures: {},
});

export const scaleTables = (replayed: readonly Replay[]): readonly string[] =>
  [
    hotKeyTable(),
    shardTable(),
    floodTable(),
    distanceTable(),
    costTable(zipf),
    costTable(uniform),
    replayTable(replayed),
  ].map(({ header, rows }) => markdownTable(header, rows));

export interface Table {
  readonly header: Row;
  readonly rows: readonly Row[];
}

type Setting = Omit<ServingMode, "isolates">;

const keysText = (count: number): string => (count < 1e6 ? whole(count) : `${whole(count / 1e6)} million`);

const dollarsOf = ({ bill }: ModelledLoad): string => centsText(perMillion(objectDollars(bill), bill));

/** Marks a figure when its object would receive more calls than Cloudflare's limit. */
const mark = (load: ModelledLoad): string => (load.hottest > mostCallsPerObject ? " †" : "");

const oneKey = (perSecond: number, way: ServingMode): ModelledLoad => loadOf([{ keys: 1, perSecond }], way);

const callsAndPrice = (load: ModelledLoad): string => `${rough(load.hottest)}/s, ${dollarsOf(load)}${mark(load)}`;

/** Rates of one key, and the isolates that receive its requests. */
const hotKeys = [
  [100, 10],
  [1_000, 10],
  [10_000, 10],
  [10_000, 100],
  [100_000, 100],
  [1_000_000, 1_000],
] as const;

function hotKeyTable(): Table {
  const ways: readonly [string, Setting][] = [
    ["strict", { consistency: "strict", shards: null }],
    ["leased", { consistency: "leased", shards: null }],
    ["eventual", { consistency: "eventual", shards: null }],
    ['eventual, `syncEvery = "10s"`', { consistency: "eventual", shards: null, syncSeconds: 10 }],
  ];
  const rows = hotKeys.map(([perSecond, isolates]) => [
    `${whole(perSecond)}/s in ${whole(isolates)} isolates`,
    ...ways.map(([, setting]) => callsAndPrice(oneKey(perSecond, { ...setting, isolates }))),
  ]);
  return { header: ["requests on one key", ...ways.map(([name]) => name)], rows };
}

const keyCounts = [1e4, 1e6, 1e8] as const;
const allTraffic = rates.flatMap((perSecond) => keyCounts.map((keys) => ({ perSecond, keys })));

const trafficText = ({ perSecond, keys }: (typeof allTraffic)[number]): string =>
  `${whole(perSecond)}/s, ${keysText(keys)} keys`;

/**
 * The number of shards for this traffic when each shard may receive fewer requests than the limit; null if no number
 * suffices.
 */
export function shardsNeeded(groups: readonly KeyGroup[], most = 65_536): number | null {
  for (let shards = 1; shards <= most; shards *= 2) {
    const { hottest } = loadOf(groups, { consistency: "strict", shards, isolates: 1 });
    if (hottest <= mostCallsPerObject) return shards;
  }
  return null;
}

function shardTable(): Table {
  const strict = { consistency: "strict", shards: null, isolates: 1 } as const;
  const rows = allTraffic.map((traffic) => {
    const [even, skewed] = [uniform, zipf].map((spread) => spread(traffic.perSecond, traffic.keys));
    const perKey = loadOf(skewed ?? [], strict);
    const shards = [even, skewed].map((groups) => shardsNeeded(groups ?? []));
    const woken = [loadOf(even ?? [], strict), perKey].map((load) => load.woken);
    return [
      trafficText(traffic),
      ...shards.map((count) => (count === null ? "not possible" : whole(count))),
      `${rough(perKey.hottest)}/s${mark(perKey)}`,
      ...woken.map((perSecond) => (perSecond < 1 ? "0/s" : `${rough(perSecond)}/s`)),
    ];
  });
  const header = [
    "strict",
    "shards, even",
    "shards, Zipf",
    "busiest key, Zipf",
    "objects started, even",
    "objects started, Zipf",
  ];
  return { header, rows };
}

const floodIsolates = [10, 100, 1_000] as const;

/** One key, almost all of whose requests are denied. */
function floodTable(): Table {
  const flood = { consistency: "strict", shards: null, deniedShare: 1 } as const;
  const rows = rates.map((perSecond) => [
    `${whole(perSecond)}/s`,
    ...floodIsolates.map((isolates) =>
      perSecond / isolates > mostPerIsolate ? "–" : callsAndPrice(oneKey(perSecond, { ...flood, isolates })),
    ),
    callsAndPrice(oneKey(perSecond, { ...flood, isolates: isolatesFor(perSecond), hasDenyCache: false })),
  ]);
  const titles = floodIsolates.map((isolates) => `${whole(isolates)} isolates`);
  return { header: ["denied requests", ...titles, "`denyCache = false`"], rows };
}

const settings: readonly Setting[] = [
  { consistency: "strict", shards: null },
  { consistency: "strict", shards: 32 },
  { consistency: "strict", shards: 4_096 },
  { consistency: "leased", shards: null },
  { consistency: "eventual", shards: null },
  { consistency: "eventual", shards: 32 },
];

const nameOf = ({ consistency, shards }: Setting): string =>
  `${consistency}, ${shards === null ? "per-key" : `${whole(shards)} shards`}`;

/** The price that the objects add, per million decisions. */
function costTable(distribution: Distribution): Table {
  const rows = allTraffic.map((traffic) => {
    const groups = distribution(traffic.perSecond, traffic.keys);
    const isolates = isolatesFor(traffic.perSecond);
    const loads = settings.map((setting) => loadOf(groups, { ...setting, isolates }));
    return [trafficText(traffic), ...loads.map((load) => `${dollarsOf(load)}${mark(load)}`)];
  });
  return { header: [distribution === zipf ? "Zipf" : "even", ...settings.map(nameOf)], rows };
}

/** The round trip of light in a straight fibre. Real routes are longer. */
const roundTripMs = (kilometres: number): number => (2 * kilometres) / 200;

/** Great-circle distances from Frankfurt. */
const distances = [
  ["London", 640],
  ["New York", 6_200],
  ["Singapore", 10_300],
  ["Sydney", 16_500],
] as const;

function distanceTable(): Table {
  const rows = distances.map(([place, kilometres]) => [
    `Frankfurt, object in ${place}`,
    `${whole(kilometres)} km`,
    `${rough(roundTripMs(kilometres))} ms`,
    "0 ms",
  ]);
  const header = ["Worker", "distance", "strict, or leased without a slice", "leased, or eventual"];
  return { header, rows };
}

/** Compares the model with the object's own code for the same traffic. */
function replayTable(all: readonly Replay[]): Table {
  const rows = all.map(({ replayed, modelled, ...traffic }) => [
    `${rough(traffic.perSecond)}/s, ${whole(traffic.keys)} ${traffic.isSharded ? "in a shard" : "with own object"}`,
    ...[(bill: Bill) => bill.rowsWritten, (bill: Bill) => bill.activeSeconds].flatMap((count) =>
      [modelled, replayed].map((bill) => rough(perMillion(count(bill), bill))),
    ),
    ...[modelled, replayed].map((bill) => centsText(perMillion(objectDollars(bill), bill))),
  ]);
  const both = ["rows", "object seconds", "objects add"];
  return { header: ["keys", ...both.flatMap((name) => [`${name}: model`, "replay"])], rows };
}

/** The table for the traffic given on the command line, with a row for each serving mode. */
export function ownTable(perSecond: number, keys: number, isolates: number): Table {
  const groups = zipf(perSecond, keys);
  const rows = settings.map((setting) => {
    const load = loadOf(groups, { ...setting, isolates });
    const { bill } = load;
    return [
      nameOf(setting),
      ...[bill.calls, bill.rowsWritten].map((count) => rough(perMillion(count, bill))),
      dollarsOf(load),
      centsText(perMillion(objectDollars(bill) + workerDollars(bill), bill)),
      `${rough(load.hottest)}/s${mark(load)}`,
    ];
  });
  const header = ["", "calls", "rows", "objects add", "with the Worker", "busiest object"];
  return { header, rows };
}
