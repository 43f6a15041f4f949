/** Reads from a response how long to wait: `Retry-After` (RFC 9110, section 10.2.3) and `RateLimit` (draft 11). */
import { parseList } from "structured-headers";

export interface HeaderFields {
  get(name: string): string | null;
}

/** The greatest delay of a timer. */
const mostMs = 2 ** 31 - 1;

/**
 * The wait in `Retry-After`; null without a valid one.
 * @param nowMs the time of the client, for a response without `Date`
 */
export function retryAfterMsIn(headers: HeaderFields, nowMs: number): number | null {
  const text = headers.get("Retry-After")?.trim() ?? "";
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1_000, mostMs);
  const untilMs = httpDateMs(text);
  if (untilMs === null) return null;
  // The clock of the server may differ from that of the client.
  const sentMs = httpDateMs(headers.get("Date")?.trim() ?? "") ?? nowMs;
  return Math.min(Math.max(0, untilMs - sentMs), mostMs);
}

/** The date of each of the three forms of RFC 9110, section 5.6.7; null for other text. */
function httpDateMs(text: string): number | null {
  const hasZone = /^[A-Z][a-z]+, [\w -]+ \d\d:\d\d:\d\d GMT$/.test(text);
  const isAsctime = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}$/.test(text);
  if (!hasZone && !isAsctime) return null;
  const ms = Date.parse(hasZone ? text : `${text} GMT`);
  return Number.isNaN(ms) ? null : ms;
}

/**
 * The time until something remains under every limit in `RateLimit`: 0 when something remains now, when the field is
 * missing or invalid, and when it states no time.
 */
export function replenishMsIn(headers: HeaderFields): number {
  const waits = itemsOf(headers.get("RateLimit") ?? "").map(([, parameters]) => {
    const seconds = parameters.get("r") === 0 ? parameters.get("t") : 0;
    return typeof seconds === "number" ? seconds * 1_000 : 0;
  });
  return Math.min(Math.max(0, ...waits), mostMs);
}

/** An invalid field is ignored, as the draft demands. */
function itemsOf(text: string): ReturnType<typeof parseList> {
  try {
    return parseList(text);
  } catch {
    return [];
  }
}
