/** The options of commands that replay traffic: a log, or the samples of a running Headgate. */
import { createLineReader, type LineReader } from "../log/line-reader.ts";
import {
  acceptedStatus,
  type LineFilter,
  readRequestPattern,
  requestFilter,
  type RequestPattern,
  statusFilter,
} from "../log/log-filter.ts";
import { type LogKey, readLogKey } from "../log/log-key.ts";
import { fieldName, type LogFieldName } from "../log/log-line.ts";
import { adminOptions, localServer } from "../../cli/admin-api.ts";
import { CommandError, type CommandOptions, type parseCommandLine } from "../../cli/command.ts";

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
  "address-field": {
    type: "string",
    value: "field",
    about: "The field of the log with the address of the client, for the key part ip.",
  },
  "trusted-proxies": {
    type: "string",
    value: "number",
    about: "The client's entry in a list such as X-Forwarded-For, from the right; else 1.",
  },
  match: {
    type: "string",
    multiple: true,
    value: "request",
    about: 'Only requests with this method and path pattern, such as "POST /login".',
  },
  status: {
    type: "string",
    value: "statuses",
    about: 'Only requests with one of these statuses, such as "2xx,401".',
  },
  time: { type: "string", value: "field", about: "The field of the log with the time." },
  cost: { type: "string", value: "field", about: "The field of the log with the cost." },
  url: {
    type: "string",
    value: "url",
    about: `A server whose samples replace a log; with --policy alone, ${localServer}.`,
  },
  policy: { type: "string", value: "name", about: "The policy whose samples replace a log." },
  json: { type: "boolean", about: "Print JSON in place of text." },
  ...adminOptions,
} as const satisfies CommandOptions;

export type TrafficValues = Readonly<ReturnType<typeof parseCommandLine<typeof trafficOptions>>>;

export interface LogChoice {
  readonly kind: "log";
  readonly files: readonly string[];
  readonly key: LogKey;
  readonly readLine: LineReader;
  readonly filter: LogFilter;
}

/** Which requests of a log are read. Null: all. */
export interface LogFilter {
  readonly match: readonly RequestPattern[] | null;
  readonly status: string | null;
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
  rejectOthers(values, logOptions, "samples, whose keys are those of the policy");
  return { kind: "samples", url: url ?? localServer, policy };
}

const logOptions = [
  ...(["key", "time", "cost"] as const),
  ...(["address-field", "trusted-proxies", "match", "status"] as const),
];

function rejectOthers(values: TrafficValues, names: readonly (keyof TrafficValues)[], source: string): void {
  const name = names.find((each) => values[each] !== undefined);
  if (name !== undefined) throw new CommandError(`--${name} does not apply to ${source}.`);
}

function logChoice(values: TrafficValues, files: readonly string[]): LogChoice {
  const twice = files.find((file, index) => files.indexOf(file) !== index);
  if (twice !== undefined) throw new CommandError(`--log: expected ${twice} once, got it twice`);
  const key = keyOf(values);
  const match = values.match?.map(requestPattern) ?? null;
  const byStatus = values.status === undefined ? null : statusFilter(values.status);
  if (values.status !== undefined && byStatus === null) {
    throw new CommandError(`--status: expected ${acceptedStatus}, got "${values.status}"`);
  }
  const readLine = createLineReader({
    time: namedField("time", values.time),
    keyOf: key.keyOf,
    cost: namedField("cost", values.cost),
    filter: bothFilters(match === null ? null : requestFilter(match), byStatus),
  });
  const filter = { match, status: values.status ?? null };
  return { kind: "log", files, key, readLine, filter };
}

function keyOf(values: TrafficValues): LogKey {
  const field = namedField("address-field", values["address-field"]);
  const trustedProxies = proxiesOf(values["trusted-proxies"]);
  const key = readLogKey(values.key ?? ["ip"], { field, trustedProxies });
  if ("problem" in key) throw new CommandError(`--key: ${key.problem}`);
  const { parts } = key.value;
  const option = (["address-field", "trusted-proxies"] as const).find((each) => values[each]);
  if (option !== undefined && !parts.includes("ip")) {
    throw new CommandError(`--${option} applies to the key part ip: expected it in --key, got ${parts.join(", ")}`);
  }
  return key.value;
}

function proxiesOf(text: string | undefined): number | null {
  if (text === undefined) return null;
  if (/^(?:[1-9]|10)$/.test(text)) return Number(text);
  throw new CommandError(`--trusted-proxies: expected an integer from 1 to 10, got "${text}"`);
}

function requestPattern(text: string): RequestPattern {
  const pattern = readRequestPattern(text);
  if (!("accepted" in pattern)) return pattern;
  throw new CommandError(`--match: expected ${pattern.accepted}, got "${text}"`);
}

function bothFilters(first: LineFilter | null, second: LineFilter | null): LineFilter | null {
  if (first === null || second === null) return first ?? second;
  return (line) => {
    const kept = first(line);
    return kept === true ? second(line) : kept;
  };
}

function namedField(option: string, name: string | undefined): LogFieldName | null {
  if (name === undefined) return null;
  if (name.trim() === "") {
    throw new CommandError(`--${option}: expected the name of a field, got "${name}"`);
  }
  return fieldName(name.trim());
}
