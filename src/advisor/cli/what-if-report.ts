/** The report of `npm run what-if`: what sets of limits would have denied. */
import { arrivalSeconds, deniedMost, type ReplayResult } from "../replay/result.ts";
import { arrivalOutcomes, greatest, isDeniedOutcome, type Timelines } from "../replay/timelines.ts";
import type { ReadTraffic } from "./input.ts";
import { type LimitSet, ratesText, rateText } from "./limit-sets.ts";
import {
  countText,
  deniedKeyTable,
  durationText,
  fittedText,
  partText,
  reportColumns,
  right,
  tableLines,
  wrappedLines,
} from "./report-text.ts";

/** A set of limits, and what it would have decided. */
export interface ReplayedSet extends LimitSet {
  readonly withoutRetries: ReplayResult;
  readonly withRetries: ReplayResult;
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
      ["none", "0", "0", "", burstText(greatest(arrivalSeconds(timelines).counts))],
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
  burstText(greatest(result.admittedPerSecond.counts)),
];

/** The decisions of the deployment. This includes bans, and decisions that an isolate made without the object. */
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
  burstText(greatest(result.admittedPerSecond.counts)),
];

const mostColumns = [{ heading: "" }, { heading: "limit" }, right("units"), { heading: "key" }];

const mostRows = ({ keys }: Timelines, { label, limits, withoutRetries }: ReplayedSet) =>
  limits.map((limit, index) => {
    const most = withoutRetries.mostAdmitted[index];
    const key = most?.key === null || most === undefined ? "" : (keys[most.key] ?? "");
    return [label, rateText(limit), countText(most?.units ?? 0), fittedText(key, 48)];
  });

function deniedKeyLines(timelines: Timelines, set: ReplayedSet, most: number): string[] {
  const keys = deniedMost(timelines, set.withoutRetries, most);
  return keys.length === 0
    ? ["", `${set.label} denies no key.`]
    : ["", `Keys that ${set.label} denies most`, ...deniedKeyTable(keys)];
}

const burstText = (perSecond: number): string => `${countText(perSecond)} per second`;

/** The report for programs. */
export function whatIfFacts({ timelines, facts }: ReadTraffic, sets: readonly ReplayedSet[]): object {
  return {
    traffic: facts,
    worstBurstPerSecond: greatest(arrivalSeconds(timelines).counts),
    sets: sets.map((set) => ({
      label: set.label,
      limits: set.limits,
      withoutRetries: resultFacts(timelines, set.withoutRetries),
      withRetries: {
        ...resultFacts(timelines, set.withRetries),
        ...retryFacts(set.withRetries),
      },
      deniedMost: deniedMost(timelines, set.withoutRetries, 100).map(({ shareOfRequests: _share, ...key }) => key),
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
  worstBurstPerSecond: greatest(result.admittedPerSecond.counts),
  mostAdmitted: result.mostAdmitted.map(({ limit, windowMs, units, key }) => ({
    limit,
    windowMs,
    units,
    key: key === null ? null : (keys[key] ?? null),
  })),
});
