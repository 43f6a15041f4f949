/** The results of a run, as they are stored and shown. */
import { type Contestant, contestantOf, contestants } from "./contestants.ts";
import { callsPerThousand } from "./counts.ts";
import { cpuUsPerRequest } from "./cpu.ts";
import type { LoadName } from "./load.ts";
import { participants } from "./matches.ts";
import { type Spread, spreadOf } from "./statistics.ts";
import { type ContestOutcome, type ContestSettings, type MatchOutcome, type MeasuredTurn, perSecond } from "./turns.ts";
import { judge, rateRatio, type Verdict } from "./verdicts.ts";

export interface Machine {
  readonly processor: string;
  readonly cores: number;
  readonly node: string;
  readonly workerd: string;
  readonly generator: string;
  readonly redis: string | null;
  /** The load average of the minute before the run; null on systems that have none. */
  readonly loadBefore: number | null;
  /** The versions of the measured packages. */
  readonly packages: Readonly<Record<string, string>>;
}

/** The figures of a contestant, which are medians over its turns. */
export interface Figures {
  readonly id: string;
  readonly group: string;
  readonly title: string;
  readonly perSecond: Spread;
  /**
   * The ratio of its requests per second to those of its floor; null if it has no floor or the floor was not measured.
   */
  readonly ofFloor: (Spread & { readonly title: string }) | null;
  /** Processor time per request under load, in microseconds; null on systems that do not report it. */
  readonly cpuUs: number | null;
  /** Calls of objects per thousand requests under load; null if the contestant does not count them. */
  readonly callsPerThousand: number | null;
  readonly loaded: Latency;
  /** Latency with one request at a time; null if this was not measured. */
  readonly alone: Latency | null;
}

export interface Latency {
  readonly p50Ms: number;
  readonly p99Ms: number;
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
  readonly goals: readonly Verdict[];
  /** Contestants that could not be started. */
  readonly skipped: readonly LeftOut[];
  /** Contestants with wrong responses, whose figures are void. */
  readonly void: readonly LeftOut[];
}

export type Setting = Pick<RecordedRun, "measuredOn" | "command" | "machine" | "settings">;

/** Builds the record, with numbers rounded to the precision of the measurement. */
export function runOf(setting: Setting, outcome: ContestOutcome): RecordedRun {
  return JSON.parse(textOf(exactly(setting, outcome))) as RecordedRun;
}

export function textOf(run: RecordedRun): string {
  const rough = (_: string, value: unknown): unknown =>
    typeof value === "number" ? Number(value.toPrecision(4)) : value;
  return `${JSON.stringify(run, rough)}\n`;
}

function exactly(setting: Setting, { matches, faults }: ContestOutcome): RecordedRun {
  const valid = matches.filter(({ match }) => !faults.has(match.subject));
  const left = (isSkipped: boolean): LeftOut[] =>
    [...faults]
      .filter(([, fault]) => fault.isSkipped === isSkipped)
      .map(([id, { why }]) => ({ ...named(contestantOf(id)), why }));
  const measured = participants(matches.map(({ match }) => match));
  return {
    ...setting,
    figures: contestants
      .filter(({ id }) => measured.has(id) && !faults.has(id))
      .map((contestant) => figuresOf(contestant, matches))
      .filter((figures) => figures !== null),
    goals: judge(valid),
    skipped: left(true),
    void: left(false),
  };
}

const named = ({ id, group, title }: Contestant): Pick<Contestant, "id" | "group" | "title"> => ({
  id,
  group,
  title,
});

function figuresOf(contestant: Contestant, matches: readonly MatchOutcome[]): Figures | null {
  const { id, floor } = contestant;
  const turnsOf = (load: LoadName): MeasuredTurn[] =>
    matches
      .filter(({ match }) => match.load === load)
      .flatMap(({ rounds }) => rounds.flatMap((turns) => turns.get(id) ?? []));
  const [loaded, alone] = [turnsOf("loaded"), turnsOf("alone")];
  if (loaded.length === 0) return null;
  const ofFloor = floor === undefined ? null : rateRatio(matches, id, floor);
  return {
    ...named(contestant),
    perSecond: spreadOf(loaded.map(perSecond)),
    ofFloor: ofFloor && { title: contestantOf(floor ?? "").title, ...ofFloor },
    cpuUs: cpuUsPerRequest(loaded),
    callsPerThousand: callsPerThousand(loaded),
    loaded: latencyOf(loaded),
    alone: alone.length === 0 ? null : latencyOf(alone),
  };
}

const latencyOf = (turns: readonly MeasuredTurn[]): Latency => ({
  p50Ms: spreadOf(turns.map(({ p50Ms }) => p50Ms)).median,
  p99Ms: spreadOf(turns.map(({ p99Ms }) => p99Ms)).median,
});
