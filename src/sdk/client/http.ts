/**
 * Calls `/check` over HTTP. Holds back calls while the last answer says that the limits on `/check` itself leave nothing.
 */
import { type Clock, longestTimerMs } from "./clock.ts";
import { HeadgateError, type ForgetInput, type LookInput, isProblem, type Operation, shown } from "./messages.ts";
import type { HttpTarget } from "./options.ts";
import type { Call, Transport } from "./attempts.ts";
import { parseList } from "structured-headers";

/** The part of `fetch` that the client uses. The `fetch` of every platform has this type. */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchResponse>;

interface FetchInit {
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly body?: string;
  readonly redirect: "manual";
  readonly signal: AbortSignal;
}

export interface FetchResponse {
  readonly status: number;
  readonly headers: HeaderFields;
  text(): Promise<string>;
}

const routes: Readonly<Record<Operation, { readonly method: string; readonly below: string }>> = {
  check: { method: "POST", below: "" },
  look: { method: "GET", below: "" },
  forget: { method: "DELETE", below: "" },
  reserve: { method: "POST", below: "/reserve" },
  settle: { method: "POST", below: "/settle" },
  batch: { method: "POST", below: "/batch" },
};

export function httpTransport({ url, token, path, fetch }: HttpTarget, clock: Clock): Transport {
  const gate = new Gate(clock);
  const endpoint = new URL(url).origin + path;
  const urlOf = (operation: Operation): string => endpoint + routes[operation].below;
  const placeOf = (operation: Operation): string => `${routes[operation].method} ${urlOf(operation)}`;
  return {
    placeOf,
    heldBackMs: (operation) => gate.waitMs(operation),
    async send(call, signal) {
      const { operation, isIdempotent } = call;
      const place = placeOf(operation);
      const { response, text } = await received(
        fetch(...requestOf(call, urlOf(operation), token, signal)),
        place,
        call,
      );
      const { status, headers } = response;
      const json = jsonIn(text);
      const problem = isProblem(json) ? json : null;
      const retryAfterMs = retryAfterMsIn(headers, clock.now());
      gate.note(operation, { status, headers, retryAfterMs, reason: problem?.reason });
      if (operation === "forget" ? status === 204 : status === 200 && json !== undefined) return json;
      const what = problem === null ? unexpected(response, text) : `${problem.title}: ${problem.detail}`;
      // A call that is rejected or redirected charges nothing. Browsers show a redirect as status 0.
      const isUncharged = status === 0 || (status >= 300 && status < 500);
      const isSafeToRepeat = isIdempotent || isUncharged;
      throw new HeadgateError(`${place}: ${what}`, { status, problem, retryAfterMs, isSafeToRepeat });
    },
  };
}

function requestOf({ operation, input }: Call, url: string, token: string, signal: AbortSignal): Parameters<Fetch> {
  const { method } = routes[operation];
  const headers = { Authorization: `Bearer ${token}` };
  // Redirects are not followed, because another server must not receive the token.
  const init = { method, headers, redirect: "manual", signal } as const;
  if (method !== "POST") return [url + queryOf(input), init];
  const body = JSON.stringify(input);
  return [url, { ...init, headers: { ...headers, "Content-Type": "application/json" }, body }];
}

function queryOf({ policy, key, name, cost, attributes }: LookInput & ForgetInput): string {
  const query = new URLSearchParams();
  const keys = typeof key === "string" ? [key] : (key ?? []);
  if (policy !== undefined) query.set("policy", policy);
  for (const part of keys) query.append("key", part);
  if (name !== undefined) query.set("name", name);
  if (cost !== undefined) query.set("cost", String(cost));
  if (attributes !== undefined) query.set("attributes", JSON.stringify(attributes));
  return `?${query.toString()}`;
}

/** Reads the whole answer. An answer that is cut off counts as lost. */
async function received(
  responding: Promise<FetchResponse>,
  place: string,
  { isIdempotent }: Call,
): Promise<{ readonly response: FetchResponse; readonly text: string }> {
  try {
    const response = await responding;
    return { response, text: await response.text() };
  } catch (cause) {
    const isSafeToRepeat = isIdempotent || isNeverSent(cause);
    throw new HeadgateError(`${place}: no answer: ${causeText(cause)}`, { isSafeToRepeat, cause });
  }
}

/** The error codes of Node.js, Bun and Deno for a connection that was never made. Other platforms give no code. */
const unconnected: ReadonlySet<unknown> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
  "ConnectionRefused",
]);

const isNeverSent = (error: unknown): boolean =>
  error instanceof Error && (("code" in error && unconnected.has(error.code)) || isNeverSent(error.cause));

function causeText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message} (${causeText(error.cause)})` : error.message;
}

/** Returns undefined for a text that is not JSON. */
function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function unexpected({ status, headers }: FetchResponse, text: string): string {
  const location = headers.get("Location");
  if (location !== null) return `expected an answer of Headgate, got a redirect to ${location}`;
  const type = headers.get("Content-Type") ?? "no Content-Type";
  const got = `expected an answer of Headgate in JSON, got status ${status} with ${type}: ${shown(text)}`;
  return status < 500 ? `${got}. Verify url and path.` : got;
}

/**
 * The longest time for which an answer holds back further calls. The limits may be raised meanwhile, and only another
 * call can show that.
 */
const longestHoldMs = 60_000;

interface GateAnswer {
  readonly status: number;
  readonly headers: HeaderFields;
  readonly retryAfterMs: number | null;
  /** The reason in the problem details. */
  readonly reason: string | undefined;
}

class Gate {
  readonly #clock: Clock;
  /**
   * Closed operations, each with the time of its closure and its end. Operations are separate because a policy may
   * limit only one call of `/check`.
   */
  readonly #closures = new Map<Operation, { readonly atMs: number; readonly untilMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** How long the operation is still held back; 0 when it can be called now. */
  waitMs(operation: Operation): number {
    const closure = this.#closures.get(operation);
    const nowMs = this.#clock.now();
    // When the clock steps back, the wait ends instead of becoming longer.
    if (closure === undefined || nowMs < closure.atMs) return 0;
    return Math.max(0, closure.untilMs - nowMs);
  }

  note(operation: Operation, { status, headers, retryAfterMs, reason }: GateAnswer): void {
    // This denial is about one key with too many open reservations, so it holds back no other calls.
    if (status === 429 && reason === "reservations") return;
    // `Retry-After` takes precedence over `RateLimit`.
    const waitMs = status === 429 && retryAfterMs !== null ? retryAfterMs : replenishMsIn(headers);
    if (waitMs <= this.waitMs(operation)) return;
    const atMs = this.#clock.now();
    this.#closures.set(operation, { atMs, untilMs: atMs + Math.min(waitMs, longestHoldMs) });
  }
}

interface HeaderFields {
  get(name: string): string | null;
}

/**
 * The wait in `Retry-After`; null without a valid one.
 * @param nowMs the time of the client, for a response without `Date`
 */
export function retryAfterMsIn(headers: HeaderFields, nowMs: number): number | null {
  const text = headers.get("Retry-After")?.trim() ?? "";
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1_000, longestTimerMs);
  const untilMs = httpDateMs(text);
  if (untilMs === null) return null;
  // The clock of the server may differ from that of the client.
  const sentMs = httpDateMs(headers.get("Date")?.trim() ?? "") ?? nowMs;
  return Math.min(Math.max(0, untilMs - sentMs), longestTimerMs);
}

/** The time in milliseconds of a date in any of the three forms of RFC 9110, section 5.6.7; null for any other text. */
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
  return Math.min(Math.max(0, ...waits), longestTimerMs);
}

/** An invalid field is ignored, as the draft demands. */
function itemsOf(text: string): ReturnType<typeof parseList> {
  try {
    return parseList(text);
  } catch {
    return [];
  }
}
