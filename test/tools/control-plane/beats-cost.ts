/** The table of the control plane's cost, by the number of isolates and the rate of their decisions. */
import { dollarsFor, prices } from "../prices.ts";
import { markdownTable, rough } from "../table.ts";
import { type BeatBill, type BeatMode, billOfBeats } from "./beats-replay.ts";

const hoursAMonth = 730;
const secondsAMonth = hoursAMonth * 3_600;
/** The assumed CPU time of the Worker for each beat. */
const workerMs = 1;

const isolateCounts = [1, 10, 100];
const rates = [0.1, 1, 10, 100];
const enoughRate = 10;

/** From this rate of decisions of each isolate, beats and rows must cost less than this share of the decisions. */
export const mostShare = 0.02;
export const leastRate = 10;
/** The traffic sample alone, and the log of denials alone, must cost less than this share. */
export const mostSampleShare = 0.01;

export interface BeatsCost {
  readonly isolates: number;
  readonly rate: number;
  readonly bills: Readonly<Record<Exclude<BeatMode, "watched">, BeatBill>>;
}

/** The cost of isolates with and without a traffic sample or a log of denials, when rules exist. */
export interface SampleCost extends Pick<BeatsCost, "isolates" | "rate"> {
  readonly sampled: BeatBill;
  readonly unsampled: BeatBill;
  /** Without a sample, with the log of denials while a tenth of the requests are denied. */
  readonly logged: BeatBill;
}

export interface BeatsCosts {
  readonly costs: readonly BeatsCost[];
  /** At ten decisions a second. */
  readonly samples: readonly SampleCost[];
  /** One isolate with ten decisions a second, while a live tail is open. */
  readonly watched: BeatBill;
  readonly unwatched: BeatBill;
}

export async function measureBeats(): Promise<BeatsCosts> {
  const costs: BeatsCost[] = [];
  const samples: SampleCost[] = [];
  for (const isolates of isolateCounts) {
    for (const rate of rates) {
      const known = samples.find((cost) => cost.isolates === isolates);
      const bill = (mode: BeatMode, isSampled = true, logsDenials = false): Promise<BeatBill> =>
        billOfBeats({ isolates, rate, mode, isSampled, logsDenials });
      const bills = (known && billsAt(rate, known, costs)) ?? {
        // oxlint-disable-next-line no-await-in-loop
        "with rules": await bill("with rules"),
        // oxlint-disable-next-line no-await-in-loop
        "no rule was ever made": await bill("no rule was ever made"),
      };
      costs.push({ isolates, rate, bills });
      if (rate !== enoughRate) continue;
      // oxlint-disable-next-line no-await-in-loop
      const unsampled = await bill("with rules", false);
      // oxlint-disable-next-line no-await-in-loop
      const logged = await bill("with rules", false, true);
      samples.push({ isolates, rate, sampled: bills["with rules"], unsampled, logged });
    }
  }
  const one = { isolates: 1, rate: enoughRate, isSampled: true };
  const watched = await billOfBeats({ ...one, mode: "watched" });
  return { costs, samples, watched, unwatched: await billOfBeats({ ...one, mode: "with rules" }) };
}

/**
 * The costs at more than ten decisions a second. An isolate checks at each request whether a beat is due, so beats are
 * no more frequent than at ten. Only the rows of samples grow with the rate.
 */
function billsAt(
  rate: number,
  { isolates, rate: knownRate, sampled, unsampled }: SampleCost,
  costs: readonly BeatsCost[],
): BeatsCost["bills"] | undefined {
  const known = costs.find((cost) => cost.isolates === isolates && cost.rate === knownRate);
  if (known === undefined) return undefined;
  const furtherRows = (sampled.rowsWritten - unsampled.rowsWritten) * (rate / knownRate - 1);
  const scaled = (bill: BeatBill): BeatBill => ({
    ...bill,
    rowsWritten: bill.rowsWritten + furtherRows,
  });
  return {
    "with rules": scaled(known.bills["with rules"]),
    "no rule was ever made": scaled(known.bills["no rule was ever made"]),
  };
}

/** The price of one hour, in dollars. */
export const hourDollars = ({ beats, alarms, rowsWritten, activeSeconds }: BeatBill): number =>
  dollarsFor(beats + alarms, prices.objectRequests) +
  dollarsFor(beats * workerMs, prices.workerCpuMs) +
  dollarsFor(rowsWritten, prices.rowsWritten) +
  dollarsFor(activeSeconds, prices.objectSeconds);

const monthDollars = (bill: BeatBill): number => hourDollars(bill) * hoursAMonth;

/**
 * The cost of beats and rows as a share of the price of the decisions.
 * @param decisionDollars the price of a million decisions
 */
export const shareOf = (
  { isolates, rate, bills }: BeatsCost,
  mode: keyof BeatsCost["bills"],
  decisionDollars: number,
): number => monthDollars(bills[mode]) / decisionsDollars(isolates * rate, decisionDollars);

/**
 * The cost of the traffic sample as a share of the price of the decisions.
 * @param decisionDollars the price of a million decisions
 */
export const sampleShareOf = ({ isolates, rate, sampled, unsampled }: SampleCost, decisionDollars: number): number =>
  (monthDollars(sampled) - monthDollars(unsampled)) / decisionsDollars(isolates * rate, decisionDollars);

/** The same for the log of denials. */
export const denialShareOf = ({ isolates, rate, logged, unsampled }: SampleCost, decisionDollars: number): number =>
  (monthDollars(logged) - monthDollars(unsampled)) / decisionsDollars(isolates * rate, decisionDollars);

const decisionsDollars = (aSecond: number, millionDollars: number): number =>
  (aSecond * secondsAMonth * millionDollars) / 1_000_000;

const dollarsText = (dollars: number): string => `$${dollars.toFixed(2)}`;
const percentText = (share: number): string => `${rough(100 * share)} %`;

/** @param millionDollars the price of a million decisions */
export function beatsTable({ costs, samples, watched, unwatched }: BeatsCosts, millionDollars: number): string {
  const header = [
    "isolates",
    "decisions per second, each",
    "decisions cost",
    "beats",
    "rows written",
    "control plane adds",
    "share",
    "share without any rule",
  ];
  const rows = costs.map((cost) => {
    const { isolates, rate, bills } = cost;
    const bill = bills["with rules"];
    return [
      String(isolates),
      String(rate),
      dollarsText(decisionsDollars(isolates * rate, millionDollars)),
      rough(bill.beats * hoursAMonth),
      rough(bill.rowsWritten * hoursAMonth),
      dollarsText(monthDollars(bill)),
      percentText(shareOf(cost, "with rules", millionDollars)),
      percentText(shareOf(cost, "no rule was ever made", millionDollars)),
    ];
  });
  const sampleShare = Math.max(...samples.map((cost) => sampleShareOf(cost, millionDollars)));
  const denialShare = Math.max(...samples.map((cost) => denialShareOf(cost, millionDollars)));
  const watchedCents = 100 * (hourDollars(watched) - hourDollars(unwatched));
  return `${markdownTable(header, rows)}

Counts and prices are per month of ${hoursAMonth} hours. _Decisions cost_ is the price of a busy key with the Worker. An open
console or tail adds ${rough(watchedCents)} cents per hour and isolate. The traffic sample of one key in 64 is included: it adds at
most ${percentText(sampleShare)} to the price of the decisions at ten per second and isolate. The log of denials is not
included: while a tenth of these decisions are denials, each of another key, it adds at most ${percentText(denialShare)}. Generated by
\`npm run bench -- cost\`; the same on every run.`;
}
