/**
 * Reads the logs of a command from files and from standard input, plain or compressed with gzip, and reports which lines were
 * read.
 */
import { createReadStream, statSync } from "node:fs";
import { type Duplex, pipeline, Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { createGunzip } from "node:zlib";
import type { LogChoice, LogFilter } from "./input-options.ts";
import { commonFacts, periodText, type Progress, type ReadTraffic, requestsOfKeys } from "./input.ts";
import { countOf, countText, fittedText, reportColumns, wrappedLines } from "./report-text.ts";
import { acceptedLog } from "../log/line-reader.ts";
import { type CountedLog, LogTimelines } from "../log/read-log.ts";
import { RecordSplitter } from "../log/splitter.ts";
import { trafficNotes } from "../replay/recording.ts";
import { CommandError, messageOf } from "../../cli/command.ts";

const standardInput = "-";

/** Receives the name of a log, and the share of its bytes that are read; null when its size is unknown. */
type LogProgress = (name: string, share: number | null) => void;

/** The command ends when it finds this many unreadable lines before the first request. */
const mostUnreadFirst = 10_000;
const chunkBytes = 1_048_576;

const logName = (file: string): string => (file === standardInput ? "standard input" : file);

/**
 * Adds the lines of a file.
 * @returns the reason if only a part could be read; else null
 * @throws CommandError when the file cannot be read at all
 */
async function readLogFile(file: string, timelines: LogTimelines, onProgress: LogProgress): Promise<string | null> {
  const name = logName(file);
  const size = file === standardInput ? null : fileSize(file);
  let bytes = 0;
  const source: AsyncIterable<Buffer> =
    file === standardInput ? process.stdin : createReadStream(file, { highWaterMark: chunkBytes });
  const counted = async function* () {
    for await (const chunk of source) {
      bytes += chunk.length;
      yield chunk;
    }
  };
  timelines.startLog(name);
  const splitter = new RecordSplitter(timelines);
  const decoder = new StringDecoder("utf8");
  try {
    for await (const chunk of await unpacked(name, counted())) {
      splitter.add(decoder.write(chunk));
      onProgress(name, size === null || size === 0 ? null : bytes / size);
      if (timelines.isFull || isUnreadable(timelines)) return null;
    }
    splitter.add(decoder.end());
    splitter.end();
    return null;
  } catch (error) {
    if (error instanceof CommandError) throw error;
    splitter.end();
    if (timelines.requests === 0) throw new CommandError(`${name}: ${failureText(error)}`);
    return `${name}: ${failureText(error)}. The lines before are used.`;
  }
}

/** Whether the files are probably no access logs: many lines are unreadable, and none has a request. */
const isUnreadable = ({ requests, logs }: LogTimelines): boolean =>
  requests === 0 && logs.reduce((sum, { unread }) => sum + unread, 0) >= mostUnreadFirst;

/** @throws CommandError when the file does not exist or is no file */
function fileSize(file: string): number | null {
  try {
    const stat = statSync(file);
    if (stat.isDirectory()) {
      throw new CommandError(`--log: ${file} is a folder: expected a file, or several with --log for each.`);
    }
    // A pipe such as <(zcat access.log.gz) has no size.
    return stat.isFile() ? stat.size : null;
  } catch (error) {
    if (error instanceof CommandError) throw error;
    const isMissing = error instanceof Error && Reflect.get(error, "code") === "ENOENT";
    const reason = isMissing ? "no such file" : messageOf(error);
    throw new CommandError(`--log: expected a file or "-" for standard input, got "${file}": ${reason}`);
  }
}

/**
 * The first bytes of compressed files. `advice` says how to decompress them; null for a format that the command
 * decompresses.
 */
const formats: readonly { readonly magic: readonly number[]; readonly advice: string | null }[] = [
  { magic: [0x1f, 0x8b], advice: null },
  {
    magic: [0x28, 0xb5, 0x2f, 0xfd],
    advice: "is compressed with zstd: pipe zstd -dc into --log -",
  },
  { magic: [0x42, 0x5a, 0x68], advice: "is compressed with bzip2: pipe bzip2 -dc into --log -" },
  {
    magic: [0xfd, 0x37, 0x7a, 0x58, 0x5a],
    advice: "is compressed with xz: pipe xz -dc into --log -",
  },
  { magic: [0x50, 0x4b, 0x03, 0x04], advice: "is a zip archive: pipe unzip -p into --log -" },
  { magic: [0xff, 0xfe], advice: "is in UTF-16: expected UTF-8" },
  { magic: [0xfe, 0xff], advice: "is in UTF-16: expected UTF-8" },
];
const longestMagic = 5;

/** The bytes without compression. */
async function unpacked(name: string, chunks: AsyncGenerator<Buffer>): Promise<AsyncIterable<Buffer>> {
  let begin = Buffer.alloc(0);
  while (begin.length < longestMagic) {
    const { value, done } = await chunks.next();
    if (done === true) break;
    begin = Buffer.concat([begin, value]);
  }
  const format = formats.find(({ magic }) => magic.every((byte, index) => begin[index] === byte));
  const whole = async function* () {
    yield begin;
    yield* chunks;
  };
  if (format === undefined) return whole();
  if (format.advice !== null) throw new CommandError(`${name} ${format.advice}.`);
  // A failure ends the iteration of the output.
  const output: Duplex = pipeline(Readable.from(whole()), createGunzip(), () => undefined);
  return output;
}

function failureText(error: unknown): string {
  const code: unknown = error instanceof Error ? Reflect.get(error, "code") : undefined;
  if (code === "Z_BUF_ERROR") return "the gzip data end too early";
  return String(code).startsWith("Z_") ? `the gzip data are damaged (${messageOf(error)})` : messageOf(error);
}

const mostListedLogs = 5;
const mostListedLines = 3;

export async function readLogTraffic(
  { files, key, readLine, filter }: LogChoice,
  progress: Progress,
): Promise<ReadTraffic> {
  const collected = new LogTimelines(readLine);
  const notes: string[] = [];
  const onProgress: LogProgress = (name, share) => progress.show(`Reading ${fittedText(name, 60)}`, share);
  for (const file of files) {
    if (collected.isFull) break;
    const note = await readLogFile(file, collected, onProgress);
    if (note !== null) notes.push(note);
  }
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

const fullNote = (logs: readonly CountedLog[]): string => {
  const { name, line } = logs.at(-1) ?? { name: "", line: 0 };
  return `The log was read up to line ${countText(line)} of ${name}: few keys have more requests than memory is used for.`;
};

function logLines({ name, line: lines, read, leftOut, unread, firstUnread }: CountedLog): string[] {
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

const logFacts = ({ name, line: lines, read, unread, firstUnread, ...log }: CountedLog): object => ({
  name,
  lines,
  requests: read,
  leftOut: log.leftOut,
  skipped: unread,
  outOfOrder: log.outOfOrder,
  firstSkipped: firstUnread.slice(0, 10),
});

/** @throws CommandError when no log has a request, or when most lines of a log are out of order */
function rejectUnread({ requests, logs }: LogTimelines, parts: readonly string[], isFiltered: boolean): void {
  const disordered = logs.find(({ outOfOrder, read }) => outOfOrder > read);
  if (disordered !== undefined) {
    const { name, outOfOrder, firstOutOfOrder, line: lines } = disordered;
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

/** A filter leaves out requests. Without a filter, only the messages of a Worker are left out. */
const leftOutText = (leftOut: number, isFiltered: boolean): string =>
  isFiltered
    ? `--match and --status leave out ${countOf(leftOut, "request")}`
    : `${countOf(leftOut, "message")} of a Worker ${leftOut === 1 ? "is" : "are"} left out`;
