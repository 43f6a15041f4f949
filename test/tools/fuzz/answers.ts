/** Whose an answer is, and what it tells. */
import type { Answer } from "./connection.ts";
import { originField } from "./origin.ts";

export type Responder = "the origin" | "Headgate" | "workerd";

/** The platform says in plain text, or without a word, what it has refused to read or could not run. */
export function responderOf({ status, headers }: Answer): Responder {
  if (headers.has(originField)) return "the origin";
  const type = headers.get("content-type") ?? "text/plain";
  return [400, 408, 413, 414, 431, 500, 501, 505].includes(status) && type.startsWith("text/plain")
    ? "workerd"
    : "Headgate";
}

/** What may come instead of an answer of 4xx, and is nobody's fault but the request's. */
export interface Excuse {
  /** Nothing of ours is asked, and the platform has no handler for it. */
  readonly isConnect?: boolean;
  /** The body breaks off, or the origin was asked to fail: it could not be reached, as far as can be told. */
  readonly isUnreachable?: boolean;
}

/** What is wrong with an answer of 5xx, whoever sent the request. */
export function failureOf(
  answer: Answer,
  { isConnect, isUnreachable }: Excuse = {},
): string | null {
  const { status, body } = answer;
  const author = responderOf(answer);
  if (status < 500 || author === "the origin") return null;
  if (author === "workerd" && (status === 501 || isConnect === true)) return null;
  if (status === 502 && isUnreachable === true) return null;
  return `${author} answered ${status}: ${body}`;
}

/** Redirects, upgrades and what updates caches have none of our fields. */
export const hasFieldsOf = ({ status }: Answer): boolean =>
  status >= 200 && (status < 300 || status >= 400);

/** What remains of each limit, by the fields of an answer. */
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

/** What is wrong with a decision, whatever was asked: it holds less than nothing, or more than there is. */
export function invalidDecision(json: unknown): string | null {
  const { limits = [] } = Object(json) as { limits?: Record<string, number>[] };
  const isSound = limits.every(({ remaining = -1, capacity = -1, limit = 0 }) => {
    const isCount = Number.isInteger(remaining) && Number.isInteger(capacity) && limit >= 1;
    return isCount && remaining >= 0 && remaining <= capacity;
  });
  return isSound ? null : `no decision: ${JSON.stringify(json)}`;
}
