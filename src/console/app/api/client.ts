/** Calls the admin API with the credentials of this tab. */
import { signal } from "@preact/signals";
import { followClock, now } from "../clock.ts";
import type { ProblemDetails } from "../../../admin/wire.ts";

/** Whether the last call reached the Worker. */
export const isConnected = signal(true);

/** When the last answer arrived; null before the first. */
export const answeredAtMs = signal<number | null>(null);

/** The bearer token of this tab; null with Cloudflare Access, and before sign-in. */
export const token = signal<string | null>(null);

/** The problem of the last call whose credentials were refused; null while they are accepted. */
export const refusal = signal<ApiProblem | null>(null);

export class ApiProblem extends Error {
  readonly status: number;
  /** The invalid fields of a form. */
  readonly fields: NonNullable<ProblemDetails["errors"]>;

  constructor({ status, detail, errors = [] }: Pick<ProblemDetails, "status" | "detail" | "errors">) {
    super(detail);
    this.status = status;
    this.fields = errors;
  }
}

/** No answer: the connection is lost, or the Worker does not run. */
export class ConnectionLost extends Error {
  constructor(cause: unknown) {
    super("The Worker cannot be reached.", { cause });
  }
}

/** Libraries may throw values that are no errors. */
export const errorOf = (thrown: unknown): Error => (thrown instanceof Error ? thrown : new Error(String(thrown)));

interface CallOptions {
  readonly body?: unknown;
  /** The revision that the change is based on. */
  readonly ifMatch?: string;
  /** Makes a repeated call harmless: the second one returns the answer of the first. */
  readonly idempotencyKey?: string;
  readonly signal?: AbortSignal | undefined;
  /** Without an answer until then, the connection counts as lost. Default: the browser's. */
  readonly deadlineMs?: number;
  /** A token for this call only, in place of the token of the tab. */
  readonly checkedToken?: string | undefined;
}

/** Longer than the Worker waits for any object. */
const deadlineMs = 8_000;

/**
 * @param path below `/api/`, with its query
 * @throws ApiProblem
 * @throws ConnectionLost
 */
export async function call<Value>(
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE",
  path: string,
  options: CallOptions = {},
): Promise<Value> {
  const { response, text } = await send(method, path, method === "GET" ? { deadlineMs, ...options } : options);
  followClock(response.headers.get("Date"));
  if (!response.ok) {
    const problem = problemIn(response, text);
    if (problem.status === 401 && options.checkedToken === undefined) refusal.value = problem;
    throw problem;
  }
  const value = response.status === 204 ? null : objectIn(text);
  if (value === undefined) throw new ApiProblem(unreadable);
  if (options.checkedToken === undefined) refusal.value = null;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- contract tests of the admin API check the answers
  return value as Value;
}

export const read = <Value>(path: string, abort?: AbortSignal): Promise<Value> =>
  call<Value>("GET", path, { signal: abort });

/** Reads an answer that is not a single JSON object, as text. */
export async function readText(path: string): Promise<string> {
  const { response, text } = await send("GET", path, {});
  if (!response.ok) throw problemIn(response, text);
  return text;
}

/** An answer that is cut off counts as lost. */
async function send(
  method: string,
  path: string,
  { body, ifMatch, idempotencyKey, signal: abort, checkedToken, deadlineMs: dueMs }: CallOptions,
): Promise<{ readonly response: Response; readonly text: string }> {
  const headers = new Headers();
  const bearer = checkedToken ?? token.value;
  if (bearer !== null) headers.set("Authorization", `Bearer ${bearer}`);
  if (body !== undefined) headers.set("Content-Type", "application/json");
  if (ifMatch !== undefined) headers.set("If-Match", ifMatch);
  if (idempotencyKey !== undefined) headers.set("Idempotency-Key", idempotencyKey);
  const late = new AbortController();
  const timer = dueMs === undefined ? undefined : setTimeout(() => late.abort(), dueMs);
  try {
    const response = await fetch(`api/${path}`, {
      method,
      headers,
      cache: "no-store",
      redirect: "manual",
      body: body === undefined ? null : JSON.stringify(body),
      signal: abort === undefined ? late.signal : AbortSignal.any([abort, late.signal]),
    });
    const text = await response.text();
    isConnected.value = true;
    answeredAtMs.value = now();
    return { response, text };
  } catch (error) {
    if (abort?.aborted === true) throw error;
    isConnected.value = false;
    throw new ConnectionLost(error);
  } finally {
    clearTimeout(timer);
  }
}

export function problemIn({ status, type }: Response, text: string): ApiProblem {
  // The API itself never redirects. Cloudflare Access redirects to its sign-in when its session has ended.
  const hasAccessEnded = type === "opaqueredirect";
  return new ApiProblem(
    hasAccessEnded
      ? { status: 401, detail: "The session of Cloudflare Access has ended." }
      : (detailsIn(text) ?? { status, detail: `The Worker answered with status ${status}.` }),
  );
}

/**
 * The answer of another server, such as the sign-in page of a network. As after any status of 5xx, the change may have
 * been made.
 */
const unreadable = { status: 502, detail: "The answer is not JSON of the Worker: another server may have sent it." };

/** The problem details of an answer. Undefined if another server sent it, such as an error page. */
function detailsIn(text: string): ProblemDetails | undefined {
  const value = objectIn(text);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the contract tests of the admin API check the answers
  return value !== undefined && "detail" in value ? (value as ProblemDetails) : undefined;
}

function objectIn(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A query of the fields that are not empty, with its question mark if there are any. */
export function queryText(fields: Readonly<Record<string, string | number | undefined>>): string {
  const query = new URLSearchParams();
  for (const [name, value = ""] of Object.entries(fields)) {
    if (value !== "") query.set(name, String(value));
  }
  return query.size === 0 ? "" : `?${query.toString()}`;
}
