/** The messages of the playground's web worker. */
import { expect, test, vi } from "vitest";
import { buffersOf } from "../../../src/console/playground/model/columns.ts";
import { requestHandler, type ScenarioRun, type WorkerAnswer } from "../../../src/console/playground/model/serve.ts";
import { runOf, scenarioOf } from "./runs.ts";

const run = (id: number, query: string): ScenarioRun => ({
  kind: "run",
  id,
  scenario: scenarioOf(query),
  log: null,
});

const long = "traffic=steady&rate=100000/1m&length=1m";

/** A message handler, and the answers that it has posted. */
function started() {
  const answers: WorkerAnswer[] = [];
  const moved: ArrayBuffer[] = [];
  const handle = requestHandler((answer, transfer) => {
    answers.push(answer);
    moved.push(...transfer);
  });
  const until = (isSo: (answer: WorkerAnswer) => boolean) =>
    vi.waitFor(() => expect(answers.some(isSo)).toBe(true), { timeout: 30_000, interval: 1 });
  return { handle, answers, moved, until };
}

test("a run ends with the answer done, and transfers the memory of its columns", async () => {
  const { handle, answers, moved, until } = started();
  handle(run(7, "limit=2/1m&traffic=times&at=0,1,2"));
  await until(({ kind }) => kind === "done");
  expect(answers.every((answer) => answer.id === 7)).toBe(true);
  const lanes = answers.filter(({ kind }) => kind === "lane").length;
  expect(lanes).toBeGreaterThan(5);
  expect(moved).toHaveLength(9 * lanes);
});

test("a running run that is replaced posts nothing further", async () => {
  const { handle, answers, until } = started();
  handle(run(1, long));
  await until(({ kind }) => kind === "progress");
  const posted = answers.length;
  handle(run(2, "traffic=times&at=0"));
  // When the later run has ended, the first one would have had time to continue.
  await until((answer) => answer.kind === "done" && answer.id === 2);
  expect(answers.slice(posted).every(({ id }) => id === 2)).toBe(true);
  expect(answers.some((answer) => answer.kind === "done" && answer.id === 1)).toBe(false);
});

test("a new run replaces the running one", async () => {
  const { handle, answers, until } = started();
  handle(run(1, long));
  handle(run(2, "traffic=times&at=0"));
  await until((answer) => answer.kind === "done" && answer.id === 2);
  expect(answers.filter(({ id }) => id === 1).length).toBeLessThan(3);
});

test("an invalid scenario is answered with its problems", async () => {
  const { handle, answers, until } = started();
  const request = run(3, "");
  handle({ ...request, scenario: { ...request.scenario, limits: [] } });
  await until(({ kind }) => kind === "failed");
  expect(answers).toEqual([
    {
      kind: "failed",
      id: 3,
      problems: [expect.stringContaining("from 1 to 16 limits")],
      log: null,
    },
  ]);
});

test("the transferred memory of a run is that of all its columns", () => {
  const buffers = buffersOf(runOf(scenarioOf("traffic=times&at=0,1")));
  expect(buffers.map(({ byteLength }) => byteLength).toSorted((a, b) => a - b)).toEqual([
    2, 2, 4, 8, 8, 16, 16, 16, 16,
  ]);
});
