/** Long work in steps, with pauses between them for messages and events. */
import { now } from "./clock.ts";

/**
 * Runs a generator, and pauses whenever its steps have taken `taskMs`.
 * @param goesOn is called after each pause with the last step; false ends the work
 * @returns null when `goesOn` has ended the work
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
