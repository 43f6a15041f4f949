/**
 * Reads the text of an access log: the common log format, the combined log format, and JSON lines. The formats may be mixed. The
 * key is the client address, or the field of that meaning.
 */
import { type LoggedRequest, requestOfJson } from "./json-log.ts";
import { clockTimeMs } from "./log-time.ts";

export const acceptedLog =
  'the common or combined log format (203.0.113.7 - - [05/Jan/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 512), or JSON lines ({"time":"2026-01-05T12:00:00Z","ip":"203.0.113.7","cost":1})';

/** A line of a log that no format fits. */
export interface UnreadLine {
  /** From 1. */
  readonly line: number;
  readonly reason: string;
}

export interface LogReport {
  /** Lines that gave a request. */
  readonly read: number;
  /** Lines that could not be read; empty lines are not counted. */
  readonly unread: number;
  /** The first of them, at most 100. */
  readonly firstUnread: readonly UnreadLine[];
}

/** The requests of a log in the order of its lines, and the lines that could not be read. */
export interface ReadLog {
  readonly requests: readonly LoggedRequest[];
  readonly report: LogReport;
}

const mostListedLines = 100;

/** Reads a log of up to `mostRequests` requests. Lines after them count as unread. */
export function readLog(text: string, mostRequests: number): ReadLog {
  const requests: LoggedRequest[] = [];
  const firstUnread: UnreadLine[] = [];
  let unread = 0;
  let number = 0;
  for (const whole of linesOf(text)) {
    number++;
    // A byte order mark is white space, too.
    const line = whole.trim();
    if (line === "") continue;
    const request =
      requests.length < mostRequests ? requestOfLine(line) : `more than ${mostRequests} requests`;
    if (typeof request !== "string") requests.push(request);
    else if (unread++ < mostListedLines) firstUnread.push({ line: number, reason: request });
  }
  return {
    requests,
    report: { read: requests.length, unread, firstUnread },
  };
}

/** The lines of a text, without a list of all of them. */
function* linesOf(text: string): Generator<string> {
  for (let from = 0; from < text.length;) {
    const newline = text.indexOf("\n", from);
    const end = newline === -1 ? text.length : newline;
    yield text.slice(from, text[end - 1] === "\r" ? end - 1 : end);
    from = end + 1;
  }
}

/** The request, or the reason why the line cannot be read. */
function requestOfLine(line: string): LoggedRequest | string {
  return line.startsWith("{") ? requestOfJson(line) : requestOfText(line);
}

/**
 * Some servers write the virtual host and its port first. A host with colons is in brackets, because an IPv6 address can end
 * like a port. The name of a user may have brackets, too, so that brackets around a day are the time.
 */
const commonLog =
  /^(?:(?:[^\s:]+|\[[^\s\]]+\]):\d+ (?!- ))?(\S+) \S+ (?:.*?(?=\[\d\d\/)|[^[]*)\[([^\]]*)\]/;

function requestOfText(line: string): LoggedRequest | string {
  const [, key, time] = commonLog.exec(line) ?? [];
  if (key === undefined || time === undefined) return `expected ${acceptedLog}`;
  const atMs = clockTimeMs(time);
  return atMs === null
    ? `expected a time such as "05/Jan/2026:12:00:00 +0000", got "${time.slice(0, 40)}"`
    : { atMs, key, cost: 1 };
}
