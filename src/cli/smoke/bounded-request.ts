/** HTTP requests of the smoke test: without redirects, bounded in time and size, and with `Host` for `*.localhost`. */
import { request as requestHttp } from "node:http";
import { type IncomingMessage, type ClientRequest, type RequestOptions } from "node:http";
import { request as requestHttps } from "node:https";
import { jsonOrNull } from "../../validation/json.ts";
import { messageOf } from "../command.ts";

export interface SentRequest {
  readonly method?: "GET" | "POST" | "DELETE";
  readonly token?: string | null;
  /** Sent as JSON. */
  readonly body?: object;
}

export interface ReceivedAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Null when the body is not JSON. */
  readonly json: unknown;
  readonly isProblem: boolean;
}

/** Sends a request to a URL. @throws NoAnswer when no response comes */
export type Send = (url: URL, request?: SentRequest) => Promise<ReceivedAnswer>;

/** A request without a response: the reason in a few words. */
export class NoAnswer extends Error {}

const requestTimeoutMs = 10_000;
const mostBodyBytes = 1_000_000;

/** @param signal ends all requests; its reason is the message of the error */
export const sender =
  (signal: AbortSignal): Send =>
  async (url, sent = {}) => {
    const timeout = AbortSignal.timeout(requestTimeoutMs);
    try {
      const response = await responseTo(url, sent, AbortSignal.any([signal, timeout]));
      return await answerOf(response);
    } catch (error) {
      if (signal.aborted) throw new NoAnswer(messageOf(signal.reason), { cause: error });
      throw new NoAnswer(timeout.aborted ? `nothing within ${requestTimeoutMs / 1000} s` : reasonOf(error), {
        cause: error,
      });
    }
  };

/** Not `fetch`, which resolves the host itself: many systems do not know `admin.localhost`. */
function responseTo(
  url: URL,
  { method = "GET", token = null, body }: SentRequest,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const content = body === undefined ? null : JSON.stringify(body);
  const options: RequestOptions = {
    method,
    host: url.hostname.endsWith(".localhost") ? "localhost" : url.hostname.replace(/^\[|\]$/g, ""),
    port: url.port === "" ? undefined : url.port,
    path: url.pathname + url.search,
    signal,
    headers: {
      Host: url.host,
      Accept: "*/*",
      "User-Agent": "headgate-smoke",
      ...(token !== null && { Authorization: `Bearer ${token}` }),
      ...(content !== null && {
        "Content-Type": "application/json",
        "Content-Length": Buffer.byteLength(content),
      }),
    },
  };
  const request: ClientRequest = url.protocol === "https:" ? requestHttps(options) : requestHttp(options);
  request.on("response", resolve).on("error", reject).end(content);
  return promise;
}

async function answerOf(response: IncomingMessage): Promise<ReceivedAnswer> {
  const headers = new Headers();
  for (const [name, values] of Object.entries(response.headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value);
  }
  const type = headers.get("Content-Type") ?? "";
  // An endless body, such as a stream of events, is never read.
  const text = /json|html|text\/plain/.test(type) ? await textOf(response) : "";
  response.destroy();
  return {
    status: response.statusCode ?? 0,
    headers,
    text,
    json: jsonOrNull(text),
    isProblem: type.startsWith("application/problem+json"),
  };
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: string[] = [];
  let length = 0;
  for await (const chunk of response.setEncoding("utf8")) {
    const text = String(chunk);
    chunks.push(text);
    length += text.length;
    if (length > mostBodyBytes) break;
  }
  return chunks.join("");
}

function reasonOf(error: unknown): string {
  const code: unknown = Reflect.get(Object(error), "code");
  return typeof code === "string" ? code : messageOf(error);
}
