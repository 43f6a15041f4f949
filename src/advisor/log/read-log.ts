/** Reads the text of an access log in any format, as a list of requests or as timelines in bounded memory. */
import {
  createLineReader,
  leftOut,
  type LineReader,
  type LoggedRequest,
  type ReadLine,
  usualKeyOf,
} from "./line-reader.ts";
import { RecordSplitter } from "./splitter.ts";
import { type Timelines, TimelinesBuilder } from "../replay/timelines.ts";
import { spreadOverSeconds } from "../replay/recording.ts";

/** A line of a log that no format fits. */
interface UnreadLine {
  /** From 1. */
  readonly line: number;
  readonly reason: string;
}

export interface LogReport {
  /** Lines that gave a request. */
  readonly read: number;
  /** Lines that could not be read; empty lines are not counted. */
  readonly unread: number;
  /** The first unread lines, at most 100. */
  readonly firstUnread: readonly UnreadLine[];
}

const mostListedLines = 100;

/** Counts the lines of a log. */
export class LineCounts implements LogReport {
  /** The number of the current line, and so of all lines so far. */
  line = 0;
  read = 0;
  unread = 0;
  /** The beginning of the first unread line. */
  firstUnreadText = "";
  readonly firstUnread: UnreadLine[] = [];

  skip(reason: string): void {
    if (this.unread++ < mostListedLines) this.firstUnread.push({ line: this.line, reason });
  }

  /** Counts a line that could not be split from its neighbours. */
  skipLine(reason: string): void {
    this.line++;
    this.skip(reason);
  }

  /** Counts and reads a line. Returns null for an unread or empty line. */
  readLine(whole: string, reader: LineReader): Exclude<ReadLine, string> {
    this.line++;
    // A byte order mark is white space, too.
    const line = whole.trim();
    const read = line === "" ? null : reader(line);
    if (typeof read !== "string") return read;
    if (this.unread === 0) this.firstUnreadText = line.slice(0, longestQuote);
    this.skip(read);
    return null;
  }
}

/** The requests of a log in the order of its lines, and the lines that could not be read. */
export interface ReadLog {
  readonly requests: readonly LoggedRequest[];
  readonly report: LogReport;
}

/** Reads a log of up to `mostRequests` requests. Lines after them count as unread. */
export function readLog(text: string, mostRequests: number): ReadLog {
  const readLine = createLineReader({ time: null, keyOf: usualKeyOf, cost: null });
  const requests: LoggedRequest[] = [];
  const bounded: LineReader = (line) =>
    requests.length < mostRequests ? readLine(line) : `more than ${mostRequests} requests`;
  const counts = new LineCounts();
  const splitter = new RecordSplitter({
    addLine(whole) {
      const read = counts.readLine(whole, bounded);
      if (read !== null && read !== leftOut) requests.push(read);
    },
    skipLine: (reason) => counts.skipLine(reason),
  });
  splitter.add(text);
  splitter.end();
  const { unread, firstUnread } = counts;
  return { requests, report: { read: requests.length, unread, firstUnread } };
}

/** The lines of a text, without a list of all of them. */
export function* linesOf(text: string): Generator<string> {
  for (let from = 0; from < text.length;) {
    const newline = text.indexOf("\n", from);
    const end = newline === -1 ? text.length : newline;
    yield text.slice(from, text[end - 1] === "\r" ? end - 1 : end);
    from = end + 1;
  }
}

export interface LogBudget {
  readonly arrivals: number;
  readonly keys: number;
}

/** These numbers take about 600 MB of memory while the timelines are made. */
const defaultLogBudget: LogBudget = { arrivals: 8_000_000, keys: 1_000_000 };

/** Servers write a line when its request ends, so later lines can have earlier times. */
const mostDisorderMs = 3_600_000;
const longestQuote = 200;
/** With fewer requests, all times can be whole seconds by chance. */
const leastOfSeconds = 10;
/** A sample of fewer keys would say little. */
const leastKeys = 100;

/** The lines of one log. */
export class CountedLog extends LineCounts {
  readonly name: string;
  /** Requests that a filter leaves out, and messages of a Worker. */
  leftOut = 0;
  /** The number of unread lines whose time is long before the time of an earlier line. */
  outOfOrder = 0;
  /** The first line that is out of order; null if there is none. */
  firstOutOfOrder: number | null = null;
  latestMs = 0;

  constructor(name: string) {
    super();
    this.name = name;
  }

  skipOutOfOrder(atMs: number): void {
    this.outOfOrder++;
    this.firstOutOfOrder ??= this.line;
    const minutes = Math.floor((this.latestMs - atMs) / 60_000);
    this.skip(`the time is ${minutes} minutes before that of an earlier line; expected at most 60`);
  }
}

export class LogTimelines {
  /** One key in this many is kept. */
  oneKeyIn = 1;
  /**
   * Whether the rest of the log is ignored, because even the smallest sample of its keys has more requests than fit
   * into memory.
   */
  isFull = false;
  /** The number of lines with a request, in all logs. */
  requests = 0;
  readonly logs: CountedLog[] = [];
  readonly #readLine: LineReader;
  readonly #budget: LogBudget;
  readonly #builder = new TimelinesBuilder();
  #fromMs = Infinity;
  #toMs = 0;
  #hasWholeSeconds = true;

  constructor(readLine: LineReader, budget = defaultLogBudget) {
    this.#readLine = readLine;
    this.#budget = budget;
  }

  /** Starts a log: the lines that follow belong to it. */
  startLog(name: string): void {
    this.logs.push(new CountedLog(name));
  }

  addLine(whole: string): void {
    const log = this.#currentLog();
    const request = log.readLine(whole, this.#readLine);
    if (request === null) return;
    if (request === leftOut) {
      log.leftOut++;
      return;
    }
    const { atMs, key, cost, wasDenied } = request;
    if (atMs < log.latestMs - mostDisorderMs) {
      log.skipOutOfOrder(atMs);
      return;
    }
    log.read++;
    this.requests++;
    log.latestMs = Math.max(log.latestMs, atMs);
    this.#fromMs = Math.min(this.#fromMs, atMs);
    this.#toMs = Math.max(this.#toMs, atMs + 1);
    if (atMs % 1_000 !== 0) this.#hasWholeSeconds = false;
    if (!this.#isKept(key)) return;
    this.#builder.add(key, { atMs, cost, outcome: wasDenied === true ? "denied" : "unknown" });
    this.#bound();
  }

  skipLine(reason: string): void {
    this.#currentLog().skipLine(reason);
  }

  /** Returns the timelines. If all times are whole seconds, requests are spread over their seconds. */
  finish(): Timelines {
    const timelines = this.#builder.finish({
      fromMs: Math.min(this.#fromMs, this.#toMs),
      toMs: this.#toMs,
      oneKeyIn: this.oneKeyIn,
      requests: this.requests,
      lostArrivals: 0,
      otherLimitsArrivals: 0,
    });
    return this.#hasWholeSeconds && this.requests >= leastOfSeconds ? spreadOverSeconds(timelines) : timelines;
  }

  #currentLog(): CountedLog {
    const log = this.logs.at(-1);
    if (log === undefined) throw new Error("expected startLog before the first line");
    return log;
  }

  readonly #isKept = (key: string): boolean => this.oneKeyIn === 1 || keyHash(key) % this.oneKeyIn === 0;

  #bound(): void {
    const { arrivals, keys } = this.#budget;
    while (this.#builder.arrivals >= arrivals || this.#builder.keys >= keys) {
      if (this.#builder.keys < 2 * leastKeys) {
        this.isFull = true;
        return;
      }
      this.oneKeyIn *= 2;
      this.#builder.retain(this.#isKept);
    }
  }
}

/** FNV-1a over the UTF-16 units, with the final mix of MurmurHash3, since FNV's low bits depend on few bits of the text. */
function keyHash(key: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < key.length; index++) {
    hash = Math.imul(hash ^ key.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
