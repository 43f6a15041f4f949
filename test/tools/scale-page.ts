/** The tables of `scale.md`, each by the heading above it. */
import { type Bill, objectDollars, perMillion } from "./cost-replay.ts";
import { type ModelledLoad, loadOf, mostCallsPerObject, type ServingMode } from "./scale-model.ts";
import type { Replay } from "./scale-replay.ts";
import {
  type Distribution,
  isolatesFor,
  keyCounts,
  type KeyGroup,
  mostPerIsolate,
  rates,
  uniform,
  zipf,
} from "./scale-traffic.ts";
import { markdownTable, type Row, rough, whole } from "./table.ts";

export const pagePath = "test/tools/scale.md";

/** Compares the model with the object's own code for the same traffic. */
function replayTable(all: readonly Replay[]): Table {
  const rows = all.map(({ replayed, modelled, ...traffic }) => [
    `${rough(traffic.perSecond)}/s on ${whole(traffic.keys)} ${traffic.isSharded ? "in a shard" : "with an object of its own"}`,
    ...[(bill: Bill) => bill.rowsWritten, (bill: Bill) => bill.activeSeconds].flatMap((count) =>
      [modelled, replayed].map((bill) => rough(perMillion(count(bill), bill))),
    ),
    ...[modelled, replayed].map((bill) => `$${perMillion(objectDollars(bill), bill).toFixed(2)}`),
  ]);
  const both = ["rows", "object seconds", "objects add"];
  return { header: ["keys", ...both.flatMap((name) => [`${name}, modelled`, "replayed"])], rows };
}

export interface Table {
  readonly header: Row;
  readonly rows: readonly Row[];
}

type Setting = Omit<ServingMode, "isolates">;

const layouts = [null, 32, 4096] as const;
const consistencies = ["strict", "leased", "eventual"] as const;
const settings: readonly Setting[] = consistencies.flatMap((consistency) =>
  layouts.map((shards) => ({ consistency, shards })),
);

const nameOf = ({ consistency, shards }: Setting): string =>
  `${consistency}, ${shards === null ? "per-key" : `${whole(shards)} shards`}`;

const power = (count: number): string => `10^${Math.round(Math.log10(count))}`;
const thousands = (count: number): string => `${rough(count / 1_000)}k`;

const dollarsOf = ({ bill }: ModelledLoad): string =>
  `$${perMillion(objectDollars(bill), bill).toFixed(2)}`;
const mark = (load: ModelledLoad): string => (load.hottest > mostCallsPerObject ? " †" : "");

function fullCell(load: ModelledLoad): string {
  const { bill } = load;
  const counts = [bill.calls, bill.rowsWritten].map((count) => thousands(perMillion(count, bill)));
  return [...counts, dollarsOf(load)].join(" / ") + mark(load);
}

const shortCell = (load: ModelledLoad): string => dollarsOf(load) + mark(load);

/** A row for each serving mode, with the number of isolates that the traffic needs. */
export function costTable(
  distribution: Distribution,
  traffic: readonly { perSecond: number; keys: number; isolates?: number }[],
  titles: readonly string[],
  cell: (load: ModelledLoad) => string,
): Table {
  const groups = traffic.map(({ perSecond, keys }) => distribution(perSecond, keys));
  const rows = settings.map((setting) => [
    nameOf(setting),
    ...traffic.map(({ perSecond, isolates = isolatesFor(perSecond) }, column) =>
      cell(loadOf(groups[column] ?? [], { ...setting, isolates })),
    ),
  ]);
  return { header: ["", ...titles], rows };
}

const byRate = (perSecond: number): Table =>
  costTable(
    zipf,
    keyCounts.map((keys) => ({ perSecond, keys })),
    keyCounts.map((keys) => `${power(keys)} keys`),
    fullCell,
  );

const fewKeyCounts = [1e4, 1e6, 1e8] as const;
const fewTraffic = rates.flatMap((perSecond) => fewKeyCounts.map((keys) => ({ perSecond, keys })));

const evenly = (): Table =>
  costTable(
    uniform,
    fewTraffic,
    fewTraffic.map(({ perSecond, keys }) => `${whole(perSecond)}/s, ${power(keys)}`),
    shortCell,
  );

const isolateCounts = [10, 100, 1_000] as const;
const isolateTitles = isolateCounts.map((isolates) => `${whole(isolates)} isolates`);

/** Cells for numbers of isolates; empty if so few cannot serve the traffic. */
const byIsolates = (perSecond: number, cell: (isolates: number) => string): string[] =>
  isolateCounts.map((isolates) => (perSecond / isolates > mostPerIsolate ? "–" : cell(isolates)));

/** A million keys with an object each. */
function isolatesTable(): Table {
  const ways: readonly [string, Setting][] = [
    ["leased", { consistency: "leased", shards: null }],
    ["eventual", { consistency: "eventual", shards: null }],
    ['eventual, `syncEvery = "10s"`', { consistency: "eventual", shards: null, syncSeconds: 10 }],
  ];
  const rows = rates.flatMap((perSecond) => {
    const groups = zipf(perSecond, 1e6);
    const row = ([name, setting]: readonly [string, Setting]): Row => [
      `${whole(perSecond)}/s, ${name}`,
      ...byIsolates(perSecond, (isolates) => fullCell(loadOf(groups, { ...setting, isolates }))),
    ];
    return ways.map(row);
  });
  return { header: ["", ...isolateTitles], rows };
}

/** One key, nearly all of whose requests are denied. */
function floods(): Table {
  const flood = { consistency: "strict", shards: null, deniedShare: 1 } as const;
  const cell = (load: ModelledLoad): string =>
    `${rough(load.hottest)} calls/s, ${dollarsOf(load)}${mark(load)}`;
  const rows = rates.map((perSecond) => {
    const groups: KeyGroup[] = [{ keys: 1, perSecond }];
    return [
      `${whole(perSecond)}/s`,
      ...byIsolates(perSecond, (isolates) => cell(loadOf(groups, { ...flood, isolates }))),
      cell(loadOf(groups, { ...flood, isolates: isolatesFor(perSecond), hasDenyCache: false })),
    ];
  });
  return { header: ["flood on one key", ...isolateTitles, "`denyCache = false`"], rows };
}

/**
 * The number of shards for this traffic if each may receive fewer requests than the limit; null if no number suffices.
 */
export function shardsNeeded(groups: readonly KeyGroup[], most = 65_536): number | null {
  for (let shards = 1; shards <= most; shards *= 2) {
    const { hottest } = loadOf(groups, { consistency: "strict", shards, isolates: 1 });
    if (hottest <= mostCallsPerObject) return shards;
  }
  return null;
}

function limitsTable(): Table {
  const strict = { consistency: "strict", isolates: 1 } as const;
  const rows = fewTraffic.map(({ perSecond, keys }) => {
    const [hot, even] = [zipf(perSecond, keys), uniform(perSecond, keys)];
    const perKey = loadOf(hot, { ...strict, shards: null });
    const hottest = [32, 4096].map((shards) => loadOf(hot, { ...strict, shards }).hottest);
    return [
      `${whole(perSecond)}/s, ${power(keys)} keys`,
      ...[perKey.hottest, ...hottest].map((calls) => rough(calls)),
      ...[hot, even].map((groups) => shardsNeeded(groups)?.toLocaleString("en-US") ?? "none do"),
      ...[perKey, loadOf(even, { ...strict, shards: null })].map(({ woken }) =>
        woken < 1 ? "0" : rough(woken),
      ),
    ];
  });
  const header = [
    "strict",
    "hottest key",
    "hottest of 32 shards",
    "hottest of 4,096",
    "shards needed",
    "… if spread evenly over the keys",
    "objects woken, per-key",
    "… if spread evenly over the keys",
  ];
  return { header, rows };
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

function latencyTable(): Table {
  const rows = distances.map(([place, kilometres]) => {
    const ms = roundTripMs(kilometres);
    return [
      `Frankfurt, object in ${place}`,
      `${whole(kilometres)} km`,
      ...[ms, ms / 10, ms / 100, 0].map((each) => `${rough(each)} ms`),
    ];
  });
  const slices = [10, 100].map((units) => `leased, mean of slices of ${units}`);
  return { header: ["Worker", "distance", "strict", ...slices, "eventual"], rows };
}

export const tables = (all: readonly Replay[]): Record<string, Table> => ({
  ...Object.fromEntries(rates.map((rate) => [`At ${whole(rate)} requests a second`, byRate(rate)])),
  "The same, evenly over all keys": evenly(),
  "How many isolates": isolatesTable(),
  Floods: floods(),
  "Calls per object, and number of objects": limitsTable(),
  Distance: latencyTable(),
  "Modelled, and measured": replayTable(all),
});

/** Replaces the tables of a page. */
export function pageWith(page: string, all: Readonly<Record<string, Table>>): string {
  const sections = page.split(/^(?=#+ )/m);
  const titleOf = (section: string): string => /^#+ (.*)$/m.exec(section)?.[1] ?? "";
  const missing = Object.keys(all).filter((title) => !sections.map(titleOf).includes(title));
  if (missing.length > 0) throw new Error(`the page has no ${missing.join(", ")}`);
  return sections
    .map((section) => {
      const table = all[titleOf(section)];
      if (table === undefined) return section;
      return section.replace(/(?:^\|.*\n)+/m, () => `${markdownTable(table.header, table.rows)}\n`);
    })
    .join("");
}

/** The table for the traffic of the command line. */
export const ownTable = (perSecond: number, keys: number, isolates: number): Table =>
  costTable(
    (...traffic) => zipf(...traffic),
    [{ perSecond, keys, isolates }],
    ["calls / rows / price of the objects"],
    fullCell,
  );
