/**
 * How often the intervals contain the true share of denials, and how often a recommended limit meets its goal.
 *
 * - Logs: each run is a log of 1,000 new keys, or of about 200 of these. The true share is that of the distribution.
 * - Samples: each run samples one key in 16 of 16,000 new keys. The true share is that of the 16,000 keys.
 */
import type { Estimate } from "../../../src/advisor/search/goal.ts";
import { roundUnits } from "../../../src/advisor/search/families.ts";
import { deniedKeyShare, deniedShare, resamples, typicalDeniedKey } from "../../../src/advisor/search/interval.ts";
import { type SizeTail, tailOf } from "../../../src/advisor/search/tail.ts";
import { type Random, randomFrom } from "../../random.ts";
import type { Generated } from "../../tools/generated.ts";
import { markdownTable } from "../../tools/table.ts";
import { type KeySizes, keySizes } from "./key-sizes.ts";

const logKeys = 1_000;
const smallLogKeys = 200;
/** Unless the true share is computed, it is that of this many logs together. */
const truthLogs = 300;
const sampledOneIn = 16;
const goals = { requests: 0.05, keys: 0.02 } as const;
type Counted = keyof typeof goals;
const counted = ["requests", "keys"] as const;

interface Recommendations {
  readonly made: number;
  /** How many recommended limits meet the goal for the whole population. */
  readonly met: number;
}

export interface SizeCoverage {
  /** How many intervals contain the true share. */
  readonly covered: Readonly<Record<Counted, number>>;
  readonly recommended: Readonly<Record<Counted, Recommendations>>;
}

/** The keys of a run, and the true shares of the population that they are drawn from. */
interface Recording {
  readonly requests: Float64Array;
  readonly oneKeyIn: number;
  readonly allRequests: number;
  readonly tail: SizeTail;
  readonly truth: (limit: number, of: Counted) => number;
}

const sum = (values: Float64Array): number => values.reduce((total, each) => total + each, 0);

/** The share of requests or of keys that a limit denies. */
function shareOf(requests: Float64Array, limit: number, of: Counted): number {
  let [denied, keys, all] = [0, 0, 0];
  for (let key = 0; key < requests.length; key++) {
    const own = requests[key] ?? 0;
    all += own;
    if (own <= limit) continue;
    denied += own - limit;
    keys++;
  }
  return of === "keys" ? keys / requests.length : denied / all;
}

function draws(sizes: KeySizes, keys: number, seed: number): Float64Array {
  const random = randomFrom(seed);
  return new Float64Array(keys).map((_, key) => sizes.draw(random, key, logKeys));
}

/** The true shares of the distribution. */
function truthOf(sizes: KeySizes): Recording["truth"] {
  let together: Float64Array | undefined;
  const known = new Map<string, number>();
  return (limit, of) => {
    const exact = of === "requests" ? sizes.shareBeyond?.(limit) : undefined;
    if (exact !== undefined) return exact;
    together ??= draws(sizes, truthLogs * logKeys, 9_001);
    const share = known.get(`${of} ${limit}`) ?? shareOf(together, limit, of);
    known.set(`${of} ${limit}`, share);
    return share;
  };
}

/** Logs with those of 1,000 keys for which `isKept` returns true. */
function logs(
  sizes: KeySizes,
  runs: number,
  truth: Recording["truth"],
  isKept: (random: Random) => boolean = () => true,
): Recording[] {
  return Array.from({ length: runs }, (_, run) => {
    const random = randomFrom(run + 1);
    const requests = draws(sizes, logKeys, 1_001 + run).filter(() => isKept(random));
    const tail = tailOf(requests, resamples);
    return { requests, oneKeyIn: 1, allRequests: sum(requests), tail, truth };
  });
}

function samples(sizes: KeySizes, runs: number): Recording[] {
  return Array.from({ length: runs }, (_, run) => {
    const population = draws(sizes, sampledOneIn * logKeys, 5_001 + run);
    const random = randomFrom(run + 1);
    const requests = population.filter(() => random() < 1 / sampledOneIn);
    return {
      requests,
      oneKeyIn: sampledOneIn,
      allRequests: sum(population),
      tail: tailOf(requests, resamples),
      truth: (limit, of) => shareOf(population, limit, of),
    };
  });
}

const deniedBy = (requests: Float64Array, limit: number): Float64Array =>
  requests.map((own) => Math.max(0, own - limit));

function estimate(recording: Recording, limit: number, of: Counted, stricter?: number): Estimate {
  const { requests, oneKeyIn, allRequests, tail } = recording;
  const denied = deniedBy(requests, limit);
  if (of === "keys") {
    return deniedKeyShare(requests.length, denied.filter((own) => own > 0).length, { oneKeyIn });
  }
  const unseen =
    stricter === undefined ? undefined : typicalDeniedKey({ requests, denied: deniedBy(requests, stricter) });
  return deniedShare({ requests, denied }, { oneKeyIn, allRequests, tail, unseen });
}

/** The strictest limit whose interval meets the goal, found in the advisor's way; null if there is none. */
function recommendedLimit(recording: Recording, of: Counted): number | null {
  const { requests, tail } = recording;
  if (of === "requests" && (tail.isHeavy || tail.isOfFew)) return null;
  const units = roundUnits(requests.reduce((most, own) => Math.max(most, own), 0));
  for (const [index, limit] of units.entries()) {
    const share = shareOf(requests, limit, of);
    if (share > goals[of]) continue;
    if (estimate(recording, limit, of, units[index - 1]).high <= goals[of]) return limit;
    if (share === 0) return null;
  }
  return null;
}

function coverageOf(recordings: readonly Recording[], limit: number): SizeCoverage {
  const coveredOf = (of: Counted): number =>
    recordings.filter((each) => {
      const { low, high } = estimate(each, limit, of);
      const truth = each.truth(limit, of);
      return low <= truth && truth <= high;
    }).length;
  const recommendedOf = (of: Counted): Recommendations => {
    const met = recordings.flatMap((each) => {
      const recommended = recommendedLimit(each, of);
      return recommended === null ? [] : [each.truth(recommended, of) <= goals[of]];
    });
    return { made: met.length, met: met.filter(Boolean).length };
  };
  const [ofRequests, ofKeys] = [recommendedOf("requests"), recommendedOf("keys")];
  return {
    covered: { requests: coveredOf("requests"), keys: coveredOf("keys") },
    recommended: { requests: ofRequests, keys: ofKeys },
  };
}

export interface MeasuredSizes {
  readonly name: string;
  readonly logs: SizeCoverage;
  readonly smallLogs: SizeCoverage;
  readonly samples: SizeCoverage;
}

export function measureSizes(name: string, runs: number): MeasuredSizes {
  const sizes = keySizes[name];
  if (sizes === undefined) throw new RangeError(`expected a kind of traffic, got "${name}"`);
  const truth = truthOf(sizes);
  const isInSmallLog = (random: Random): boolean => random() < smallLogKeys / logKeys;
  return {
    name,
    logs: coverageOf(logs(sizes, runs, truth), sizes.limit),
    smallLogs: coverageOf(logs(sizes, runs, truth, isInSmallLog), sizes.limit),
    samples: coverageOf(samples(sizes, runs), sizes.limit),
  };
}

export const tableRuns = 100;
export const measureAllSizes = (): MeasuredSizes[] =>
  Object.keys(keySizes).map((name) => measureSizes(name, tableRuns));

const coverageHeader = [
  "requests per key",
  "log: requests",
  "log: keys",
  "small log",
  "sample: requests",
  "sample: keys",
];
const goalHeader = coverageHeader.with(0, "limit recommended, goal met").filter((title) => !title.startsWith("small"));

const recommendationText = ({ made, met }: Recommendations): string => (made === 0 ? "none" : `${met} of ${made}`);

export const advisorPage = "docs/reference/advisor.md";

/** The tables of the page about the advisor. */
export const coverageDocs = (measured: readonly MeasuredSizes[]): Generated => ({
  command: "npm run bench -- advisor",
  pages: {
    [advisorPage]: [
      markdownTable(
        coverageHeader,
        measured.map(({ name, logs: log, smallLogs: small, samples: sample }) => [
          name,
          ...[
            log.covered.requests,
            log.covered.keys,
            small.covered.requests,
            sample.covered.requests,
            sample.covered.keys,
          ].map(String),
        ]),
      ),
      markdownTable(
        goalHeader,
        measured.map(({ name, logs: log, samples: sample }) => [
          name,
          ...[log, sample].flatMap(({ recommended }) => counted.map((of) => recommendationText(recommended[of]))),
        ]),
      ),
    ],
  },
  figures: {},
});
