/** The configuration of a running local Worker, which follows edits of the files. */
import { readFileSync } from "node:fs";
import { CommandError } from "./command.ts";
import { type LocalSetup, runsSameWorker } from "./local-setup.ts";
import { inEffectMessage, problemsMessage } from "./start-messages.ts";

const pollMs = 200;
/**
 * Not shorter than the time within which a Durable Object writes spends: they are stored before an edit restarts the
 * Worker.
 */
const quietMs = 1_000;

/**
 * Calls `changed` after the contents of a file have changed and have then stayed unchanged for `quietMs`. It compares
 * contents, because editors replace files by renaming others, and a deleted file may come back. Clearing the returned
 * interval ends the watch.
 */
export function watchFiles(files: readonly string[], changed: () => void): NodeJS.Timeout {
  let reported = contentsOf(files);
  let latest = reported;
  let quietPolls = 0;
  return setInterval(() => {
    const contents = contentsOf(files);
    quietPolls = contents === latest ? quietPolls + 1 : 0;
    latest = contents;
    if (contents === reported || quietPolls * pollMs < quietMs) return;
    reported = contents;
    changed();
  }, pollMs);
}

const contentsOf = (files: readonly string[]): string => JSON.stringify(files.map(textOf));

/** The contents of a file; null if it is missing or unreadable. */
function textOf(file: string): string | null {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return null;
  }
}

interface LiveConfigurationOptions {
  /** @throws CommandError when the files cannot be read */
  readonly read: () => LocalSetup;
  /** @throws CommandError when the Worker cannot run this setup */
  readonly run: (setup: LocalSetup) => Promise<void>;
  readonly print: (text: string) => void;
  readonly printError: (text: string) => void;
}

export class LiveConfiguration {
  readonly #options: LiveConfigurationOptions;
  #current: LocalSetup;
  /** Whether the last edit was rejected. If so, the files differ from the running setup. */
  #isRejected = false;
  #isStale = false;
  #update: Promise<void> | null = null;

  constructor(current: LocalSetup, options: LiveConfigurationOptions) {
    this.#options = options;
    this.#current = current;
  }

  /** Updates the Worker after an edit. An edit during an update is part of the next update. */
  update(): Promise<void> {
    this.#isStale = true;
    this.#update ??= this.#updateWhileStale().finally(() => {
      this.#update = null;
    });
    return this.#update;
  }

  async #updateWhileStale(): Promise<void> {
    while (this.#isStale) {
      this.#isStale = false;
      // oxlint-disable-next-line no-await-in-loop -- one update after the other
      await this.#updateOnce();
    }
  }

  async #updateOnce(): Promise<void> {
    const { read, printError } = this.#options;
    try {
      const setup = read();
      if (!this.#accepts(setup)) return this.#reject(setup.lines);
      if (setup.lines.length > 0) printError(problemsMessage(setup.lines));
      await this.#replace(setup);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      this.#reject([error.message]);
    }
  }

  #reject(lines: readonly string[]): void {
    this.#isRejected = true;
    this.#options.printError(problemsMessage(lines, this.#isServing));
  }

  get #isServing(): boolean {
    return this.#current.config !== null;
  }

  /**
   * A setup with a valid configuration replaces the current setup, unless it has new problems outside of the
   * configuration. While the current configuration is invalid, every setup replaces it, because the Worker answers
   * with the problems of its configuration.
   */
  #accepts({ config, problems }: LocalSetup): boolean {
    const known = new Set(this.#current.problems);
    return !this.#isServing || (config !== null && problems.every((problem) => known.has(problem)));
  }

  async #replace(setup: LocalSetup): Promise<void> {
    const { print, printError } = this.#options;
    const previous = this.#current;
    const isChanged = !runsSameWorker(setup, previous);
    if (isChanged) await this.#run(setup);
    this.#current = setup;
    const known = new Set(previous.warnings);
    for (const warning of setup.warnings) if (!known.has(warning)) printError(warning);
    // After a rejected edit, print a confirmation even if the corrected files equal the running setup.
    if (setup.config !== null && (isChanged || this.#isRejected)) {
      print(inEffectMessage(setup, previous));
    }
    this.#isRejected = false;
  }

  /** Runs the current setup again when the Worker cannot run the new one. */
  async #run(setup: LocalSetup): Promise<void> {
    const { run } = this.#options;
    try {
      await run(setup);
    } catch (error) {
      // If the code does not compile either, wrangler runs this setup once the code compiles.
      if (error instanceof CommandError) await run(this.#current).catch(ignoreCommandError);
      throw error;
    }
  }
}

function ignoreCommandError(error: unknown): void {
  if (!(error instanceof CommandError)) throw error;
}
