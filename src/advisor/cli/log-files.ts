/** Reads logs from files and from standard input, plain or compressed with gzip, as a stream. */
import { createReadStream, statSync } from "node:fs";
import { type Duplex, pipeline, Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { createGunzip } from "node:zlib";
import type { LogTimelines } from "../log/log-timelines.ts";
import { RecordSplitter } from "../log/record-splitter.ts";
import { CommandError, messageOf } from "../../cli/command.ts";

export const standardInput = "-";

export interface LogProgress {
  /** The name of the log, and the share of its bytes that are read; null when its size is unknown. */
  (name: string, share: number | null): void;
}

/** More unreadable lines at the begin of all logs end the command. */
const mostUnreadFirst = 10_000;
const chunkBytes = 1_048_576;

const logName = (file: string): string => (file === standardInput ? "standard input" : file);

/**
 * Adds the lines of the files.
 * @returns a line for each file that could be read in part only
 * @throws CommandError when a file cannot be read at all
 */
export async function readLogFiles(
  files: readonly string[],
  timelines: LogTimelines,
  onProgress: LogProgress,
): Promise<string[]> {
  const notes: string[] = [];
  for (const file of files) {
    if (timelines.isFull) break;
    const note = await readLogFile(file, timelines, onProgress);
    if (note !== null) notes.push(note);
  }
  return notes;
}

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

/** Whether the logs are of another kind, so that reading on would take long and give nothing. */
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

/** Files that begin with these bytes. Null: unpacked here. */
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
