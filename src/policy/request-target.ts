/** The host, path and query of a request. A target in plain form needs no URL parser. */
import { PathReadings } from "./vars/index.ts";

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
  readonly #receivedPath: string;
  #url: URL | null;
  #path: PathReadings | null = null;

  private constructor(text: string, url: URL | null, parts: TargetParts) {
    this.text = text;
    this.#url = url;
    this.protocol = parts.protocol;
    this.host = parts.host;
    this.hostname = parts.hostname;
    this.plainPathAndQuery = parts.plainPathAndQuery;
    this.#receivedPath = parts.receivedPath;
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
      this.#receivedPath,
      this.plainPathAndQuery === null ? this.url.pathname : this.#receivedPath,
    );
    return this.#path;
  }
}

interface TargetParts {
  readonly protocol: string;
  readonly host: string;
  readonly hostname: string;
  readonly receivedPath: string;
  readonly plainPathAndQuery: string | null;
}
