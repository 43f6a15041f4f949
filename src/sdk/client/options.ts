/** Reads the options of `createClient`. All invalid ones are reported at once. */
import { longestTimerMs } from "./clock.ts";
import type { Fetch } from "./http.ts";
import { shown } from "./messages.ts";
import type { HeadgateService, UntypedService } from "./service.ts";

interface BoundOptions {
  /**
   * How often a call is repeated at most, 0 to 10. Only calls that cannot be charged twice are repeated.
   * @default 2
   */
  readonly retries?: number | undefined;
  /**
   * The longest total of a call's waits, in milliseconds.
   * @default 5000
   */
  readonly maxWaitMs?: number | undefined;
  /**
   * The longest time for one attempt, in milliseconds.
   * @default 5000
   */
  readonly timeoutMs?: number | undefined;
}

/** The options of a client over HTTP. */
export interface HttpOptions extends BoundOptions {
  /** The URL of the Worker, without a path. */
  readonly url: string | URL;
  /** A token of the secret `CHECK_TOKENS`. */
  readonly token: string;
  /**
   * The Worker's `CHECK_PATH`.
   * @default "/check"
   */
  readonly path?: string | undefined;
  /**
   * The function that sends the requests.
   * @default the global `fetch`
   */
  readonly fetch?: Fetch | undefined;
  readonly service?: never;
}

/** The options of a client over a service binding. */
export interface ServiceOptions extends BoundOptions {
  /** The service binding with `entrypoint = "Headgate"`. */
  readonly service: HeadgateService | UntypedService;
  readonly url?: never;
}

export type ClientOptions = HttpOptions | ServiceOptions;

export type Bounds = Readonly<Record<keyof BoundOptions, number>>;

export interface HttpTarget {
  readonly url: string | URL;
  readonly token: string;
  readonly path: string;
  readonly fetch: Fetch;
}

interface Option {
  readonly accepted: string;
  readonly accepts: (value: unknown) => boolean;
  /** How an error message shows the value. Default: as JSON. */
  readonly shown?: (value: unknown) => string;
}

const integer = (least: number, most: number): Option => ({
  accepted: `an integer from ${least} to ${most}`,
  accepts: (value) => Number.isInteger(value) && Number(value) >= least && Number(value) <= most,
});

const bounds: Readonly<Record<keyof BoundOptions, Option>> = {
  retries: integer(0, 10),
  maxWaitMs: integer(0, longestTimerMs),
  timeoutMs: integer(1, longestTimerMs),
};

const httpOptions: Readonly<Record<string, Option>> = {
  url: {
    accepted: 'the http or https URL of the Worker without a path, such as "https://limits.example.com"; or service',
    accepts: isUrlOfHost,
  },
  token: {
    accepted: "a token of CHECK_TOKENS: visible ASCII characters without spaces",
    accepts: (value) => typeof value === "string" && /^[!-~]+$/.test(value),
    // Errors may be logged, where a token must not be.
    shown: (value) => (typeof value === "string" && value !== "" ? "other characters" : shown(value)),
  },
  path: {
    accepted: 'the CHECK_PATH of the Worker, such as "/check"',
    accepts: (value) => typeof value === "string" && /^(?:\/(?!\.\.?(?:\/|$))[a-z0-9_.-]+)+$/i.test(value),
  },
  fetch: { accepted: "a function", accepts: (value) => typeof value === "function" },
  ...bounds,
};

const serviceOptions: Readonly<Record<string, Option>> = {
  service: {
    accepted: 'a service binding with entrypoint = "Headgate"',
    accepts: (value) => typeof Object(value)["check"] === "function",
    // A binding cannot be shown as JSON.
    shown: (value) => `a value of type ${typeof value}`,
  },
  ...bounds,
};

/** Looked up at each call, so that a `fetch` that is replaced later, as tests do, is used. */
const globalFetch: Fetch = (url, init) => fetch(url, init);

const defaults: Readonly<Record<string, unknown>> = {
  path: "/check",
  fetch: globalFetch,
  retries: 2,
  maxWaitMs: 5_000,
  timeoutMs: 5_000,
};

/**
 * Returns the options with their defaults.
 * @throws TypeError
 */
export function readOptions(options: ClientOptions): Bounds & (HttpTarget | Pick<ServiceOptions, "service">) {
  const given: Readonly<Record<string, unknown>> = Object(options);
  const known = given["service"] === undefined ? httpOptions : serviceOptions;
  const names = Object.keys(known);
  const values = Object.fromEntries(
    names.map((name) => [name, given[name] === undefined ? defaults[name] : given[name]]),
  );
  const others = Object.keys(given).filter((name) => given[name] !== undefined && !names.includes(name));
  const invalid = Object.entries(known).filter(([name, { accepts }]) => !accepts(values[name]));
  const problems = [
    // Unknown options are not shown: one of them may be a token.
    ...others.map((name) => `${name}: expected one of the options ${names.join(", ")}`),
    ...invalid.map(
      ([name, { accepted, shown: show = shown }]) => `${name}: expected ${accepted}, got ${show(values[name])}`,
    ),
  ];
  if (problems.length > 0) throw new TypeError(`createClient: ${problems.join("; ")}`);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the table has verified the values
  return values as ReturnType<typeof readOptions>;
}

function isUrlOfHost(url: unknown): boolean {
  const text = String(url);
  if (!URL.canParse(text)) return false;
  const { protocol, origin, href } = new URL(text);
  return /^https?:$/.test(protocol) && href === `${origin}/`;
}
