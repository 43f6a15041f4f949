/** The options of commands that replay traffic: a log, or the samples of a running Headgate. */
import { createLineReader, type LineReader } from "../replay/log/line-reader.ts";
import { fieldName } from "../replay/log/log-line.ts";
import { type LogKey, readLogKey } from "../replay/log/log-key.ts";
import { adminOptions, localServer } from "./admin-options.ts";
import { CommandError, type CommandOptions } from "./command.ts";

export const trafficOptions = {
  log: {
    type: "string",
    multiple: true,
    value: "file",
    about: "An access log, which may be compressed with gzip; - for standard input.",
  },
  key: {
    type: "string",
    multiple: true,
    value: "part",
    about: "A key part of the log such as header:x-api-key, or the name of a field; else ip.",
  },
  time: { type: "string", value: "field", about: "The field of the log with the time." },
  cost: { type: "string", value: "field", about: "The field of the log with the cost." },
  url: {
    type: "string",
    value: "url",
    about: `A server whose samples replace a log; with --policy alone, ${localServer}.`,
  },
  policy: { type: "string", value: "name", about: "The policy whose samples replace a log." },
  svg: { type: "string", value: "file", about: "Write a plot to this file." },
  json: { type: "boolean", about: "Print JSON in place of text." },
  ...adminOptions,
} as const satisfies CommandOptions;

export interface TrafficValues {
  readonly log?: readonly string[] | undefined;
  readonly key?: readonly string[] | undefined;
  readonly time?: string | undefined;
  readonly cost?: string | undefined;
  readonly url?: string | undefined;
  readonly policy?: string | undefined;
  readonly token?: string | undefined;
  readonly config?: string | undefined;
  readonly env?: string | undefined;
}

export interface LogChoice {
  readonly kind: "log";
  readonly files: readonly string[];
  readonly key: LogKey;
  readonly readLine: LineReader;
}

export interface SamplesChoice {
  readonly kind: "samples";
  readonly url: string;
  readonly policy: string;
}

export type TrafficChoice = LogChoice | SamplesChoice;

/** @throws CommandError when options are invalid, missing, or do not fit together */
export function trafficChoice(values: TrafficValues): TrafficChoice {
  const { log = [], url, policy } = values;
  if (log.length > 0) {
    rejectOthers(values, ["url", "policy", "token"], "--log");
    return logChoice(values, log);
  }
  if (url === undefined && policy === undefined) {
    throw new CommandError(
      "--log is missing: expected a file, or - for standard input; or --url and --policy for the samples of a server.",
    );
  }
  if (policy === undefined) {
    throw new CommandError("--policy is missing: expected the name of a policy of the server.");
  }
  rejectOthers(values, ["key", "time", "cost"], "samples, whose keys are those of the policy");
  return { kind: "samples", url: url ?? localServer, policy };
}

function rejectOthers(
  values: TrafficValues,
  names: readonly (keyof TrafficValues)[],
  source: string,
): void {
  const name = names.find((each) => values[each] !== undefined);
  if (name !== undefined) throw new CommandError(`--${name} does not apply to ${source}.`);
}

function logChoice(values: TrafficValues, files: readonly string[]): LogChoice {
  const twice = files.find((file, index) => files.indexOf(file) !== index);
  if (twice !== undefined) throw new CommandError(`--log: expected ${twice} once, got it twice`);
  const key = readLogKey(values.key ?? ["ip"]);
  if ("problem" in key) throw new CommandError(`--key: ${key.problem}`);
  const readLine = createLineReader({
    time: namedField("time", values.time),
    keyOf: key.value.keyOf,
    cost: namedField("cost", values.cost),
  });
  return { kind: "log", files, key: key.value, readLine };
}

function namedField(option: string, name: string | undefined) {
  if (name === undefined) return null;
  if (name.trim() === "") {
    throw new CommandError(`--${option}: expected the name of a field, got "${name}"`);
  }
  return fieldName(name.trim());
}
