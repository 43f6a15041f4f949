/** Checks that every response must pass: who sent it, and that it shows no failure of Headgate. */
import type { Answer } from "./connection.ts";
import { originField } from "./origin.ts";

export type Responder = "the origin" | "Headgate" | "workerd";

/** workerd answers in plain text or without a body when it rejects a request or fails. */
export function responderOf({ status, headers }: Answer): Responder {
  if (headers.has(originField)) return "the origin";
  const type = headers.get("content-type") ?? "text/plain";
  return [400, 408, 413, 414, 431, 500, 501, 505].includes(status) && type.startsWith("text/plain")
    ? "workerd"
    : "Headgate";
}

/** Reasons for which a 5xx is an expected response to a request. */
export interface Excuse {
  /** A CONNECT request does not reach Headgate, and workerd has no handler for it. */
  readonly isConnect?: boolean;
  /** The body ends early, or the request makes the origin fail, so that the origin is unreachable for Headgate. */
  readonly isUnreachable?: boolean;
}

/** The fault in a 5xx response, or null. */
export function failureOf(answer: Answer, { isConnect, isUnreachable }: Excuse = {}): string | null {
  const { status, body } = answer;
  const author = responderOf(answer);
  if (status < 500 || author === "the origin") return null;
  if (author === "workerd" && (status === 501 || isConnect === true)) return null;
  if (status === 502 && isUnreachable === true) return null;
  return `${author} answered ${status}: ${body}`;
}

/** Redirects, upgrades and 304 responses carry no RateLimit fields. */
export const hasFieldsOf = ({ status }: Answer): boolean => status >= 200 && (status < 300 || status >= 400);

/** The remaining units of each limit in the RateLimit field of a response. */
export function remainingInFields({ headers }: Answer): Map<string, number> {
  const items = (headers.get("ratelimit") ?? "").matchAll(/"([a-z][a-z.-]*)";r=(\d+)/g);
  return new Map([...items].map(([, name = "", remaining]) => [name, Number(remaining)]));
}

export function jsonOf({ body }: Answer): unknown {
  try {
    return JSON.parse(body) as unknown;
  } catch {
    return null;
  }
}

/** The fault in the decision about any request, or null: the remaining units are below 0 or above the capacity. */
export function invalidDecision(json: unknown): string | null {
  const { limits = [] } = Object(json) as { limits?: Record<string, number>[] };
  const isSound = limits.every(({ remaining = -1, capacity = -1, limit = 0 }) => {
    const isCount = Number.isInteger(remaining) && Number.isInteger(capacity) && limit >= 1;
    return isCount && remaining >= 0 && remaining <= capacity;
  });
  return isSound ? null : `no decision: ${JSON.stringify(json)}`;
}
