/** Shows how far a command is, in one line of stderr, if that is a terminal. */

const leastMs = 100;

export class Progress {
  #shownMs = 0;
  #isShown = false;

  /** @param share from 0 to 1; null when unknown */
  show(text: string, share: number | null): void {
    const nowMs = Date.now();
    if (!process.stderr.isTTY || nowMs - this.#shownMs < leastMs) return;
    this.#shownMs = nowMs;
    this.#isShown = true;
    const percent = share === null ? "" : ` ${Math.floor(Math.min(1, share) * 100)} %`;
    process.stderr.write(`\r\u001b[K${text}${percent}`);
  }

  clear(): void {
    if (this.#isShown) process.stderr.write("\r\u001b[K");
    this.#isShown = false;
  }

  /** Runs steps that yield the share that is done, and returns their result. */
  finish<Result>(text: string, steps: Generator<number, Result>): Result {
    for (;;) {
      const step = steps.next();
      if (step.done === true) {
        this.clear();
        return step.value;
      }
      this.show(text, step.value);
    }
  }
}
