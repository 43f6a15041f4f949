/**
 * Forwards allowed requests to the origin: method, path, query, bodies as streams, upgrades, redirects and cookies as
 * they are, but for the fields that are a gateway's to change.
 */
import type { MiddlewareHandler } from "hono";
import type { Config, Origin } from "../../config/index.ts";
import { Cooldown } from "../../limiter/client/cooldown.ts";
import { errorText, report } from "../../observability/events.ts";
import { addWay, forwardsLeft, hasPassed, removeHopByHop } from "./gateway-fields.ts";
import { problemResponse } from "../wire/problems.ts";
import { knownUrlOf, urlOf } from "../attributes.ts";

const secretField = "X-Headgate-Secret";

export const forwardable = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/**
 * Refuses what could never be forwarded, before it is charged.
 * @param pseudonym what the deployment calls itself in `Via`
 */
export function refuseUnforwardable(
  config: Config,
  pseudonym: () => Promise<string>,
): MiddlewareHandler {
  const reportLoop = loopReporter();
  return async function unforwardableRefused(c, next) {
    const { origin } = config;
    const { method, headers } = c.req.raw;
    if (!isForwardable(method)) {
      return problemResponse({ kind: "method-not-allowed", allowed: forwardable });
    }
    if (origin.kind === "none") return problemResponse({ kind: "origin-unset" });
    // Fetching one's own host comes back here; only a Worker on a route reaches the zone's origin that way.
    if (origin.kind === "url" && origin.url.host === urlOf(c.req.raw)?.host) {
      reportLoop("origin-is-self");
      return problemResponse({ kind: "origin-is-self" });
    }
    if (headers.has("Via") && hasPassed(headers, await pseudonym())) {
      reportLoop("via");
      return problemResponse({ kind: "loop" });
    }
    if (forwardsLeft(c.req.raw) === 0) {
      return c.body(null, 204, { Allow: forwardable.join(", ") });
    }
    return next();
  };
}

const loopRestMs = 60_000;

/** Reports a loop once a minute: every request would, and a client can forge `Via`. */
function loopReporter(): (reason: "origin-is-self" | "via") => void {
  const rest = new Cooldown(loopRestMs);
  return (reason) => {
    if (rest.isOn) return;
    rest.begin();
    report({ event: "origin-loop", reason });
  };
}

const isForwardable = (method: string): boolean => method !== "TRACE" && method !== "CONNECT";

/**
 * The origin's answer, or the problem that there is none.
 * @param left aborted when nobody waits for it any more
 */
export type Forward = (request: Request, left?: AbortSignal) => Promise<Response>;

export function forwardTo(config: Config, pseudonym: () => Promise<string>): Forward {
  return async function proxied(received, left) {
    const request = originRequest(config, received, await pseudonym());
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), config.originTimeoutMs);
    try {
      // What the origin has encoded is passed on as it is, whatever is done with its body on the way.
      const fetched = await fetch(request, {
        encodeResponseBody: "manual",
        signal: left === undefined ? late.signal : AbortSignal.any([late.signal, left]),
      });
      return cleaned(fetched);
    } catch (error) {
      if (late.signal.aborted) {
        report({ event: "origin-too-slow", timeoutMs: config.originTimeoutMs });
        return problemResponse({ kind: "origin-too-slow" });
      }
      const hasLeft = left?.aborted === true || received.signal.aborted;
      // workerd gives every failure to connect another text, and none a class: all mean the same to a client.
      if (!hasLeft) report({ event: "origin-unreachable", error: errorText(error) });
      return problemResponse({ kind: "origin-unreachable" });
    } finally {
      clearTimeout(timer);
    }
  };
}

function originRequest(config: Config, received: Request, pseudonym: string): Request {
  const url = knownUrlOf(received);
  const addressed = new Request(originUrl(config.origin, url), received);
  // The edge makes requests that follow no redirects; whoever else calls may not.
  const request =
    addressed.redirect === "manual" ? addressed : new Request(addressed, { redirect: "manual" });
  const { headers } = request;
  const isUpgrade = isWebSocket(received);
  removeHopByHop(headers);
  addWay(headers, received, url, pseudonym);
  const forwards = forwardsLeft(received);
  if (forwards !== null) headers.set("Max-Forwards", String(forwards - 1));
  if (isUpgrade) headers.set("Upgrade", "websocket");
  headers.delete(secretField);
  if (config.originSecret !== null) headers.set(secretField, config.originSecret);
  return request;
}

/**
 * A GET without a body, as RFC 6455 has it, section 4.1. workerd would make one of any method: the origin is to be asked
 * for what the policies have seen. And it never tells that a socket is closed whose request has a body.
 */
const isWebSocket = ({ method, body, headers }: Request): boolean =>
  method === "GET" && body === null && headers.get("Upgrade")?.toLowerCase() === "websocket";

/** The URL parser has resolved dot segments; nothing else of path and query is touched. */
function originUrl(origin: Origin, received: URL): URL {
  if (origin.kind !== "url") return received;
  const url = new URL(received);
  url.protocol = origin.url.protocol;
  url.host = origin.url.host;
  // Setting a host without a port keeps the port that was there.
  url.port = origin.url.port;
  return url;
}

/** The origin's response with headers of its own, since those of a fetched one cannot be changed. */
function cleaned(fetched: Response): Response {
  const { status } = fetched;
  if (status !== 101 && (status < 200 || status > 599)) {
    report({ event: "origin-response-invalid", status });
    return problemResponse({ kind: "origin-response-invalid" });
  }
  const response = new Response(fetched.body, fetched);
  removeHopByHop(response.headers);
  return response;
}
