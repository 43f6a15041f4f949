/**
 * Splits the text of a log, which arrives in chunks, into records of bounded length: lines, JSON objects over several lines as
 * `wrangler tail` prints them, and the elements of JSON arrays.
 */

interface LineReceiver {
  addLine(line: string): void;
  skipLine(reason: string): void;
}

/** Longer lines are no log lines: a request has at most some kilobytes of headers. */
const longestLine = 1_048_576;

export class LineSplitter {
  readonly #receiver: LineReceiver;
  readonly #longestLine: number;
  /** The beginning of a line whose end has not arrived. */
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

/** Where a JSON value ends, in a text that arrives in parts. */
class JsonDepth {
  depth = 0;
  #isText = false;
  #isEscaped = false;

  /** The index of the character that closes the outermost object or array; -1 if none does. */
  closing(text: string, from: number): number {
    for (let index = from; index < text.length; index++) {
      const character = text[index];
      if (this.#isEscaped) this.#isEscaped = false;
      else if (this.#isText) {
        if (character === "\\") this.#isEscaped = true;
        else if (character === '"') this.#isText = false;
      } else if (character === '"') this.#isText = true;
      else if (character === "{" || character === "[") this.depth++;
      else if ((character === "}" || character === "]") && --this.depth <= 0) return index;
    }
    return -1;
  }
}

/** Passes on single lines, and joins the lines of an object that begins with an opening brace on a line of its own. */
class ObjectLines implements LineReceiver {
  readonly #receiver: LineReceiver;
  readonly #longest: number;
  /** The lines of an object whose end has not arrived. */
  #open: string[] = [];
  #length = 0;
  #depth = new JsonDepth();

  constructor(receiver: LineReceiver, longest: number) {
    this.#receiver = receiver;
    this.#longest = longest;
  }

  addLine(line: string): void {
    const isBegin = line.startsWith("{");
    // Only the first line of an object is not indented, so open lines before it belong to an object that was cut off.
    if (isBegin) this.end();
    if (this.#open.length === 0 && (!isBegin || line.trimEnd().endsWith("}"))) {
      this.#receiver.addLine(line);
      return;
    }
    if (this.#open.length === 0) this.#depth = new JsonDepth();
    this.#open.push(line);
    this.#length += line.length;
    const closing = this.#depth.closing(line, 0);
    if (closing === -1) {
      if (this.#length > this.#longest) this.end();
      return;
    }
    const whole = this.#open.join("\n");
    this.#forget();
    this.#receiver.addLine(whole);
  }

  skipLine(reason: string): void {
    this.end();
    this.#receiver.skipLine(reason);
  }

  #forget(): void {
    this.#open = [];
    this.#length = 0;
  }

  /** Passes on the lines of an unfinished object one by one. */
  end(): void {
    const lines = this.#open;
    this.#forget();
    for (const line of lines) this.#receiver.addLine(line);
  }
}

export class RecordSplitter {
  readonly #receiver: LineReceiver;
  readonly #longest: number;
  readonly #lines: ObjectLines;
  readonly #splitter: LineSplitter;
  /** The start of the log, kept until it shows whether the log is an array. */
  #begin = "";
  #mode: "begin" | "lines" | "array" = "begin";
  /** The start of an element whose end has not arrived. */
  #element = "";
  #depth = new JsonDepth();
  #isTooLong = false;

  /** @param longest the most characters of a record */
  constructor(receiver: LineReceiver, longest = longestLine) {
    this.#receiver = receiver;
    this.#longest = longest;
    this.#lines = new ObjectLines(receiver, longest);
    this.#splitter = new LineSplitter(this.#lines, longest);
  }

  add(chunk: string): void {
    let rest = chunk;
    while (rest !== "") {
      if (this.#mode === "lines") {
        this.#splitter.add(rest);
        return;
      }
      rest = this.#mode === "begin" ? this.#decide(rest) : this.#addElements(rest);
    }
  }

  end(): void {
    if (this.#mode === "begin") this.#splitter.add(this.#begin);
    this.#splitter.end();
    this.#lines.end();
    if (this.#depth.depth > 0) this.#receiver.skipLine("the JSON array ends within an element");
  }

  /** A log that begins with an array of objects or arrays is JSON; `[2026-01-05` begins a line of Envoy. */
  #decide(chunk: string): string {
    const text = this.#begin + chunk;
    const [opening = "", next] = /^\s*(?:\[\s*(\S)?)?/.exec(text) ?? [];
    const isUndecided = opening.length === text.length && text.length <= this.#longest;
    this.#begin = isUndecided ? text : "";
    if (isUndecided) return "";
    this.#mode = next === "{" || next === "[" || next === "]" ? "array" : "lines";
    return this.#mode === "array" ? text.slice(text.indexOf("[") + 1) : text;
  }

  /** Returns the text after the end of the array. */
  #addElements(chunk: string): string {
    let from = 0;
    while (from < chunk.length) {
      if (this.#depth.depth === 0) {
        const character = chunk[from] ?? "";
        if (character === "]") {
          this.#mode = "begin";
          return chunk.slice(from + 1);
        }
        if (character !== "{" && character !== "[") {
          from = this.#skipSeparator(chunk, from);
          continue;
        }
      }
      const closing = this.#depth.closing(chunk, from);
      this.#continueElement(chunk.slice(from, closing === -1 ? chunk.length : closing + 1));
      if (closing === -1) return "";
      this.#finishElement();
      from = closing + 1;
    }
    return "";
  }

  /** Skips white space and commas. Passes on other elements, such as numbers, as records. */
  #skipSeparator(chunk: string, from: number): number {
    const other = /[^\s,\ufeff][^,\]{[]*/y;
    other.lastIndex = from;
    const found = other.exec(chunk)?.[0];
    if (found !== undefined) this.#receiver.addLine(found.trimEnd());
    return from + (found?.length ?? 1);
  }

  #continueElement(text: string): void {
    this.#isTooLong ||= this.#element.length + text.length > this.#longest;
    this.#element = this.#isTooLong ? "" : this.#element + text;
  }

  #finishElement(): void {
    const element = this.#element;
    if (this.#isTooLong) {
      this.#receiver.skipLine(`expected an element of at most ${this.#longest} characters`);
    } else this.#receiver.addLine(element);
    this.#element = "";
    this.#isTooLong = false;
    this.#depth = new JsonDepth();
  }
}
