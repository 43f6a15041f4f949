/** The tasks of the replay worker: taking turns, progress, cancelling, and samples that cannot be read again. */
import { expect, it } from "vitest";
import { ApiProblem } from "../../../../src/console/app/api/client.ts";
import type { ReplayAnswer, ReplayRequest } from "../../../../src/console/app/replay/messages.ts";
import { taskHandler, type TaskSteps } from "../../../../src/console/app/replay/worker-tasks.ts";
import { TimelinesBuilder } from "../../../../src/advisor/replay/timelines.ts";
import { knownSamples } from "./known-samples.ts";

type Load = TaskSteps["load"];

const empty = new TimelinesBuilder().finish(knownSamples().source);
const loaded: Load = async ({ policy }) => ({
  known: knownSamples({ policy }),
  timelines: empty,
  withOtherLimits: empty,
});
const never = (): never => {
  throw new Error("expected no such task");
};
const goal = { kind: "denied-requests", mostShare: 0.001 } as const;

/** A worker whose task `advise` takes steps of 20 ms. */
function startedWorker({ load = loaded, steps = [1] }: { load?: Load; steps?: readonly number[] }) {
  const answers: ReplayAnswer[] = [];
  const taken: number[] = [];
  function* advise(): Generator<number, never> {
    for (const step of steps) {
      const endMs = performance.now() + 20;
      while (performance.now() < endMs);
      taken.push(step);
      yield step;
    }
    return { advice: steps.length } as never;
  }
  const tasks = { load, advise, compare: never, candidate: never };
  const handle = taskHandler(tasks, (answer) => answers.push(answer));
  const ask = async (request: ReplayRequest): Promise<ReplayAnswer> => {
    handle(request);
    const isLast = ({ id, kind }: ReplayAnswer) => id === request.id && kind !== "progress";
    return expect
      .poll(() => answers.find(isLast))
      .toBeDefined()
      .then(() => answers.find(isLast) ?? never());
  };
  return { handle, ask, answers, taken };
}

const loadOf = (id: number, policy = "api"): ReplayRequest => ({
  kind: "load",
  id,
  policy,
  url: "https://admin.example.com/api/samples",
  token: null,
  nowMs: 0,
});
const adviseOf = (id: number, policy = "api"): ReplayRequest => ({
  kind: "advise",
  id,
  policy,
  goal,
});

it("a long task reports its progress, and then its result", async () => {
  const { ask, answers } = startedWorker({ steps: [0.2, 0.4, 0.6, 0.8] });
  await ask(loadOf(1));
  const last = await ask(adviseOf(2));
  expect(last).toEqual({ id: 2, kind: "done", result: { advice: 4 } });
  const shares = answers.flatMap((answer) => (answer.kind === "progress" ? [answer.share] : []));
  expect(shares.length).toBeGreaterThan(0);
  expect(shares).toEqual(shares.toSorted((one, other) => one - other));
});

it("a cancelled task stops between two steps and returns no answer", async () => {
  const steps = Array.from({ length: 200 }, (_, index) => index / 200);
  const { ask, handle, answers, taken } = startedWorker({ steps });
  await ask(loadOf(1));
  handle(adviseOf(2));
  await expect.poll(() => answers.some(({ id }) => id === 2)).toBe(true);
  handle({ kind: "cancel", id: 2 });
  await ask(loadOf(3));
  const after = taken.length;
  await ask(loadOf(4));
  expect(taken).toHaveLength(after);
  expect(answers.filter(({ id, kind }) => id === 2 && kind !== "progress")).toEqual([]);
});

it("the previous samples stay in use when reading them again fails, and the answer has the status of the failure", async () => {
  let reads = 0;
  const load: Load = async (...given) => {
    reads += 1;
    if (reads > 1) throw new ApiProblem({ status: 503, detail: "The control plane does not answer." });
    return loaded(...given);
  };
  const { ask } = startedWorker({ load });
  await ask(loadOf(1));
  const problem = { message: "The control plane does not answer.", status: 503 };
  expect(await ask(loadOf(2))).toEqual({ id: 2, kind: "failed", problem });
  expect(await ask(adviseOf(3))).toMatchObject({ kind: "done" });
});

it("the worker keeps the samples of the four most recently read policies, and each load lists them", async () => {
  const { ask } = startedWorker({});
  for (const [index, policy] of ["a", "b", "c", "d", "a"].entries()) {
    // oxlint-disable-next-line no-await-in-loop -- the order matters
    await ask(loadOf(index, policy));
  }
  const result = ["c", "d", "a", "e"].map((policy) => knownSamples({ policy }));
  expect(await ask(loadOf(10, "e"))).toEqual({ id: 10, kind: "done", result });
  const problem = { message: "The samples of policy b are not loaded." };
  expect(await ask(adviseOf(11, "b"))).toEqual({ id: 11, kind: "failed", problem });
});
