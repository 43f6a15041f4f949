/** Long work in steps, with pauses between them for messages and events. */
import { now } from "./clock.ts";

/**
 * Takes the steps of a generator, with a pause whenever they have taken `taskMs`.
 * @param goesOn is called after each pause with the step before it
 * @returns null when the work does not go on
 */
export async function inSteps<Step, Result>(
  steps: Generator<Step, Result>,
  taskMs: number,
  goesOn: (step: Step) => boolean,
): Promise<Result | null> {
  let pausedAt = now();
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (now() - pausedAt < taskMs) continue;
    // oxlint-disable-next-line no-await-in-loop -- each step is a task of its own
    await nextTask();
    if (!goesOn(step.value)) return null;
    pausedAt = now();
  }
}

/** Resolves in a task of its own. A timer would wait for milliseconds. */
export function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.addEventListener("message", () => {
      port1.close();
      resolve();
    });
    port1.start();
    port2.postMessage(null);
  });
}
