/**
 * Reads the text of an access log in any format. The key is the client's address, or else a field that identifies the
 * client.
 */
import { createLineReader, leftOut, type LoggedRequest, usualKeyOf } from "./line-reader.ts";
import { LineCounts, type LogReport } from "./log-report.ts";
import { RecordSplitter } from "./record-splitter.ts";

/** The requests of a log in the order of its lines, and the lines that could not be read. */
export interface ReadLog {
  readonly requests: readonly LoggedRequest[];
  readonly report: LogReport;
}

/** Reads a log of up to `mostRequests` requests. Lines after them count as unread. */
export function readLog(text: string, mostRequests: number): ReadLog {
  const readLine = createLineReader({ time: null, keyOf: usualKeyOf, cost: null });
  const requests: LoggedRequest[] = [];
  const counts = new LineCounts();
  const splitter = new RecordSplitter({
    addLine(whole) {
      counts.line++;
      // A byte order mark is white space, too.
      const line = whole.trim();
      if (line === "") return;
      const read = requests.length < mostRequests ? readLine(line) : `more than ${mostRequests} requests`;
      if (read === null || read === leftOut) return;
      if (typeof read === "string") counts.skip(read);
      else requests.push(read);
    },
    skipLine(reason) {
      counts.line++;
      counts.skip(reason);
    },
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
