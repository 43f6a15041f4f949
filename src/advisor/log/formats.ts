/** The formats of log lines: the common and combined log format, those of proxies, tables with a header, and JSON. */
import { JsonLine, lineOf, type LogFieldName, type LogLine } from "./log-line.ts";

/**
 * The host, client, user and time. Some servers write the virtual host and its port first. A host with colons must be
 * in brackets, because an IPv6 address can end like a port. The name of a user may contain brackets, so only brackets
 * around a day contain the time. The length of the time is bounded, so that a long line with many brackets takes linear
 * time.
 */
const commonLog = /^(?:([^\s:]+|\[[^\s\]]+\]):\d+ (?!- ))?(\S+) \S+ (.*?(?=\[\d\d\/)|[^[]*)\[([^\]]{0,64})\]/;

/**
 * The request, the status, the size, and in the combined format the referrer and the user agent. The format `main` of nginx
 * adds X-Forwarded-For.
 */
const restOfLog =
  /^ "((?:[^"\\]|\\.)*)" (\S+) (\S+)(?: "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"(?: "((?:[^"\\]|\\.)*)")?)?/;

interface CommonLine extends LogLine {
  /** Whether a quoted request follows the time, as in nearly every line of these formats. */
  readonly hasRequest: boolean;
}

/** A line in the common or combined log format. Its fields have the names that nginx gives them. */
function parseCommon(line: string): CommonLine | null {
  const head = commonLog.exec(line);
  if (head === null) return null;
  let rest: RegExpExecArray | null | undefined;
  const valueOf = ({ text }: Pick<LogFieldName, "text">): string | undefined => {
    const place = commonFields.get(text);
    if (place === undefined) return undefined;
    if (place.part === "head") return head[place.group]?.trim();
    rest ??= restOfLog.exec(line.slice(head[0].length));
    return rest?.[place.group];
  };
  return {
    hasRequest: line.startsWith(' "', head[0].length),
    get names() {
      return [...commonFields.keys()].filter((text) => valueOf({ text }) !== undefined);
    },
    valueOf,
  };
}

const placesIn = (part: "head" | "rest", names: readonly string[]) =>
  names.map((name, index) => [name, { part, group: index + 1 }] as const);

/** Maps each field, by nginx's name, to the regular expression and the group that match it. */
const commonFields = new Map([
  ...placesIn("head", ["host", "remote_addr", "remote_user", "time_local"]),
  ...placesIn("rest", [
    "request",
    "status",
    "body_bytes_sent",
    "http_referer",
    "http_user_agent",
    "http_x_forwarded_for",
  ]),
]);

/**
 * Lines that proxies write in formats of their own: HAProxy (`option httplog`), Envoy and Istio (default format), AWS
 * Application Load Balancers. The fields have the names that nginx gives them, so that every format has the same ones.
 */
const parseProxyLine = (line: string): LogLine | null =>
  line.startsWith("[") ? parseEnvoy(line) : (parseBalancer(line) ?? parseHaproxy(line));

type Fields = readonly (readonly [name: string, value: string | undefined])[];

const known = (fields: Fields): LogLine =>
  lineOf(new Map(fields.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]))));

/** Words, and quoted texts without their quotation marks. */
function wordsOf(text: string): { readonly text: string; readonly isQuoted: boolean }[] {
  return Array.from(text.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g), ([, quoted, word = ""]) => ({
    text: quoted ?? word,
    isQuoted: quoted !== undefined,
  }));
}

/** A client with its port, the time, the frontend, the backend and its server, the timers, the status and the size. */
const haproxyForm =
  /(?:^|\s)(\S{1,64}):\d{1,5} \[(\d\d\/[A-Z][a-z]{2}\/\d{4}:[\d:.]{8,20})\] (\S{1,256}) ([^\s/]{1,256})\/(\S{1,256}) [-+\d/]+ (-?\d+) \+?(\d+) (.*)$/;

function parseHaproxy(line: string): LogLine | null {
  if (!line.includes(" [")) return null;
  const found = haproxyForm.exec(line);
  if (found === null) return null;
  const [, client, time, frontend, backend, server, status, bytes, rest = ""] = found;
  const request = /"([^"]*)"?$/.exec(rest)?.[1];
  // HAProxy writes captured headers in braces, first those of the request.
  const captured = /\{([^}]*)\}/.exec(rest)?.[1]?.split("|") ?? [];
  return known([
    ["remote_addr", client],
    ["time_local", time],
    ["request", request],
    ["status", status],
    ["body_bytes_sent", bytes],
    ["frontend", frontend],
    ["backend", backend],
    ["server", server],
    ...captured.map((value, index) => [`captured_${index + 1}`, value] as const),
  ]);
}

/** The last five quoted texts of Envoy: X-Forwarded-For, user agent, request id, host and upstream. */
const envoyTexts = 5;

function parseEnvoy(line: string): LogLine | null {
  const [head, time, request, status, rest = ""] =
    /^\[(\d{4}-\d\d-\d\dT[^\]]{8,30})\] "([^"]*)" (\d+) (.*)$/.exec(line) ?? [];
  if (head === undefined) return null;
  const words = wordsOf(rest);
  const last = words.findLastIndex(({ isQuoted }) => isQuoted) + 1;
  const texts = words.slice(Math.max(0, last - envoyTexts), last);
  if (texts.length < envoyTexts || !texts.every(({ isQuoted }) => isQuoted)) return null;
  const [forwarded, agent, id, host] = texts.map(({ text }) => text);
  // Istio adds the cluster and the addresses of both connections.
  const [, , , remote] = words.slice(last).map(({ text }) => text);
  return known([
    ["time", time],
    ["request", request],
    ["status", status],
    ["http_x_forwarded_for", forwarded],
    ["http_user_agent", agent],
    ["request_id", id],
    ["host", host],
    ["downstream_remote_address", remote],
  ]);
}

const balancerForm =
  /^(?:(?:https?|h2|grpcs?|wss?) )?\d{4}-\d\d-\d\dT[\d:.]{8,20}Z \S{1,256} \S{1,64} \S{1,64} -?[\d.]+ -?[\d.]+ -?[\d.]+ /;

/** An Application Load Balancer, or a Classic one, which has no type and fewer fields. */
function parseBalancer(line: string): LogLine | null {
  if (!balancerForm.test(line)) return null;
  const words = wordsOf(line).map(({ text }) => text);
  const [time, balancer, client = "", , , , , status, targetStatus, , sent, request, agent, ...more] = /^\d/.test(line)
    ? words
    : words.slice(1);
  const [, , , trace, domain, , , created] = more;
  return known([
    // The time at the start of the line is the time of the response.
    ["time", /^\d{4}-/.test(created ?? "") ? created : time],
    ["response_time", time],
    ["load_balancer", balancer],
    ["remote_addr", client.replace(/:\d{1,5}$/, "")],
    ["status", status],
    ["target_status", targetStatus],
    ["body_bytes_sent", sent],
    ["request", request],
    ["http_user_agent", agent],
    ["trace_id", trace],
    ["domain_name", domain],
  ]);
}

interface TableColumns {
  readonly names: readonly string[];
  readonly cellsOf: (row: string) => readonly string[] | null;
}

/** A row with a line break in quotation marks continues in the next line, up to this many characters. */
const longestRow = 65_536;

/**
 * Rows below a line that names their columns: CSV (RFC 4180) with commas, semicolons or tabs, and the extended log format of
 * the W3C, which CloudFront and IIS write.
 */
class TableRows {
  readonly #times: ReadonlySet<string>;
  #columns: TableColumns | null = null;
  #header = "";
  /** A row whose quotation mark is open. */
  #open = "";

  /** @param times the known fields for the time. A header must name at least one */
  constructor(times: readonly LogFieldName[]) {
    this.#times = new Set(times.map(({ text }) => text));
  }

  /** Reads a directive such as `#Fields: date time c-ip`. Returns whether the line is one. */
  readDirective(line: string): boolean {
    if (!/^#[A-Za-z-]+:/.test(line)) return false;
    const names = /^#Fields:\s*(.+)$/i.exec(line)?.[1]?.split(/\s+/);
    if (names !== undefined) this.#columns = { names: names.map(plainName), cellsOf: cellsOfW3c };
    return true;
  }

  /** Returns whether the line names the columns of rows that follow. Files in one log repeat their header. */
  readHeader(line: string): boolean {
    if (line === this.#header) return true;
    for (const delimiter of [",", ";", "\t"]) {
      const written = line.includes(delimiter) ? cellsOfCsv(line, delimiter) : null;
      const names = written?.map(plainName) ?? [];
      if (!this.#isHeader(names)) continue;
      this.#columns = { names, cellsOf: (row) => cellsOfCsv(row, delimiter) };
      this.#header = line;
      return true;
    }
    return false;
  }

  #isHeader(names: readonly string[]): boolean {
    return (
      names.some((name) => this.#times.has(name)) &&
      names.every((name) => /^[\p{L}_@$]/u.test(name)) &&
      new Set(names).size === names.length
    );
  }

  /**
   * Returns the row; null if the row continues in the next line; a reason if it cannot be read; undefined if no columns
   * are known.
   */
  readRow(line: string): LogLine | string | null | undefined {
    const columns = this.#columns;
    if (columns === null || (this.#open === "" && line === this.#header)) return undefined;
    const row = this.#open === "" ? line : `${this.#open}\n${line}`;
    this.#open = "";
    const cells = columns.cellsOf(row);
    if (cells === null) {
      if (row.length > longestRow) return "expected a quotation mark at the end of a cell";
      this.#open = row;
      return null;
    }
    const { names } = columns;
    if (cells.length !== names.length) return `expected ${names.length} columns as in the header, got ${cells.length}`;
    const fields = new Map<string, string>();
    for (const [index, name] of names.entries()) {
      const cell = (cells[index] ?? "").trim();
      if (cell !== "") fields.set(name, cell);
    }
    return lineOf(fields);
  }
}

/** Turns a name such as "Client IP" into `client_ip`. */
const plainName = (name: string): string => name.trim().toLowerCase().replaceAll(/\s+/g, "_");

const cellsOfW3c = (row: string): readonly string[] => row.split(row.includes("\t") ? "\t" : " ");

/** Null for a row whose last cell continues in the next line. */
function cellsOfCsv(row: string, delimiter: string): readonly string[] | null {
  if (!row.includes('"')) return row.split(delimiter);
  const cells: string[] = [];
  for (let from = 0; from <= row.length;) {
    if (row[from] !== '"') {
      const end = row.indexOf(delimiter, from);
      cells.push(row.slice(from, end === -1 ? row.length : end));
      if (end === -1) return cells;
      from = end + 1;
      continue;
    }
    let end = row.indexOf('"', from + 1);
    while (end !== -1 && row[end + 1] === '"') end = row.indexOf('"', end + 2);
    if (end === -1) return null;
    cells.push(row.slice(from + 1, end).replaceAll('""', '"'));
    const next = row.indexOf(delimiter, end + 1);
    if (next === -1) return cells;
    from = next + 1;
  }
  return cells;
}

/** Returns null when the line fits none of the formats that need no header. */
export function parseLine(line: string): LogLine | null {
  if (line.startsWith("{")) return JsonLine.parse(line);
  const common = parseCommon(line);
  return common?.hasRequest === true ? common : (parseProxyLine(line) ?? common);
}

/**
 * Reads lines of all formats, which may be mixed. Returns the reason as a text if a line cannot be read, and null for a
 * header or for a row that continues in the next line.
 * @param times the names of fields that may have the time. The header of a table must name at least one
 * @param accepted the expected forms, for the error about a line in an unknown format
 */
export function lineParser(
  times: readonly LogFieldName[],
  accepted: string,
): (line: string) => LogLine | string | null {
  const table = new TableRows(times);
  return (text) => {
    if (text.startsWith("{")) return JsonLine.parse(text) ?? "expected an object in JSON";
    if (text.startsWith("#") && table.readDirective(text)) return null;
    const row = table.readRow(text);
    if (row !== undefined && typeof row !== "string") return row;
    const line = parseLine(text);
    if (line !== null) return line;
    return table.readHeader(text) ? null : (row ?? `expected ${accepted}`);
  };
}
