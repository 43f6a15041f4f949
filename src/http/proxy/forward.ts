/** Forwards allowed requests to the origin unchanged, except for the header fields that a gateway must change (RFC 9110, section 7.6). */
import type { Config, Origin } from "../../policy/vars/config.ts";
import { type RequestTarget, membersOf } from "../../policy/request.ts";
import { Cooldown } from "../../limiter/isolate/object-caller.ts";
import { errorText, report } from "../../observability/events.ts";
import { setupAnswer } from "../setup.ts";
import { problemResponse } from "../wire/problems.ts";
import { visitorOf } from "../../policy/address.ts";

const secretField = "X-Headgate-Secret";

/** The value of `Allow`. Methods that are not listed are forwarded too, except TRACE and CONNECT. */
const allowedMethods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/** The response to a request that cannot be forwarded; null for other requests. No policy charges such a request. */
export function unforwardableAnswer(
  { origin }: Config,
  pseudonym: () => Promise<string>,
): (request: Request, target: RequestTarget) => Promise<Response | null> {
  const reportLoop = loopReporter();
  return async function rejection(request, { host }) {
    const { method, headers } = request;
    if (!isForwardable(method)) {
      return problemResponse({ kind: "method-not-allowed", allowed: allowedMethods });
    }
    if (origin.kind === "none") return setupAnswer(request, { kind: "origin-unset" });
    // A fetch of the Worker's own host would reach the Worker again. Only `ORIGIN = "route"` reaches the zone's origin.
    if (origin.kind === "url" && origin.url.host === host) {
      reportLoop("origin-is-self");
      return problemResponse({ kind: "origin-is-self" });
    }
    if (headers.has("Via") && hasLooped(headers, await pseudonym())) {
      reportLoop("via");
      return problemResponse({ kind: "loop" });
    }
    if (forwardsLeft(request) === 0) return optionsAnswer();
    return null;
  };
}

/** The gateway's own response to an OPTIONS request that is not forwarded. */
export const optionsAnswer = (): Response =>
  new Response(null, { status: 204, headers: { Allow: allowedMethods.join(", ") } });

const loopReportIntervalMs = 60_000;

/** Reports loops at most once a minute, since a client can forge `Via`. */
function loopReporter(): (reason: "origin-is-self" | "via") => void {
  const cooldown = new Cooldown(loopReportIntervalMs);
  return (reason) => {
    if (cooldown.isOn) return;
    cooldown.begin();
    report({ event: "origin-loop", reason });
  };
}

const isForwardable = (method: string): boolean => method !== "TRACE" && method !== "CONNECT";

/**
 * Returns the origin's response, or a problem response when there is none.
 * @param clientGone aborts when the client has gone away
 */
export type Forward = (request: Request, clientGone?: AbortSignal) => Promise<Response>;

/** @param originFailed called for each request that the origin does not answer */
export function forwardTo(
  config: Config,
  pseudonym: () => Promise<string>,
  originFailed: () => void = () => undefined,
): (received: Request, target: RequestTarget, clientGone: AbortSignal | undefined) => Promise<Response> {
  if (config.origin.kind === "demo") return () => Promise.resolve(problemResponse({ kind: "origin-unset" }));
  return async function forwarded(received, target, clientGone) {
    const request = originRequest(config, received, target, await pseudonym());
    try {
      // Passes on an encoded body byte for byte, even when its end is observed.
      const fetching = fetch(request, { encodeResponseBody: "manual", signal: clientGone ?? null });
      const fetched = await withinTimeout(fetching, config.originTimeoutMs);
      if (fetched === null) {
        originFailed();
        report({ event: "origin-too-slow", timeoutMs: config.originTimeoutMs });
        return problemResponse({ kind: "origin-too-slow" });
      }
      if (!hasValidStatus(fetched)) {
        originFailed();
        return invalidResponse(fetched);
      }
      return clientResponse(fetched);
    } catch (error) {
      // workerd reports failures to connect by texts alone, so they cannot be distinguished.
      const isClientGone = clientGone?.aborted === true || received.signal.aborted;
      if (!isClientGone) {
        originFailed();
        report({ event: "origin-unreachable", error: errorText(error) });
      }
      return problemResponse({ kind: "origin-unreachable" });
    }
  };
}

/**
 * The response, or null when it does not begin in time. Uses no abort signal, because a signal is expensive. workerd
 * closes the connection to the origin after the response to the client.
 */
async function withinTimeout(fetching: Promise<Response>, timeoutMs: number): Promise<Response | null> {
  const { promise: timeout, resolve } = Promise.withResolvers<null>();
  const timer = setTimeout(() => {
    resolve(null);
    fetching.then(({ body }) => body?.cancel()).catch(() => undefined);
  }, timeoutMs);
  try {
    return await Promise.race([fetching, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

function originRequest(config: Config, received: Request, target: RequestTarget, pseudonym: string): Request {
  const copy = new Request(originUrl(config.origin, target), received);
  // Requests from the edge have `redirect: "manual"`; those from a service binding may follow redirects.
  const request = copy.redirect === "manual" ? copy : new Request(copy, { redirect: "manual" });
  const { headers } = request;
  const isUpgrade = isWebSocketUpgrade(received);
  removeHopByHop(headers);
  addForwardingFields(headers, received, target, pseudonym);
  const forwards = forwardsLeft(received);
  if (forwards !== null) headers.set("Max-Forwards", String(forwards - 1));
  if (isUpgrade) headers.set("Upgrade", "websocket");
  if (config.originSecret !== null) headers.set(secretField, config.originSecret);
  else if (headers.has(secretField)) headers.delete(secretField);
  return request;
}

/**
 * An upgrade is a GET without a body (RFC 6455, section 4.1). workerd turns an upgrade of any method into a GET, which the
 * policies have not seen; and it reports no close event when the request has a body.
 */
const isWebSocketUpgrade = ({ method, body, headers }: Request): boolean =>
  method === "GET" && body === null && headers.get("Upgrade")?.toLowerCase() === "websocket";

/** The URL parser has resolved dot segments; path and query are otherwise unchanged. */
function originUrl(origin: Origin, { plainPathAndQuery, text }: RequestTarget): string | URL {
  if (origin.kind !== "url") return text;
  if (plainPathAndQuery !== null) return origin.url.origin + plainPathAndQuery;
  const url = new URL(text);
  url.protocol = origin.url.protocol;
  url.host = origin.url.host;
  // Setting `host` without a port keeps the previous port.
  url.port = origin.url.port;
  return url;
}

const hasValidStatus = ({ status }: Response): boolean => status === 101 || (status >= 200 && status <= 599);

function invalidResponse({ status }: Response): Response {
  report({ event: "origin-response-invalid", status });
  return problemResponse({ kind: "origin-response-invalid" });
}

/** A copy for the client, since the headers of a fetched response are immutable. */
function clientResponse(fetched: Response): Response {
  const response = new Response(fetched.body, fetched);
  removeHopByHop(response.headers);
  return response;
}

/** Fields that are removed even when `Connection` does not name them. */
export const hopByHop: readonly string[] = [
  "Connection",
  "HTTP2-Settings",
  "Keep-Alive",
  "Proxy-Authenticate",
  "Proxy-Authentication-Info",
  "Proxy-Authorization",
  "Proxy-Connection",
  "TE",
  "Trailer",
  "Transfer-Encoding",
  "Upgrade",
];

const fieldName = /^[!#$%&'*+.^_`|~0-9a-z-]+$/i;

function removeHopByHop(headers: Headers): void {
  const nominated = headers.has("Connection") ? membersOf(headers, "Connection") : [];
  // A read costs less than the removal of an absent field.
  for (const name of hopByHop) if (headers.has(name)) headers.delete(name);
  for (const name of nominated) if (fieldName.test(name)) headers.delete(name);
}

/** Whether `Via` names this deployment: the request has passed it before. */
export const hasLooped = (headers: Headers, pseudonym: string): boolean =>
  membersOf(headers, "Via").some((member) => member.split(/\s+/)[1] === pseudonym);

/**
 * Adds `Via`, `X-Forwarded-*` and `Forwarded`. The last entry of a list comes from this gateway; earlier entries may be
 * forged.
 */
export function addForwardingFields(
  headers: Headers,
  received: Request,
  { protocol, host }: Pick<RequestTarget, "protocol" | "host">,
  pseudonym: string,
): void {
  const proto = protocol.slice(0, -1);
  const visitor = visitorOf(received.headers, { ipv6Prefix: 128, trustedProxies: null });
  const address = visitor?.address.toString() ?? "unknown";
  headers.append("Via", `${httpVersion(received)} ${pseudonym}`);
  headers.set("X-Forwarded-Proto", proto);
  headers.set("X-Forwarded-Host", host);
  // Cloudflare's edge has appended the address already.
  if (membersOf(headers, "X-Forwarded-For").at(-1) !== address) headers.append("X-Forwarded-For", address);
  const node = address.includes(":") ? `"[${address}]"` : address;
  const element = `for=${node};host="${host}";proto=${proto}`;
  const earlier = headers.get("Forwarded");
  headers.set("Forwarded", isForwardedList(earlier) ? `${earlier}, ${element}` : element);
}

/** The HTTP version that the client speaks with the edge. */
function httpVersion({ cf }: Request): string {
  const protocol: unknown = cf === undefined ? undefined : Reflect.get(cf, "httpProtocol");
  if (typeof protocol !== "string") return "1.1";
  const [, version = "1.1"] = /^HTTP\/(\d(?:\.\d)?)$/.exec(protocol) ?? [];
  return version;
}

/** RFC 7239, section 4. An invalid list is dropped: appending to it would make the new element invalid too. */
const forwardedPair = String.raw`[\w!#$%&'*+.^|~\`-]+=(?:[\w!#$%&'*+.^|~\`-]+|"(?:[^"\\]|\\.)*")`;
const forwardedElement = `${forwardedPair}(?:;${forwardedPair})*`;
const forwardedList = new RegExp(`^${forwardedElement}(?: *, *${forwardedElement})*$`);

const isForwardedList = (value: string | null): value is string =>
  value !== null && value !== "" && value.length <= 4_096 && forwardedList.test(value);

/** RFC 9110, section 7.6.2 lets a recipient lower `Max-Forwards` to the greatest value that it supports. */
const greatestMaxForwards = 2 ** 31;

/** How many more gateways an OPTIONS request may pass; null without a valid `Max-Forwards`. */
export function forwardsLeft({ method, headers }: Request): number | null {
  const text = method === "OPTIONS" ? headers.get("Max-Forwards") : null;
  const isLimited = text !== null && /^\d+$/.test(text);
  return isLimited ? Math.min(Number(text), greatestMaxForwards) : null;
}
