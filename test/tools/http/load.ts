/** A load of HTTP requests that differ only in their key, and the results of the load. */

/** Either with all connections or with one request at a time. */
export type LoadName = "loaded" | "alone";

/** A placeholder that each request replaces with its key, in fields and body. */
export const keyMark = "{key}";

/** A placeholder that a follow-up replaces with the `id` of a response. */
export const idMark = "{id}";

export interface HttpLoad {
  readonly url: URL;
  readonly method: "GET" | "POST";
  readonly fields: Readonly<Record<string, string>>;
  /** Empty if the requests have no body. */
  readonly body: string;
  /** A request that is sent once for each `id` in a response, before the next request of the load. */
  readonly followUp?: FollowUp;
  /** The first key and the number of keys, which take turns. */
  readonly keys: { readonly first: number; readonly count: number };
  /** Each connection sends its next request when it has received a response. */
  readonly connections: number;
  readonly seconds: number;
}

export interface FollowUp {
  readonly path: string;
  readonly body: string;
}

/** The `id` in the body of a response; undefined if the body has none. */
export const idIn = (body: string): string | undefined => /"id":"([^"]*)"/.exec(body)?.[1];

export interface MeasuredResponses {
  readonly requests: number;
  readonly seconds: number;
  /** The number of responses with each status. */
  readonly statuses: Readonly<Record<string, number>>;
  /** The number of requests without a response. */
  readonly errors: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface Generator {
  readonly title: string;
  readonly fire: (load: HttpLoad) => Promise<MeasuredResponses>;
}

/** All keys have the same length, so that all requests have the same length. */
export const keyText = (number: number): string => String(number).padStart(keyDigits, "0");
export const keyDigits = 12;

/** The fault when responses have other statuses than expected; undefined if there is no fault. */
export function faultOf(measured: MeasuredResponses, expected: number, strays: number): string | undefined {
  const { requests, statuses, errors } = measured;
  if (errors > 0) return `${errors} requests without an answer`;
  const others = Object.entries(statuses).filter(([status]) => Number(status) !== expected);
  const stray = others.reduce((total, [, count]) => total + count, 0);
  if (stray > strays) {
    const counts = others.map(([status, count]) => `${count} of ${status}`).join(", ");
    return `responses with other statuses than ${expected}: ${counts}`;
  }
  return requests === 0 ? "no answers" : undefined;
}
