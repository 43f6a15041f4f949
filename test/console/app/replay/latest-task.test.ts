/** Tasks of the page for inputs that change: which tasks run, and which result is shown. */
import { expect, it } from "vitest";
import { LatestTask } from "../../../../src/console/app/replay/latest-task.ts";
import type { TaskOptions } from "../../../../src/console/app/replay/worker-client.ts";

/** Tasks that a test ends explicitly. */
function controlledTasks() {
  const started: { name: string; options: TaskOptions; end: (result: string | Error) => void }[] = [];
  const run = (name: string) => (options: TaskOptions) =>
    new Promise<string>((resolve, reject) => {
      const end = (result: string | Error): void => (typeof result === "string" ? resolve(result) : reject(result));
      started.push({ name, options, end });
    });
  const names = (): readonly string[] => started.map(({ name }) => name);
  return { started, run, names };
}

it("a new task stops the running one, whose late result is ignored", async () => {
  const task = new LatestTask<string>();
  const { started, run } = controlledTasks();
  task.start(run("first"));
  task.start(run("second"));
  expect(started[0]?.options.abort?.aborted).toBe(true);
  started[1]?.end("of the second");
  await expect.poll(() => task.result.value).toBe("of the second");
  started[0]?.end("of the first");
  await Promise.resolve();
  expect(task.result.value).toBe("of the second");
  expect(task.share.value).toBe(null);
});

it("while a slider moves, each started task runs to its end, and only the latest waiting task follows", async () => {
  const task = new LatestTask<string>();
  const { started, run, names } = controlledTasks();
  for (const name of ["1", "2", "3", "4"]) task.startNext(run(name));
  expect(names()).toEqual(["1"]);
  started[0]?.end("result 1");
  await expect.poll(() => task.result.value).toBe("result 1");
  expect(names()).toEqual(["1", "4"]);
  started[1]?.end("result 4");
  await expect.poll(() => task.result.value).toBe("result 4");
  expect(names()).toEqual(["1", "4"]);
});

it("a failure keeps the last result and states its reason until a task succeeds", async () => {
  const task = new LatestTask<string>();
  const { started, run } = controlledTasks();
  task.start(run("1"));
  started[0]?.end("result 1");
  await expect.poll(() => task.result.value).toBe("result 1");
  task.start(run("2"));
  started[1]?.options.onProgress?.(0.5);
  expect(task.share.value).toBe(0.5);
  started[1]?.end(new Error("no samples"));
  await expect.poll(() => task.problem.value?.message).toBe("no samples");
  expect(task.result.value).toBe("result 1");
  task.start(run("3"));
  started[2]?.end("result 3");
  await expect.poll(() => task.problem.value).toBe(null);
});

it("a stopped task starts nothing and shows no progress", async () => {
  const task = new LatestTask<string>();
  const { started, run, names } = controlledTasks();
  task.startNext(run("1"));
  task.startNext(run("2"));
  task.stop();
  started[0]?.end("late");
  await Promise.resolve();
  expect(names()).toEqual(["1"]);
  expect([task.result.value, task.share.value]).toEqual([null, null]);
});
