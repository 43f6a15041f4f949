/** Sends changes so that a repeated attempt after a lost answer does not make the change twice. */
import { readChanges } from "./changes.ts";
import { ApiProblem, ConnectionLost } from "./client.ts";

/** A change on the condition that what it changes is as it was read. */
export interface ConditionalChange<Result> {
  readonly send: (idempotencyKey: string) => Promise<Result>;
  /** The result of an earlier attempt whose answer was lost; null when another change came first. */
  readonly result: () => Promise<Result | null>;
}

interface Attempt<Result> {
  readonly typed: string;
  readonly change: ConditionalChange<Result>;
  readonly idempotencyKey: string;
}

/** Sends the changes of one dialog, or of one button. */
export class Sender<Result> {
  #lost: Attempt<Result> | null = null;

  /**
   * If the same typed text is sent again after a lost answer, the first change is sent again: the page may show the result of
   * the first attempt already, so that a new change would be based on it.
   */
  async send(typed: string, change: ConditionalChange<Result>): Promise<Result> {
    const repeated = this.#lost?.typed === typed ? this.#lost : null;
    const attempt = repeated ?? { typed, change, idempotencyKey: crypto.randomUUID() };
    try {
      return await (repeated === null ? sent(attempt) : sentAgain(repeated));
    } catch (error) {
      if (isUnsure(error)) this.#lost = attempt;
      else if (repeated !== null) this.#lost = null;
      throw error;
    }
  }
}

/** Whether the change may have been made: the answer is lost, or the Worker failed on the way to it. */
const isUnsure = (error: unknown): boolean =>
  error instanceof ConnectionLost || (error instanceof ApiProblem && error.status >= 500);

/** Whether what was to be changed has changed since it was read. */
export const isOutdated = (error: unknown): error is ApiProblem =>
  error instanceof ApiProblem && (error.status === 412 || error.status === 404);

const sent = <Result>({ change, idempotencyKey }: Attempt<Result>): Promise<Result> => change.send(idempotencyKey);

async function sentAgain<Result>(attempt: Attempt<Result>): Promise<Result> {
  try {
    return await sent(attempt);
  } catch (error) {
    const result = isOutdated(error) ? await attempt.change.result() : null;
    if (result === null) throw error;
    readChanges();
    return result;
  }
}
