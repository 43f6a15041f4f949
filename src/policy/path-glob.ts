/**
 * Matches a text against literals, segments and `*` in linear time. Backtracking beyond the latest `*` is never needed,
 * because the leftmost match of a chunk leaves the longest rest to later chunks: https://research.swtch.com/glob
 */

/** The pattern between two `*`: literals, and null for one whole, non-empty segment. */
export type Chunk = readonly (string | null)[];

/** The start and end offsets of the text that each `*` and each segment matches, in order. */
export type Captures = readonly number[];

const none: Captures = [];

/** @param chunks at least one; each segment follows a `/`, and ends before a `/` or at the end of the pattern */
export class PathGlob {
  readonly #chunks: readonly Chunk[];
  /** The whole pattern if it is one literal, else null. */
  readonly literal: string | null;

  constructor(chunks: readonly Chunk[]) {
    this.#chunks = chunks;
    const [first = [], ...others] = chunks;
    const isLiteral = others.length === 0 && first.every((piece) => piece !== null);
    this.literal = isLiteral ? first.join("") : null;
  }

  match(text: string): Captures | null {
    if (this.literal !== null) return text === this.literal ? none : null;
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
  rebuilt(captures: Captures, captured: (from: number, to: number) => string): string {
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
