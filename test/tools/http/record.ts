/** The results of a run, as they are stored and shown. */
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
  /** The load average of the minute before the run; null on systems without one. */
  readonly loadBefore: number | null;
  /** The versions of the measured packages. */
  readonly packages: Readonly<Record<string, string>>;
}

/** The figures of a contestant: medians over the rounds. */
export interface Figures {
  readonly id: string;
  readonly group: string;
  readonly title: string;
  readonly perSecond: Spread;
  /** The ratio to a plain response, or to a bare pass-through for a proxy; null if that was not measured. */
  readonly ofPlain: Spread | null;
  /**
   * The ratio to a no-op object call, or to a pass-through with a no-op object call for a proxy; null if that was not
   * measured.
   */
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
  /** Contestants that could not be started. */
  readonly skipped: readonly LeftOut[];
  /** Contestants with wrong responses, whose figures are void. */
  readonly void: readonly LeftOut[];
}

export type Setting = Pick<RecordedRun, "measuredOn" | "command" | "machine" | "settings">;

/** Builds the record, with numbers rounded to the precision of the measurement. */
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
