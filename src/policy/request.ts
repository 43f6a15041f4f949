/** The parts of a request that policies match and that keys are made of. */
import { memoized } from "./caches.ts";
import type { Policy } from "./policy.ts";
import { PathReadings } from "./path-readings.ts";

/** Returns the policy with the limits of the request. */
export type WithLimits = (policy: Policy) => Policy;

export interface RequestAttributes {
  readonly method: string;
  readonly target: RequestTarget;
  readonly headers: Headers;
  /** A property of `request.cf`; undefined where the runtime knows no location. */
  readonly cf: (name: string) => unknown;
  readonly cookies: (name: string) => readonly string[];
  /** The key that the Worker's code gives a policy, by its name. Default: no policy has such a key. */
  readonly customKey?: (policy: string) => string | null;
  /** The limits that the Worker's code states for the request. Default: those of the policy. */
  readonly withLimits?: WithLimits;
}

/** Whether it is a CORS preflight (Fetch, section 4.8). */
export const isPreflight = ({ method, headers }: RequestAttributes): boolean =>
  method === "OPTIONS" && headers.has("Origin") && headers.has("Access-Control-Request-Method");

/** The claims of a verified token; empty without one. */
export type Claims = Readonly<Record<string, unknown>>;

/** The text of a scalar; null for lists, objects and empty texts. */
export function scalarText(value: unknown): string | null {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return typeof value === "string" && value !== "" ? value : null;
}

export interface TokenClaims {
  readonly claims: Claims;
  /**
   * The claims that an origin may read when `Authorization` is not exactly one bearer token. Each claim is a list.
   * These claims can only deny the request. Null when there are too many tokens to verify. Default: `claims`.
   */
  readonly possible?: Claims | null;
}

/**
 * A URL in plain form: parsing and serialising it would return the same text, and all origins read its path alike. It has
 * no escapes, dot segments, empty segments, path parameters, default port, or host in another notation.
 */
const plainUrl = new RegExp(
  String.raw`^(https?:)\/\/(${plainHost()})(?::([1-9]\d{3}|[1-5]\d{4}|6[0-4]\d{3}))?` +
    String.raw`((?:\/[\w~!$&'()*+,=:@-][\w.~!$&'()*+,=:@-]*)+\/?|\/)(?:\?[\w.~!$&()*+,;=:@/?%[\]-]*)?$`,
);

/** IPv4 addresses in their usual form, and names whose last label is no number. Names with `xn--` need validation. */
function plainHost(): string {
  const byte = String.raw`(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`;
  return String.raw`(?:${byte}\.){3}${byte}|(?![^/]*xn--)(?:[a-z0-9_-]+\.)*[a-z][a-z0-9_-]*`;
}

export class RequestTarget {
  /** The URL as received. */
  readonly text: string;
  /** With the colon, as in `https:`. */
  readonly protocol: string;
  /** With the port, unless it is the default port. */
  readonly host: string;
  readonly hostname: string;
  /** The path and query of a target in plain form; null for another target. */
  readonly plainPathAndQuery: string | null;
  /** The path as the origin receives it. */
  readonly receivedPath: string;
  #url: URL | null;
  #path: PathReadings | null = null;

  private constructor(text: string, url: URL | null, parts: TargetParts) {
    this.text = text;
    this.#url = url;
    this.protocol = parts.protocol;
    this.host = parts.host;
    this.hostname = parts.hostname;
    this.plainPathAndQuery = parts.plainPathAndQuery;
    this.receivedPath = parts.receivedPath;
  }

  /** Null when the URL is not in plain form. */
  static plain(text: string): RequestTarget | null {
    const [, protocol, hostname, port, path] = plainUrl.exec(text) ?? [];
    if (protocol === undefined || hostname === undefined || path === undefined) return null;
    const host = port === undefined ? hostname : `${hostname}:${port}`;
    return new RequestTarget(text, null, {
      protocol,
      host,
      hostname,
      receivedPath: path,
      plainPathAndQuery: text.slice(protocol.length + "//".length + host.length),
    });
  }

  /** @param receivedPath the path before URL parsing, if a gateway may forward it to the origin in that form */
  static of(url: URL, receivedPath = url.pathname): RequestTarget {
    const { href, protocol, host, hostname } = url;
    return new RequestTarget(href, url, {
      protocol,
      host,
      hostname,
      receivedPath,
      plainPathAndQuery: null,
    });
  }

  /** Must not be modified: values derived from it are cached for this `URL` object. */
  get url(): URL {
    this.#url ??= new URL(this.text);
    return this.#url;
  }

  /** The path in every form in which origins may read it. */
  get path(): PathReadings {
    this.#path ??= new PathReadings(
      this.receivedPath,
      this.plainPathAndQuery === null ? this.url.pathname : this.receivedPath,
    );
    return this.#path;
  }
}

type TargetParts = Pick<RequestTarget, "protocol" | "host" | "hostname" | "receivedPath" | "plainPathAndQuery">;

/** The members of a list field. Repeated fields arrive as one, joined by commas. */
export const membersOf = (headers: Headers, name: string): string[] => membersIn(headers.get(name) ?? "");

/** The members in the value of a list field, without the white space of HTTP around them (RFC 9110, section 5.6.3). */
export const membersIn = (value: string): string[] =>
  value.split(",").map((member) => member.replace(/^[ \t]+|(?<![ \t])[ \t]+$/g, ""));

/** Texts in the form of a JWT (RFC 7519), wherever they stand in the value of `Authorization`. */
export const tokensIn = (authorization: string): string[] => {
  const texts = authorization.split(/^bearer|[^\w.-]+/i);
  return [...new Set(texts)].filter((text) => text.split(".", 4).length === 3);
};

/** The bearer token in the value of `Authorization` (RFC 6750, section 2.1); null without one. */
export const bearerOf = (authorization: string | null): string | null =>
  authorization === null ? null : (/^Bearer +(\S+) *$/i.exec(authorization)?.[1] ?? null);

/**
 * The decoded values of a parameter, under all forms of its name. Some frameworks ignore the case of a name. Rails, PHP
 * and Express read `rows[]`, `rows[0]` and `[rows]` as `rows`, and PHP reads `page.size` as `page_size`. Some frameworks
 * separate parameters at `;`, so the values with and without that separation are both in the list.
 */
export function parameterValues(url: URL, name: string): string[] {
  const wanted = comparable(name);
  return parametersOf(url)
    .filter((parameter) => isReadAs(parameter.name, wanted))
    .map(({ value }) => value);
}

/** With names in comparable form. Kept, so that several policies parse a query once. */
const parametersOf = memoized(({ search }: URL) => {
  const readings = search.includes(";") ? [search, search.replaceAll(";", "&")] : [search];
  return readings.flatMap((reading) =>
    Array.from(new URLSearchParams(reading), ([name, value]) => ({ name: comparable(name), value })),
  );
});

/** A name without the characters that some frameworks drop, and case-folded ("ſ" is "S" in upper case). */
const comparable = (name: string): string =>
  name
    .replace(/\0[^]*$/, "")
    .replace(/^[\s[\]]+/, "")
    .toUpperCase()
    .toLowerCase();

function isReadAs(name: string, wanted: string): boolean {
  if (name.startsWith(wanted) && /^(?:$|[[\]])/.test(name.slice(wanted.length))) return true;
  return underscored(name) === underscored(wanted);
}

/** PHP reads these characters in a name as underscores. */
const underscored = (name: string): string => name.replace(/[ .[]/g, "_");
