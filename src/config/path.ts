/** One spelling for the paths and hosts that servers take for the same, for requests and for the patterns they are matched with. */

/** Printable characters that mean the same encoded or not; `/ \ % ? #` would change what the path is. */
function decodable(escape: string): string | null {
  const character = String.fromCharCode(Number.parseInt(escape.slice(1), 16));
  return /[\x21-\x7e]/.test(character) && !/[/\\%?#]/.test(character) ? character : null;
}

/**
 * Characters that need no encoding decoded (RFC 3986, section 6.2.2.2, and the delimiters that many servers decode
 * besides), other escapes in upper case, slashes single, none at the end. The URL parser has resolved dot segments
 * before. Case is kept: paths that differ in it are different.
 */
export function normalizedPath(pathname: string): string {
  const single = pathname
    .replace(/%(?![0-9a-f]{2})/gi, "%25")
    .replace(/%[0-9a-f]{2}/gi, (escape) => decodable(escape) ?? escape.toUpperCase())
    .replace(/\/{2,}/g, "/");
  return single.length > 1 && single.endsWith("/") ? single.slice(0, -1) : single;
}

/** The same for a path that somebody wrote, who need not encode it as a URL does. */
export const writtenPath = (text: string): string =>
  normalizedPath(text.replace(/[^\x21-\x7e]+/g, (each) => encodeURIComponent(each)));

/** Host names in any case, and with the dot that may end them, are the same. */
export const normalizedHost = (host: string): string => host.toLowerCase().replace(/\.$/, "");

/** Which paths are meant. */
export interface PathPattern {
  readonly pathname: string;
  /**
   * Of a normalized path, with and without a slash at its end, so that neither form dodges a pattern that was written for
   * the other.
   */
  readonly test: (path: string) => boolean;
}

/** A URLPattern for normalized paths, or null when the text is none. What was encoded is taken literally. */
export function pathPattern(text: string): PathPattern | null {
  const pathname = text
    .replace(/%[0-9a-f]{2}/gi, (escape) => {
      const character = decodable(escape);
      return character === null ? escape.toUpperCase() : `\\${character}`;
    })
    .replace(/\/{2,}/g, "/");
  const pattern = pathname.startsWith("/") ? urlPattern({ pathname }) : null;
  return pattern === null ? null : { pathname: pattern.pathname, test: testOf(pattern) };
}

/** What means only itself, in patterns and in URLs; and what may follow it. */
const literal = /^((?:\/[\w~-][\w.~-]*)*\/?)(\*?)$/;

/** Comparing texts takes a fiftieth of what a URLPattern takes, and each request meets every policy's pattern. */
function testOf(pattern: URLPattern): PathPattern["test"] {
  const [, text = "", wildcard] = literal.exec(pattern.pathname) ?? [];
  if (wildcard === "") return (path) => path === text || `${path}/` === text;
  if (wildcard === "*") return (path) => `${path}/`.startsWith(text);
  return (path) => pattern.test({ pathname: path }) || pattern.test({ pathname: `${path}/` });
}

/** A URLPattern for host names without the dot that may end them, or null when the text is none. */
export function hostPattern(text: string): URLPattern | null {
  return /^[a-z0-9*.-]+$/i.test(text) ? urlPattern({ hostname: normalizedHost(text) }) : null;
}

function urlPattern(parts: { pathname: string } | { hostname: string }): URLPattern | null {
  try {
    return new URLPattern(parts);
  } catch {
    return null;
  }
}
