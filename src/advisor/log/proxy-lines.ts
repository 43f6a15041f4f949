/**
 * Lines that proxies write in formats of their own: HAProxy (`option httplog`), Envoy and Istio (default format), AWS
 * Application Load Balancers. The fields have the names that nginx gives them, so that every format has the same ones.
 */
import { lineOf, type LogLine } from "./log-line.ts";

/** Null when the line is in none of these formats. */
export const parseProxyLine = (line: string): LogLine | null =>
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
  // Headers that the configuration captures stand in braces, the ones of the request first.
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
    // The time of the line is that of the response.
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
