/** Runs scenarios of the playground for tests. */
import { answersTo, type WorkerAnswer } from "../../../src/console/playground/model/serve.ts";
import { type Lane, lanesOf } from "../../../src/console/playground/model/lanes.ts";
import { parseScenario } from "../../../src/console/playground/model/scenario-query.ts";
import { outcome } from "../../../src/console/playground/model/columns.ts";
import type { LaneRun } from "../../../src/console/playground/model/run.ts";
import type { Scenario } from "../../../src/console/playground/model/scenario.ts";

/** @throws if the query has a problem */
export function scenarioOf(query: string): Scenario {
  const { scenario, problems } = parseScenario(query);
  if (problems.length > 0) throw new Error(`problems in ${query}: ${JSON.stringify(problems)}`);
  return scenario;
}

export const answersOf = (scenario: Scenario, log: string | null = null): WorkerAnswer[] => [
  ...answersTo({ kind: "run", id: 1, scenario, log }),
];

export const runsOf = (scenario: Scenario, log: string | null = null): LaneRun[] =>
  answersOf(scenario, log).flatMap((answer) => (answer.kind === "lane" ? [answer.run] : []));

export function runOf(scenario: Scenario, lane = "written"): LaneRun {
  const run = runsOf(scenario).find((each) => each.lane === lane);
  if (run === undefined) throw new Error(`expected a lane "${lane}"`);
  return run;
}

export function laneOf(scenario: Scenario, name = "written"): Lane {
  const lane = lanesOf(scenario).lanes.find((each) => each.lane === name);
  if (lane === undefined) throw new Error(`expected a lane "${name}"`);
  return lane;
}

/** Each decision and the units that remained after it, as the table of a lane shows them: "allowed 9". */
export const decisionsOf = (run: LaneRun): string[] =>
  Array.from(
    run.outcome,
    (kind, row) => `${kind === outcome.denied ? "denied" : "allowed"} ${run.remaining[row] ?? 0}`,
  );

/** The values of a column. */
export const listOf = (column: Iterable<number>): number[] => [...column];
