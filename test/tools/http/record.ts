/** What a run has measured, as it is written and shown. */
import type { Contestant } from "./contestants.ts";
import { ratioOf, type Spread, spreadOf } from "./statistics.ts";
import { judge, perSecond, type Verdict } from "./targets.ts";
import type { ContestantOutcome, ContestSettings } from "./turns.ts";

export interface Machine {
  readonly processor: string;
  readonly cores: number;
  readonly node: string;
  readonly workerd: string;
  readonly generator: string;
  readonly redis: string | null;
  /** How many processes were waiting to run in the minute before; null where the system does not tell. */
  readonly loadBefore: number | null;
  /** Of the packages that are measured beside Headgate. */
  readonly packages: Readonly<Record<string, string>>;
}

/** A contestant's figures: medians over the rounds. */
export interface Figures {
  readonly id: string;
  readonly group: string;
  readonly title: string;
  readonly perSecond: Spread;
  /** By a plain answer, or by a bare pass-through for what passes on; null when that was not measured. */
  readonly ofPlain: Spread | null;
  /** By the same with a no-op object call. */
  readonly ofNoop: Spread | null;
  readonly loaded: Latency;
  readonly alone: Latency;
}

export interface Latency {
  readonly p50Ms: Spread;
  readonly p99Ms: Spread;
}

export interface LeftOut {
  readonly id: string;
  readonly group: string;
  readonly title: string;
  readonly why: string;
}

export interface RecordedRun {
  readonly measuredOn: string;
  readonly command: string;
  readonly machine: Machine;
  readonly settings: ContestSettings;
  readonly figures: readonly Figures[];
  readonly targets: readonly Verdict[];
  /** What was not there to be measured. */
  readonly skipped: readonly LeftOut[];
  /** What did not answer as it has to, so that its figures count for nothing. */
  readonly void: readonly LeftOut[];
}

export type Setting = Pick<RecordedRun, "measuredOn" | "command" | "machine" | "settings">;

/** Its numbers as they are written: nothing here is known better. */
export function runOf(setting: Setting, outcomes: readonly ContestantOutcome[]): RecordedRun {
  return JSON.parse(textOf(exactly(setting, outcomes))) as RecordedRun;
}

export function textOf(run: RecordedRun): string {
  const rough = (_: string, value: unknown): unknown =>
    typeof value === "number" ? Number(value.toPrecision(4)) : value;
  return `${JSON.stringify(run, rough)}\n`;
}

function exactly(setting: Setting, outcomes: readonly ContestantOutcome[]): RecordedRun {
  const left = (isSkipped: boolean): LeftOut[] =>
    outcomes
      .filter((outcome) => outcome.fault !== undefined && outcome.isSkipped === isSkipped)
      .map(({ contestant, fault = "" }) => ({ ...named(contestant), why: fault }));
  const measured = outcomes.filter(({ fault }) => fault === undefined);
  return {
    ...setting,
    figures: measured.map((outcome) => figuresOf(outcome, measured)),
    targets: judge(outcomes),
    skipped: left(true),
    void: left(false),
  };
}

const named = ({ id, group, title }: Contestant): Pick<Contestant, "id" | "group" | "title"> => ({
  id,
  group,
  title,
});

function figuresOf(
  { contestant, turns }: ContestantOutcome,
  measured: readonly ContestantOutcome[],
): Figures {
  const rates = turns.map(perSecond);
  const ratioTo = (id: string): Spread | null => {
    const other = measured.find((outcome) => outcome.contestant.id === id);
    return other === undefined ? null : ratioOf(rates, other.turns.map(perSecond));
  };
  const [plain, noop] = contestant.isProxy === true ? ["pass", "pass-noop"] : ["plain", "noop"];
  const latency = (part: "loaded" | "alone"): Latency => ({
    p50Ms: spreadOf(turns.map((turn) => turn[part].p50Ms)),
    p99Ms: spreadOf(turns.map((turn) => turn[part].p99Ms)),
  });
  return {
    ...named(contestant),
    perSecond: spreadOf(rates),
    ofPlain: ratioTo(plain),
    ofNoop: ratioTo(noop),
    loaded: latency("loaded"),
    alone: latency("alone"),
  };
}
