/** HTTP requests of local commands: without redirects, bounded in time and size, and with `Host` for `*.localhost`. */
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isRecord, jsonOrNull } from "../validation/json.ts";
import { messageOf } from "./command.ts";

export interface SentRequest {
  readonly method?: string;
  readonly token?: string | null;
  /** Sent as JSON. */
  readonly body?: object;
  /** Further header fields. */
  readonly fields?: Readonly<Record<string, string>>;
}

interface RequestBounds {
  readonly timeoutMs?: number;
  readonly mostBytes?: number;
  /** Bodies of other types, such as an endless stream of events, are not read. */
  readonly types?: RegExp;
  /** Ends the request; its reason is the reason of the failure. */
  readonly signal?: AbortSignal;
}

export interface ReceivedAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Empty when the body is not a JSON object. */
  readonly json: Readonly<Record<string, unknown>>;
  readonly isProblem: boolean;
}

/** A request without a response: the reason in a few words. */
export class NoAnswer extends Error {}

/** @throws NoAnswer when no response comes */
export async function sendRequest(
  url: URL,
  sent: SentRequest,
  { timeoutMs = 10_000, mostBytes = Infinity, types = /^/, signal }: RequestBounds = {},
): Promise<ReceivedAnswer> {
  const timeout = AbortSignal.timeout(timeoutMs);
  const either = signal === undefined ? timeout : AbortSignal.any([signal, timeout]);
  try {
    return await answerOf(await responseTo(url, sent, either), mostBytes, types);
  } catch (error) {
    const code: unknown = Reflect.get(Object(error), "code");
    const late = timeout.aborted ? `nothing within ${timeoutMs / 1000} s` : null;
    const reason = late ?? (typeof code === "string" ? code : messageOf(error));
    throw new NoAnswer(signal?.aborted === true ? messageOf(signal.reason) : reason, { cause: error });
  }
}

/** Not `fetch`, which resolves the host itself: many systems do not know `admin.localhost`. */
function responseTo(url: URL, { method = "GET", token = null, body, fields }: SentRequest, signal: AbortSignal) {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const request = url.protocol === "https:" ? requestHttps : requestHttp;
  const headers = {
    Host: url.host,
    Accept: "*/*",
    "User-Agent": "headgate",
    ...(token !== null && { Authorization: `Bearer ${token}` }),
    ...(body !== undefined && { "Content-Type": "application/json" }),
    ...fields,
  };
  const place = url.hostname.endsWith(".localhost") ? { hostname: "localhost" } : {};
  request(url.href, { method, signal, headers, ...place })
    .on("response", resolve)
    .on("error", reject)
    .end(body === undefined ? null : JSON.stringify(body));
  return promise;
}

async function answerOf(response: IncomingMessage, mostBytes: number, types: RegExp): Promise<ReceivedAnswer> {
  const headers = new Headers();
  for (const [name, values] of Object.entries(response.headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value);
  }
  const type = headers.get("Content-Type") ?? "";
  let text = "";
  for await (const chunk of types.test(type) ? response.setEncoding("utf8") : []) {
    text += String(chunk);
    if (text.length > mostBytes) break;
  }
  response.destroy();
  const json = jsonOrNull(text);
  const isProblem = type.startsWith("application/problem+json");
  return { status: response.statusCode ?? 0, headers, text, json: isRecord(json) ? json : {}, isProblem };
}
