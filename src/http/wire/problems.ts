/** Answers failures with problem details (RFC 9457). A failure has a `kind`, and the fields that its problem states. */
import { type Problem, type ProblemDetails, problems, type ProxyError } from "./problem-table.ts";

export type { FieldError, ProblemDetails, ProxyError } from "./problem-table.ts";

type Problems = typeof problems;

type FailureOf<Kind extends keyof Problems> = {
  [Each in Kind]: { readonly kind: Each } & (Problems[Each] extends () => Problem
    ? unknown
    : Parameters<Problems[Each]>[0]);
}[Kind];

export type Failure = FailureOf<keyof Problems>;
export type FieldsInvalid = FailureOf<"fields-invalid">;

/** Whether a value is a failure. No other value passed here has a `kind`. */
export const isFailure = <Refused extends Failure>(value: object | Refused): value is Refused => "kind" in value;

const problemByKind: { readonly [Kind in keyof Problems]: (failure: FailureOf<Kind>) => Problem } = problems;

const problemOf = <Kind extends keyof Problems>(failure: FailureOf<Kind>): Problem =>
  problemByKind[failure.kind](failure);

export const problemDetails = (failure: Failure): ProblemDetails => problemOf(failure).details;

/** The status, header fields and body of a problem response. */
export interface ProblemAnswer extends Pick<Problem, "headers" | "proxyError"> {
  readonly status: number;
  readonly body: string;
}

interface Replacement {
  readonly status: number;
  /** The body in place of the problem details; null keeps the problem details. */
  readonly body: string | null;
  readonly contentType: string;
}

interface AnswerOptions {
  /** Added to those of the problem. */
  readonly headers?: ProblemAnswer["headers"];
  /** Sent in place of the problem details. */
  readonly replacement?: Replacement | null;
  /** The UUID of a denial in the log of denials. */
  readonly instance?: string | null;
}

export function problemAnswer(
  failure: Failure,
  { headers: moreHeaders = {}, replacement = null, instance = null }: AnswerOptions = {},
): ProblemAnswer {
  const { details, headers, proxyError } = problemOf(failure);
  const status = replacement?.status ?? details.status;
  return {
    status,
    headers: {
      "Content-Type": typeof replacement?.body === "string" ? replacement.contentType : "application/problem+json",
      // Caches must not store a 429 (RFC 6585, section 4), and have no use for the other problems.
      "Cache-Control": "no-store",
      ...headers,
      ...moreHeaders,
    },
    body:
      replacement?.body ??
      JSON.stringify({ ...details, status, ...(instance !== null && { instance: instanceUri(instance) }) }),
    proxyError,
  };
}

export const problemResponse = (failure: Failure, instance: string | null = null): Response =>
  responseOf(problemAnswer(failure, { instance }));

/** The URI that identifies a denial in problem details. @param instance a UUID */
export const instanceUri = (instance: string): string => `urn:uuid:${instance}`;

const proxyErrors = new WeakMap<Response, ProxyError>();

export function responseOf({ status, headers, body, proxyError }: ProblemAnswer): Response {
  const response = new Response(body, { status, headers });
  proxyErrors.set(response, proxyError);
  return response;
}

/** Null for every response that is not a problem response. */
export const proxyErrorOf = (response: Response): ProxyError | null => proxyErrors.get(response) ?? null;

/** The failure as an exception, for the service binding. */
export function problemError(failure: Failure): Error {
  const problem = problemDetails(failure);
  // RPC transfers the fields of an Error, but not its class: the caller receives a plain Error.
  return Object.assign(new Error(`${problem.title}: ${problem.detail}`), { problem });
}
