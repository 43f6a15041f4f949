/**
 * Reads the text of an access log: the common log format, the combined log format, and JSON lines. The formats may be
 * mixed. The key is the client address, or the field of that meaning.
 */
import { createLineReader, type LoggedRequest, usualKeyOf } from "./line-reader.ts";
import { LineCounts, type LogReport } from "./log-report.ts";

/** The requests of a log in the order of its lines, and the lines that could not be read. */
export interface ReadLog {
  readonly requests: readonly LoggedRequest[];
  readonly report: LogReport;
}

const readLine = createLineReader({ time: null, keyOf: usualKeyOf, cost: null });

/** Reads a log of up to `mostRequests` requests. Lines after them count as unread. */
export function readLog(text: string, mostRequests: number): ReadLog {
  const requests: LoggedRequest[] = [];
  const counts = new LineCounts();
  for (const whole of linesOf(text)) {
    counts.line++;
    // A byte order mark is white space, too.
    const line = whole.trim();
    if (line === "") continue;
    const request =
      requests.length < mostRequests ? readLine(line) : `more than ${mostRequests} requests`;
    if (typeof request === "string") counts.skip(request);
    else requests.push(request);
  }
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
