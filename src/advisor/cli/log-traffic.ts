/** Reads the logs of a command, and reports which lines were read. */
import { acceptedLog } from "../log/line-reader.ts";
import { type LoggedLines, LogTimelines } from "../log/log-timelines.ts";
import { trafficNotes } from "../replay/traffic-notes.ts";
import { CommandError } from "../../cli/command.ts";
import { readLogFiles } from "./log-files.ts";
import type { Progress } from "./progress.ts";
import { countOf, countText, fittedText, reportColumns, wrappedLines } from "./report-text.ts";
import { commonFacts, periodText, requestsOfKeys, type ReadTraffic } from "./traffic.ts";
import type { LogChoice, LogFilter } from "./traffic-options.ts";

const mostListedLogs = 5;
const mostListedLines = 3;

export async function readLogTraffic(
  { files, key, readLine, filter }: LogChoice,
  progress: Progress,
): Promise<ReadTraffic> {
  const collected = new LogTimelines(readLine);
  const notes = await readLogFiles(files, collected, (name, share) =>
    progress.show(`Reading ${fittedText(name, 60)}`, share),
  );
  progress.clear();
  rejectUnread(collected, key.parts, filter.match !== null || filter.status !== null);
  const { lines: filters, match } = filterTexts(filter);
  const { logs, isFull, oneKeyIn } = collected;
  const timelines = collected.finish();
  const { fromMs, toMs } = timelines.source;
  if (isFull) notes.push(fullNote(logs));
  if (key.lists() > 0) notes.push(listNote(key.lists()));
  if (oneKeyIn > 1) notes.push(sampleNote(oneKeyIn, requestsOfKeys(timelines)));
  notes.push(...trafficNotes(timelines));
  const total = countOf(collected.requests, "request");
  const requests = oneKeyIn === 1 ? requestsOfKeys(timelines) : total;
  return {
    timelines,
    lines: [
      ...logs.slice(0, mostListedLogs).flatMap(logLines),
      ...(logs.length > mostListedLogs ? [`and ${countOf(logs.length - mostListedLogs, "more log")}`] : []),
      ...wrappedLines(`${requests} by ${key.parts.join(", ")}`),
      ...filters,
      periodText(fromMs, toMs),
      ...notes.flatMap((note) => wrappedLines(note)),
    ],
    facts: {
      logs: logs.map(logFacts),
      key: key.parts,
      ...match,
      ...commonFacts(timelines),
      notes,
    },
    keyParts: key.parts,
    keyFields: key.fields,
    filter,
    policy: null,
  };
}

function filterTexts({ match, status }: LogFilter) {
  const requests = match?.map(({ text }) => text) ?? null;
  const texts = [
    ...(requests === null ? [] : [`only ${requests.join(" or ")}`]),
    ...(status === null ? [] : [`only the status ${status}`]),
  ];
  return { lines: texts.flatMap((text) => wrappedLines(text)), match: { match: requests, status } };
}

const listNote = (lines: number): string =>
  `${countOf(lines, "line")} ${lines === 1 ? "has" : "have"} a list of addresses. The client is the entry that --trusted-proxies counts from the right; by default the last.`;

const sampleNote = (oneKeyIn: number, kept: string): string =>
  `The log has more requests than memory is used for, so 1 key in ${oneKeyIn} is replayed: ${kept}. Shares are those of these keys; counts and bursts are theirs alone.`;

const fullNote = (logs: readonly LoggedLines[]): string => {
  const { name, lines } = logs.at(-1) ?? { name: "", lines: 0 };
  return `The log was read up to line ${countText(lines)} of ${name}: few keys have more requests than memory is used for.`;
};

function logLines({ name, lines, read, leftOut, unread, firstUnread }: LoggedLines): string[] {
  const skipped = unread === 0 ? "" : `, ${countText(unread)} skipped`;
  const filtered = leftOut === 0 ? "" : `, ${countText(leftOut)} left out`;
  const listed = firstUnread
    .slice(0, mostListedLines)
    .map(({ line, reason }) => fittedText(`  line ${line}: ${reason}`, reportColumns));
  const more = unread - listed.length;
  return [
    `${fittedText(name, 50)}: ${countOf(lines, "line")}, ${countOf(read, "request")}${filtered}${skipped}`,
    ...listed,
    ...(more > 0 ? [`  and ${countText(more)} more`] : []),
  ];
}

const logFacts = ({ name, lines, read, unread, firstUnread, ...log }: LoggedLines): object => ({
  name,
  lines,
  requests: read,
  leftOut: log.leftOut,
  skipped: unread,
  outOfOrder: log.outOfOrder,
  firstSkipped: firstUnread.slice(0, 10),
});

/** @throws CommandError when no log has a request, or the lines of one are in a wrong order */
function rejectUnread({ requests, logs }: LogTimelines, parts: readonly string[], isFiltered: boolean): void {
  const disordered = logs.find(({ outOfOrder, read }) => outOfOrder > read);
  if (disordered !== undefined) {
    const { name, outOfOrder, firstOutOfOrder, lines } = disordered;
    throw new CommandError(
      `${name}: the times of ${countText(outOfOrder)} of ${countText(lines)} lines are more than an hour before that of an earlier line, first in line ${firstOutOfOrder ?? 0}. Expected the order of time; tac reverses a log that begins with its latest line.`,
    );
  }
  if (requests > 0) return;
  const leftOut = logs.reduce((sum, log) => sum + log.leftOut, 0);
  const unread = logs.find((log) => log.unread > 0);
  if (unread === undefined) {
    const names = logs.map(({ name }) => name).join(", ");
    throw new CommandError(
      leftOut === 0
        ? `${names}: expected at least one line of an access log, got none`
        : `${names}: ${leftOutText(leftOut, isFiltered)}, and there is no other request.`,
    );
  }
  const before = leftOut === 0 ? "no line" : `${leftOutText(leftOut, isFiltered)}, and no other line`;
  const [{ line, reason } = { line: 1, reason: "" }] = unread.firstUnread;
  throw new CommandError(
    [
      `${unread.name}: ${before} has a request with a time and the key ${parts.join(", ")}.`,
      `Line ${line}: ${fittedText(unread.firstUnreadText, 80)}`,
      reason,
      ...(reason.includes(acceptedLog) ? [] : [`Accepted: ${acceptedLog}.`]),
      "Fields of other names: --time, --key, --address-field and --cost. Logs may be compressed with gzip.",
    ].join("\n"),
  );
}

/** Lines are left out by a filter, or because they are messages of a Worker. */
const leftOutText = (leftOut: number, isFiltered: boolean): string =>
  isFiltered
    ? `--match and --status leave out ${countOf(leftOut, "request")}`
    : `${countOf(leftOut, "message")} of a Worker ${leftOut === 1 ? "is" : "are"} left out`;
