/** Answers the latest request of the page, and lets further messages in between two steps. */
import { now } from "../../app/clock.ts";
import { nextTask } from "../../app/next-task.ts";
import { answersTo } from "./answers.ts";
import { buffersOf } from "./columns.ts";
import type { ScenarioRun, WorkerAnswer, WorkerRequest } from "./scenario.ts";

export type PostAnswer = (answer: WorkerAnswer, transfer: ArrayBuffer[]) => void;

/** A cancelled run goes on for this long at most. More pauses would slow the run and the page down. */
const stepMs = 30;

/** Returns the function that takes requests. Each request ends the run of the one before it. */
export function requestHandler(post: PostAnswer): (request: WorkerRequest) => void {
  let latest: WorkerRequest | null = null;
  const answer = async (request: ScenarioRun): Promise<void> => {
    try {
      let pausedAt = now();
      for (const each of answersTo(request)) {
        const isProgress = each.kind === "progress";
        if (isProgress && now() - pausedAt < stepMs) continue;
        post(each, each.kind === "lane" ? buffersOf(each.run) : []);
        await nextTask();
        pausedAt = now();
        if (latest !== request) return;
      }
    } catch (error) {
      post({ kind: "failed", id: request.id, problems: [String(error)], log: null }, []);
    }
  };
  return (request) => {
    latest = request;
    if (request.kind === "run") void answer(request);
  };
}
