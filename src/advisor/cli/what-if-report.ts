/** The report of `npm run what-if`: what sets of limits would have denied. */
import { waitText } from "../../strategies/index.ts";
import { arrivalSeconds, type ReplayResult } from "../replay/result.ts";
import { arrivalOutcomes, isDeniedOutcome, type Timelines } from "../replay/timelines.ts";
import { type LimitSet, ratesText, rateText } from "./limit-sets.ts";
import {
  countText,
  fittedText,
  idLength,
  partText,
  reportColumns,
  percentText,
  tableLines,
  wrappedLines,
} from "./report-text.ts";
import type { ReadTraffic } from "./input.ts";

/** A set of limits, and what it would have decided. */
export interface ReplayedSet extends LimitSet {
  readonly withoutRetries: ReplayResult;
  readonly withRetries: ReplayResult;
}

interface DeniedKey {
  readonly key: string;
  readonly requests: number;
  readonly denied: number;
  readonly longestDeniedMs: number;
}

export function whatIfLines({ timelines, lines, policy }: ReadTraffic, sets: readonly ReplayedSet[]) {
  const most = sets.length === 1 ? 10 : 5;
  return [
    ...lines,
    "",
    "Limits",
    ...sets.flatMap(({ label, limits }) =>
      wrappedLines(`  ${label.padEnd(3)}  ${ratesText(limits)}`, reportColumns, "       "),
    ),
    "",
    "If clients do not retry",
    ...tableLines(firstColumns, [
      ["none", "0", "0", "", burstText(worstSecond(arrivalSeconds(timelines).counts))],
      ...(policy === null ? [] : [recordedRow(timelines)]),
      ...sets.map(firstRow),
    ]),
    "",
    "If clients send denied requests again after Retry-After, up to 10 times",
    ...tableLines(retryColumns, sets.map(retryRow)),
    "",
    "Most units admitted to one key within any window",
    ...tableLines(
      mostColumns,
      sets.flatMap((set) => mostRows(timelines, set)),
    ),
    ...sets.flatMap((set) => deniedKeyLines(timelines, set, most)),
  ];
}

const right = (heading: string) => ({ heading, align: "right" }) as const;

const firstColumns = [
  { heading: "" },
  right("denied requests"),
  right("denied keys"),
  right("longest denial"),
  right("worst burst at the origin"),
];

const firstRow = ({ label, withoutRetries: result }: ReplayedSet): string[] => [
  label,
  partText(result.denied, result.requests),
  partText(result.deniedKeys, result.keys),
  durationText(result.longestDeniedMs),
  burstText(worstSecond(result.admittedPerSecond.counts)),
];

/** The decisions of the deployment, which include bans and decisions without its object. */
function recordedRow(timelines: Timelines): string[] {
  const { keys, firstRow: rows, outcome } = timelines;
  let denied = 0;
  let deniedKeys = 0;
  for (const index of keys.keys()) {
    const before = denied;
    for (let row = rows[index] ?? 0; row < (rows[index + 1] ?? 0); row++) {
      if (isDeniedOutcome(arrivalOutcomes[outcome[row] ?? 0] ?? "unknown")) denied++;
    }
    if (denied > before) deniedKeys++;
  }
  const counts = [partText(denied, outcome.length), partText(deniedKeys, keys.length)];
  return ["recorded", ...counts, "", ""];
}

const retryColumns = [
  { heading: "" },
  right("denied requests"),
  right("retries"),
  right("never admitted"),
  right("longest wait"),
  right("worst burst at the origin"),
];

const retryRow = ({ label, withRetries: result }: ReplayedSet): string[] => [
  label,
  partText(result.denied, result.requests),
  countText(result.retries?.sent ?? 0),
  partText(result.retries?.abandoned ?? 0, result.requests),
  durationText(result.retries?.longestWaitMs ?? 0),
  burstText(worstSecond(result.admittedPerSecond.counts)),
];

const mostColumns = [{ heading: "" }, { heading: "limit" }, right("units"), { heading: "key" }];

const mostRows = ({ keys }: Timelines, { label, limits, withoutRetries }: ReplayedSet) =>
  limits.map((limit, index) => {
    const most = withoutRetries.mostAdmitted[index];
    const key = most?.key === null || most === undefined ? "" : (keys[most.key] ?? "");
    return [label, rateText(limit), countText(most?.units ?? 0), fittedText(key, 48)];
  });

const keyColumns = [{ heading: "key" }, right("requests"), right("of all"), right("denied"), right("longest denial")];

function deniedKeyLines(timelines: Timelines, set: ReplayedSet, most: number): string[] {
  const keys = deniedMost(timelines, set.withoutRetries, most);
  if (keys.length === 0) return ["", `${set.label} denies no key.`];
  const all = timelines.atMs.length;
  const rows = keys.map(({ key, requests, denied, longestDeniedMs }) => [
    fittedText(key, idLength),
    countText(requests),
    percentText(requests / all),
    partText(denied, requests),
    durationText(longestDeniedMs),
  ]);
  return ["", `Keys that ${set.label} denies most`, ...tableLines(keyColumns, rows)];
}

/** The keys with the most denials. */
function deniedMost(
  { keys, firstRow: rows }: Timelines,
  { deniedOfKey, longestDeniedMsOfKey }: ReplayResult,
  most: number,
): DeniedKey[] {
  const denied = Array.from(deniedOfKey.keys()).filter((index) => (deniedOfKey[index] ?? 0) > 0);
  return denied
    .toSorted((a, b) => (deniedOfKey[b] ?? 0) - (deniedOfKey[a] ?? 0))
    .slice(0, most)
    .map((index) => ({
      key: keys[index] ?? "",
      requests: (rows[index + 1] ?? 0) - (rows[index] ?? 0),
      denied: deniedOfKey[index] ?? 0,
      longestDeniedMs: longestDeniedMsOfKey[index] ?? 0,
    }));
}

const durationText = (durationMs: number): string => (durationMs === 0 ? "" : waitText(Math.round(durationMs)));

const burstText = (perSecond: number): string => `${countText(perSecond)} per second`;

/** The greatest count; 0 without any. */
function worstSecond(counts: Float64Array): number {
  let worst = 0;
  for (const count of counts) worst = Math.max(worst, count);
  return worst;
}

/** The report for programs. */
export function whatIfFacts({ timelines, facts }: ReadTraffic, sets: readonly ReplayedSet[]): object {
  return {
    traffic: facts,
    worstBurstPerSecond: worstSecond(arrivalSeconds(timelines).counts),
    sets: sets.map((set) => ({
      label: set.label,
      limits: set.limits,
      withoutRetries: resultFacts(timelines, set.withoutRetries),
      withRetries: {
        ...resultFacts(timelines, set.withRetries),
        ...retryFacts(set.withRetries),
      },
      deniedMost: deniedMost(timelines, set.withoutRetries, 100),
    })),
  };
}

/** The numbers about requests count first attempts only. Retries have their own numbers. */
const retryFacts = ({ retries, requests }: ReplayResult): object =>
  retries === null
    ? {}
    : {
        sent: retries.sent,
        deniedRetries: retries.denied,
        abandoned: retries.abandoned,
        abandonedShare: requests === 0 ? 0 : retries.abandoned / requests,
        longestWaitMs: retries.longestWaitMs,
      };

const resultFacts = ({ keys }: Timelines, result: ReplayResult): object => ({
  denied: result.denied,
  deniedShare: result.requests === 0 ? 0 : result.denied / result.requests,
  deniedKeys: result.deniedKeys,
  deniedKeyShare: result.keys === 0 ? 0 : result.deniedKeys / result.keys,
  longestDeniedMs: result.longestDeniedMs,
  worstBurstPerSecond: worstSecond(result.admittedPerSecond.counts),
  mostAdmitted: result.mostAdmitted.map(({ limit, windowMs, units, key }) => ({
    limit,
    windowMs,
    units,
    key: key === null ? null : (keys[key] ?? null),
  })),
});
