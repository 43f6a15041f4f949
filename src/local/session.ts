/** One run of `npm start`: which plan the local Worker runs, and what changes when the configuration is edited. */
import { CommandError } from "./command.ts";
import { isSame, type Plan } from "./plan.ts";
import { inEffect, problemsOf } from "./notices.ts";

export interface SessionOptions {
  /** Reads the files anew; throws a `CommandError` when they cannot be read. */
  readonly read: () => Plan;
  /** Resolves when the Worker runs this plan; rejects with a `CommandError` when it cannot. */
  readonly run: (plan: Plan) => Promise<void>;
  readonly print: (text: string) => void;
  readonly complain: (text: string) => void;
}

export class Session {
  readonly #options: SessionOptions;
  /** What the Worker runs. */
  #current: Plan;
  /** Whether the files say something else than what the Worker runs. */
  #isRejected = false;
  #isStale = false;
  #work: Promise<void> | null = null;

  /** @param current the plan that the Worker was started with */
  constructor(current: Plan, options: SessionOptions) {
    this.#options = options;
    this.#current = current;
  }

  /** The files have changed. Changes during an update are part of the next one. */
  changed(): Promise<void> {
    this.#isStale = true;
    this.#work ??= this.#updates().finally(() => {
      this.#work = null;
    });
    return this.#work;
  }

  async #updates(): Promise<void> {
    while (this.#isStale) {
      this.#isStale = false;
      // oxlint-disable-next-line no-await-in-loop -- one update after the other
      await this.#update();
    }
  }

  async #update(): Promise<void> {
    const { read, complain } = this.#options;
    try {
      const plan = read();
      const isAccepted = this.#accepts(plan);
      if (plan.problems.length > 0) {
        complain(problemsOf(plan.problems, this.#isServing && !isAccepted));
      }
      if (isAccepted) await this.#replace(plan);
      else this.#isRejected = true;
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      this.#isRejected = true;
      complain(problemsOf([error.message], this.#isServing));
    }
  }

  /** Whether the Worker has a valid configuration. */
  get #isServing(): boolean {
    return this.#current.config !== null;
  }

  /**
   * A plan replaces the current one unless it brings new problems. Without a valid configuration, the Worker answers with
   * the problems of the latest plan.
   */
  #accepts({ config, problems }: Plan): boolean {
    const known = new Set(this.#current.problems);
    return !this.#isServing || (config !== null && problems.every((problem) => known.has(problem)));
  }

  async #replace(plan: Plan): Promise<void> {
    const { print, complain } = this.#options;
    const previous = this.#current;
    const isChanged = !isSame(plan, previous);
    if (isChanged) await this.#run(plan);
    this.#current = plan;
    const known = new Set(previous.warnings);
    for (const warning of plan.warnings) if (!known.has(warning)) complain(warning);
    // After a rejected edit, the repair is confirmed even where nothing has changed in the end.
    if (plan.config !== null && (isChanged || this.#isRejected)) print(inEffect(plan, previous));
    this.#isRejected = false;
  }

  /** Goes back to the current plan when the Worker cannot run the new one. */
  async #run(plan: Plan): Promise<void> {
    const { run } = this.#options;
    try {
      await run(plan);
    } catch (error) {
      // Where the code is broken too, wrangler runs the plan once the code is corrected.
      if (error instanceof CommandError) await run(this.#current).catch(ignoreCommandError);
      throw error;
    }
  }
}

function ignoreCommandError(error: unknown): void {
  if (!(error instanceof CommandError)) throw error;
}
