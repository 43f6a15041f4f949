/** A load of HTTP requests that differ in nothing but their key, and what comes of it. */

/** Stands for the key in the fields and the body of a request. */
export const keyMark = "{key}";

export interface HttpLoad {
  readonly url: URL;
  readonly method: "GET" | "POST";
  readonly fields: Readonly<Record<string, string>>;
  /** Empty for none. */
  readonly body: string;
  /** The first key, and how many there are: they take turns. */
  readonly keys: { readonly first: number; readonly count: number };
  /** Each asks again as soon as it is answered. */
  readonly connections: number;
  readonly seconds: number;
}

export interface MeasuredResponses {
  readonly requests: number;
  readonly seconds: number;
  /** How many answers were of each status. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Requests without an answer. */
  readonly errors: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface Generator {
  readonly title: string;
  readonly fire: (load: HttpLoad) => Promise<MeasuredResponses>;
}

/** All of one length, so that requests are. */
export const keyText = (number: number): string => String(number).padStart(keyDigits, "0");
export const keyDigits = 12;

/** What is wrong with answers that are not all of one status; undefined when nothing is. */
export function faultOf(
  measured: MeasuredResponses,
  expected: number,
  strays: number,
): string | undefined {
  const { requests, statuses, errors } = measured;
  if (errors > 0) return `${errors} requests without an answer`;
  const others = Object.entries(statuses).filter(([status]) => Number(status) !== expected);
  const stray = others.reduce((total, [, count]) => total + count, 0);
  if (stray > strays) {
    const told = others.map(([status, count]) => `${count} of ${status}`).join(", ");
    return `answers of other statuses than ${expected}: ${told}`;
  }
  return requests === 0 ? "no answers" : undefined;
}
