/** Splits a text that arrives in chunks into lines of bounded length. */

export interface LineReceiver {
  addLine(line: string): void;
  skipLine(reason: string): void;
}

/** Longer lines are no log lines: a request has at most some kilobytes of headers. */
export const longestLine = 1_048_576;

export class LineSplitter {
  readonly #receiver: LineReceiver;
  readonly #longestLine: number;
  /** The begin of a line whose end has not arrived. */
  #begin = "";
  #isTooLong = false;

  /** @param longest the most characters of a line */
  constructor(receiver: LineReceiver, longest = longestLine) {
    this.#receiver = receiver;
    this.#longestLine = longest;
  }

  add(chunk: string): void {
    let from = 0;
    for (let end = chunk.indexOf("\n"); end !== -1; end = chunk.indexOf("\n", from)) {
      this.#finishLine(chunk.slice(from, end));
      from = end + 1;
    }
    this.#continueLine(chunk.slice(from));
  }

  /** The last line may have no newline at its end. */
  end(): void {
    if (this.#begin !== "" || this.#isTooLong) this.#finishLine("");
  }

  #finishLine(rest: string): void {
    this.#continueLine(rest);
    const line = this.#begin;
    this.#begin = "";
    if (this.#isTooLong) {
      this.#receiver.skipLine(`expected a line of at most ${this.#longestLine} characters`);
    } else {
      this.#receiver.addLine(line);
    }
    this.#isTooLong = false;
  }

  #continueLine(rest: string): void {
    this.#isTooLong ||= this.#begin.length + rest.length > this.#longestLine;
    this.#begin = this.#isTooLong ? "" : this.#begin + rest;
  }
}
