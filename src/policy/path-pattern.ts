/** Path patterns of literals, `*` and `:name`. */
import {
  caseFolded,
  decoded,
  decodedInSegments,
  readingOf,
  type PathReading,
  type PathReadings,
  withoutTrailingSlashes,
} from "./path-readings.ts";
import type { ReadResult } from "./schemas.ts";

export type PathPattern = Readonly<ReturnType<typeof patternOf>>;

/** The key part `path` of every ambiguous path in a policy without a pattern. No canonical path equals it. */
const ambiguousPath = "//";

/** The key part `path`, for a policy with this pattern. */
export const pathKey = (path: PathReadings, pattern: PathPattern | null): string =>
  pattern?.keyOf(path) ?? path.canonical ?? ambiguousPath;

/** The key part `path` of all paths that origins may read. Only ambiguous paths have several. */
export function pathKeys(path: PathReadings, pattern: PathPattern | null): readonly string[] {
  if (path.canonical !== null) return [pathKey(path, pattern)];
  const { canonicals } = path;
  if (pattern === null) return canonicals;
  const keys = pattern.keysOf(canonicals.map((text) => readingOf(text, true)));
  // Some patterns, such as "/a;b/*", match no canonical path.
  return keys.length > 0 ? keys : pattern.keysOf(path.all);
}

const acceptedPattern =
  'a path pattern such as "/login" or "/api/*", made of literals, "*" for any characters and ":name" for one segment';

/**
 * ASCII characters of a pattern: those of a URL's path (RFC 3986, section 3.3), `*`, and the space, which is
 * percent-encoded in a path like all characters beyond ASCII.
 */
export const permitted = /[\w\-.~!$&',;=@%/ *:]/;

export function readPathPattern(text: string): ReadResult<PathPattern> {
  if (!text.startsWith("/")) return { accepted: acceptedPattern };
  const advice = adviceFor(text);
  return advice === null ? { value: patternOf(text) } : { accepted: `${acceptedPattern}; ${advice}` };
}

/** How to rewrite an invalid pattern; null for a valid one. */
function adviceFor(text: string): string | null {
  const odd = Array.from(text).find((each) => each <= "\x7f" && !permitted.test(each));
  if (odd !== undefined) return adviceForCharacter(odd);
  const tokens = tokensOf(text);
  if (tokens.includes(":")) {
    return '":name" stands for a whole segment; write "*" for a part of one, or "%3A" for ":" itself';
  }
  const path = tokens.map((token) => (isWildcard(token) ? "*" : decoded(token))).join("");
  return /\/\.{1,2}(?:\/|$)/.test(path) ? 'write the path without "." and ".." segments' : null;
}

function adviceForCharacter(character: string): string {
  const escape = character.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0");
  const itself = `"%${escape}" for "${character}" itself`;
  if (character === "?") {
    return `a pattern has no query and no optional parts; write ${itself}`;
  }
  return "(){}[]|^+".includes(character)
    ? `write "*" or ":name" in place of a regular expression or a group, or ${itself}`
    : `write ${itself}`;
}

const tokensOf = (text: string): string[] => text.match(/\*+|(?<=\/):[a-z_]\w*(?=\/|$)|[^*:]+|:/gi) ?? [];

const isWildcard = (token: string): boolean => token.startsWith("*") || token.startsWith(":");

function patternOf(written: string) {
  const text = written.toWellFormed().replace(/\*{2,}/g, "*");
  const bare = withoutTrailingSlashes(text.replace(/\/{2,}/g, "/"));
  const lenientGlobs = (pattern: string): PathGlob[] =>
    globsOf(pattern, (literal) => caseFolded(decodedInSegments(literal)));
  const lenient = lenientGlobs(bare);
  const exact = globsOf(text, asReceived);
  const pathname = tokensOf(bare)
    .map((token) => (isWildcard(token) ? token : decodedInSegments(token)))
    .join("");
  return {
    /** The pattern without needless escapes and slashes. */
    pathname,
    /** Whether the pattern matches any form in which an origin may read the path. */
    matches: ({ all }: PathReadings) => all.some(({ folded }) => lenient.some((glob) => glob.match(folded) !== null)),
    /** Whether the pattern matches the path as received, including case and slashes. */
    matchesExactly: ({ received }: PathReadings) => exact.some((glob) => glob.match(received) !== null),
    /**
     * The key part `path` of a matching path, with literals in lower case; null for other paths. All ambiguous paths,
     * which origins read in different ways, share one key.
     */
    keyOf: (path: PathReadings) => {
      const match = firstMatch(lenient, path.forKeys);
      if (match === null) return null;
      // The key of an ambiguous path is the pattern itself, because each spelling of the path would be a new key.
      const isPattern = path.canonical === null && match.glob.literal === null;
      return isPattern ? pathname : keyOfMatch(match);
    },
    /**
     * Whether a path that the pattern matches may have the key part of this path. An escaped slash is decoded in a key,
     * so `:name` matches any characters here, including slashes.
     */
    mayHaveKey: ({ forKeys }: PathReadings) =>
      firstMatch(lenientGlobs(bare.replace(wildSegments, "/*")), forKeys) !== null,
    /** The key part `path` of each reading that matches. */
    keysOf: (readings: readonly PathReading[]) =>
      readings.flatMap((reading) => {
        const match = firstMatch(lenient, [reading]);
        return match === null ? [] : keyOfMatch(match);
      }),
  };
}

const wildSegments = /(?:\/(?:\*|:[a-z_]\w*)(?=\/|$))+/gi;

/** The pattern, and also the pattern without its final `/*`, since `/api/*` covers `/api`. */
function globsOf(text: string, literalOf: (literal: string) => string): PathGlob[] {
  const parent = text.endsWith("/*") ? [text.slice(0, -2)] : [];
  return [text, ...parent].map((each) => new PathGlob(chunksOf(each, literalOf)));
}

function chunksOf(text: string, literalOf: (literal: string) => string): Chunk[] {
  const chunks: (string | null)[][] = [[]];
  for (const token of tokensOf(text)) {
    if (token.startsWith("*")) chunks.push([]);
    else chunks.at(-1)?.push(isWildcard(token) ? null : literalOf(token));
  }
  return chunks;
}

/** Encodes spaces and non-ASCII letters as the URL parser does. */
const asReceived = (literal: string): string => literal.replace(/[^\x21-\x7e]+/g, (each) => encodeURIComponent(each));

interface PathMatch {
  readonly glob: PathGlob;
  readonly captures: readonly number[];
  readonly reading: PathReading;
}

function firstMatch(globs: readonly PathGlob[], readings: readonly PathReading[]): PathMatch | null {
  for (const reading of readings) {
    for (const glob of globs) {
      const captures = glob.match(reading.folded);
      if (captures !== null) return { glob, captures, reading };
    }
  }
  return null;
}

function keyOfMatch({ glob, captures, reading }: PathMatch): string {
  const key = glob.rebuilt(captures, (from, to) => {
    const captured = reading.text.slice(from, to);
    return reading.isDecoded ? captured : decoded(captured);
  });
  return withoutTrailingSlashes(key);
}

/** The pieces of a pattern between two `*`: a literal, or null for one whole, non-empty segment. */
type Chunk = readonly (string | null)[];

/** @param chunks at least one; each segment follows a `/`, and ends before a `/` or at the end of the pattern */
class PathGlob {
  readonly #chunks: readonly Chunk[];
  /** The whole pattern if it is one literal, else null. */
  readonly literal: string | null;

  constructor(chunks: readonly Chunk[]) {
    this.#chunks = chunks;
    const [first = [], ...others] = chunks;
    const isLiteral = others.length === 0 && first.every((piece) => piece !== null);
    this.literal = isLiteral ? first.join("") : null;
  }

  /** The start and end offsets of the text that each `*` and each segment matches, in order; null without a match. */
  match(text: string): readonly number[] | null {
    if (this.literal !== null) return text === this.literal ? [] : null;
    const [first = [], ...others] = this.#chunks;
    const captures: number[] = [];
    let at = endOf(first, text, 0, captures);
    for (const [index, chunk] of others.entries()) {
      if (at < 0) return null;
      const isLast = index === others.length - 1;
      at = isLast ? lastFrom(chunk, text, at, captures) : nextFrom(chunk, text, at, captures);
    }
    return at === text.length ? captures : null;
  }

  /** The pattern with the result of `captured` in place of each `*` and each segment. */
  rebuilt(captures: readonly number[], captured: (from: number, to: number) => string): string {
    let next = 0;
    const capture = (): string => captured(captures[next++] ?? 0, captures[next++] ?? 0);
    return this.#chunks
      .map((chunk, index) => {
        const star = index === 0 ? "" : capture();
        return star + chunk.map((piece) => piece ?? capture()).join("");
      })
      .join("");
  }
}

/** The end of a chunk's match at `start`; -1, with no captures added, when the chunk does not match there. */
function endOf(chunk: Chunk, text: string, start: number, captures: number[]): number {
  const captured = captures.length;
  let at = start;
  for (const piece of chunk) {
    if (piece === null) {
      const slash = text.indexOf("/", at);
      const end = slash < 0 ? text.length : slash;
      if (end > at) {
        captures.push(at, end);
        at = end;
        continue;
      }
    } else if (text.startsWith(piece, at)) {
      at += piece.length;
      continue;
    }
    captures.length = captured;
    return -1;
  }
  return at;
}

/** The end of a chunk's leftmost match; the text before it is captured for `*`. */
function nextFrom(chunk: Chunk, text: string, from: number, captures: number[]): number {
  const [literal] = chunk;
  if (typeof literal !== "string") return -1;
  let start = text.indexOf(literal, from);
  while (start >= 0) {
    captures.push(from, start);
    const end = endOf(chunk, text, start, captures);
    if (end >= 0) return end;
    captures.length -= 2;
    start = text.indexOf(literal, start + 1);
  }
  return -1;
}

/** Like `nextFrom`, for the match that ends with the text. */
function lastFrom(chunk: Chunk, text: string, from: number, captures: number[]): number {
  const start = lastStart(chunk, text);
  if (start < from) return -1;
  captures.push(from, start);
  return endOf(chunk, text, start, captures);
}

function lastStart(chunk: Chunk, text: string): number {
  const literals = chunk.join("");
  if (!chunk.includes(null)) return text.length - literals.length;
  // Segments contain no slash, so the match contains exactly as many slashes as the literals.
  let slash = text.length;
  for (let left = literals.split("/").length - 1; left > 0; left--) {
    slash = slash <= 0 ? -1 : text.lastIndexOf("/", slash - 1);
  }
  return slash < 0 ? -1 : slash - literals.indexOf("/");
}
