/** The strict spelling of a path, by which requests find `CHECK_PATH`: what is read leniently there is lost to the origin. */

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
