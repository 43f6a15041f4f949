/** Reads the options of `createClient`. All invalid ones are reported at once. */
import type { Bounds } from "./attempts.ts";
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

interface Settings {
  readonly bounds: Bounds;
  readonly target: HttpTarget | ServiceTarget;
}

export interface HttpTarget {
  readonly kind: "http";
  /** The URL of `/check`. */
  readonly endpoint: string;
  readonly token: string;
  readonly fetch: Fetch;
}

interface ServiceTarget {
  readonly kind: "service";
  readonly service: HeadgateService | UntypedService;
}

const boundNames = ["retries", "maxWaitMs", "timeoutMs"];

/** The greatest delay of a timer. */
const longestMs = 2 ** 31 - 1;

const accepted = {
  url: 'the http or https URL of the Worker without a path, such as "https://limits.example.com"; or service',
  path: 'the CHECK_PATH of the Worker, such as "/check"',
  token: "a token of CHECK_TOKENS: visible ASCII characters without spaces",
  fetch: "a function",
  service: 'a service binding with entrypoint = "Headgate"',
} as const;

/** @throws TypeError */
export function readOptions(options: ClientOptions): Settings {
  const given = new Given(options);
  const settings = {
    target: given.options["service"] === undefined ? readHttp(given) : readService(given),
    bounds: {
      retries: given.integer("retries", 0, 10, 2),
      maxWaitMs: given.integer("maxWaitMs", 0, longestMs, 5_000),
      timeoutMs: given.integer("timeoutMs", 1, longestMs, 5_000),
    },
  };
  if (given.problems.length > 0) {
    throw new TypeError(`createClient: ${given.problems.join("; ")}`);
  }
  return settings;
}

/** The options as given, with the problems found in them. */
class Given {
  readonly options: Readonly<Record<string, unknown>>;
  readonly problems: string[] = [];

  constructor(options: unknown) {
    this.options = Object(options);
  }

  report(name: string, expected: string, got = shown(this.options[name])): void {
    this.problems.push(`${name}: expected ${expected}, got ${got}`);
  }

  integer(name: string, least: number, most: number, fallback: number): number {
    const { [name]: value = fallback } = this.options;
    const isValid = typeof value === "number" && Number.isInteger(value);
    if (isValid && value >= least && value <= most) return value;
    this.report(name, `an integer from ${least} to ${most}`);
    return fallback;
  }

  reportOthersThan(names: readonly string[]): void {
    for (const [name, value] of Object.entries(this.options)) {
      if (value === undefined || names.includes(name)) continue;
      // Unknown options are not shown: one of them may be a token.
      this.problems.push(`${name}: expected one of the options ${names.join(", ")}`);
    }
  }
}

function readService(given: Given): ServiceTarget {
  given.reportOthersThan(["service", ...boundNames]);
  const { service } = given.options;
  const isService = typeof Object(service)["check"] === "function";
  // A binding has no JSON to show.
  if (!isService) given.report("service", accepted.service, `a value of type ${typeof service}`);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- otherwise a problem is reported
  return { kind: "service", service: service as HeadgateService };
}

function readHttp(given: Given): HttpTarget {
  given.reportOthersThan(["url", "token", "path", "fetch", ...boundNames]);
  const { url, token, path = "/check", fetch: sender = globalFetch } = given.options;
  const origin = originOf(url);
  if (origin === null) given.report("url", accepted.url);
  if (typeof path !== "string" || !/^(?:\/(?!\.\.?(?:\/|$))[a-z0-9_.-]+)+$/i.test(path)) {
    given.report("path", accepted.path);
  }
  if (typeof token !== "string" || !/^[!-~]+$/.test(token)) {
    // Errors may be logged, where a token must not be.
    const got = typeof token === "string" && token !== "" ? "other characters" : shown(token);
    given.report("token", accepted.token, got);
  }
  if (typeof sender !== "function") given.report("fetch", accepted.fetch);
  return {
    kind: "http",
    endpoint: `${origin}${String(path)}`,
    token: String(token),
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- otherwise a problem is reported
    fetch: sender as Fetch,
  };
}

/** Looked up at each call, so that a `fetch` that is replaced later, as tests do, is used. */
const globalFetch: Fetch = (url, init) => fetch(url, init);

/** Null for other URLs than that of a host. */
function originOf(url: unknown): string | null {
  const text = String(url);
  if (!URL.canParse(text)) return null;
  const { protocol, origin, href } = new URL(text);
  const isHost = /^https?:$/.test(protocol) && href === `${origin}/`;
  return isHost ? origin : null;
}
