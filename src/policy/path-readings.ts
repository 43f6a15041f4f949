/**
 * The forms in which origins may read one request path. nginx decodes before it resolves dot segments, servlet containers
 * drop path parameters, IIS reads a backslash as a slash, and Express compares without decoding. A policy that matched
 * only one form could be evaded with the others.
 */

/** A path as some origin reads it. */
export interface PathReading {
  /** Without trailing slashes, except for the root. */
  readonly text: string;
  /** `text` with its case folded; every character keeps its offset. */
  readonly folded: string;
  /** False while escaped slashes and backslashes remain encoded. */
  readonly isDecoded: boolean;
}

/** One request path in all forms, which are computed on first use. */
export class PathReadings {
  /** The path that the origin receives. */
  readonly received: string;
  readonly #spellings: readonly string[];
  #all: readonly PathReading[] | null = null;
  #canonical: string | null | undefined;

  /** @param parsed the path after URL parsing; given when `received` is the path before URL parsing */
  constructor(received: string, parsed = received) {
    this.received = received;
    const spelling = rooted(received);
    this.#spellings = parsed === received ? [spelling] : [...new Set([spelling, rooted(parsed)])];
  }

  /** Every distinct form. */
  get all(): readonly PathReading[] {
    this.#all ??= this.#isUnambiguous ? [readingOf(this.#plain, true)] : readingsOf(this.#spellings);
    return this.#all;
  }

  /**
   * The path decoded, with merged slashes and resolved dot segments, without path parameters and trailing slashes. Null
   * for an ambiguous path, which origins read in different ways: its spellings must not be different keys.
   */
  get canonical(): string | null {
    if (this.#canonical === undefined) {
      const [only = null, ...others] = this.#isUnambiguous ? [this.#plain] : this.canonicals;
      this.#canonical = others.length > 0 ? null : only;
    }
    return this.#canonical;
  }

  /** The canonical paths that origins may read: several for an ambiguous path, at most 16. */
  get canonicals(): readonly string[] {
    return canonicalsOf(this.#spellings);
  }

  /** The forms of a path in which a pattern is searched. The key is taken from the first form that matches. */
  get forKeys(): readonly PathReading[] {
    const { canonical } = this;
    return canonical === null || this.#isUnambiguous ? this.all : [readingOf(canonical, true), ...this.all];
  }

  get #plain(): string {
    return withoutTrailingSlashes(this.#spellings[0] ?? "/");
  }

  /** True for most requests: there is nothing to decode, drop, merge or resolve. */
  get #isUnambiguous(): boolean {
    return this.#spellings.length === 1 && !special.test(this.#spellings[0] ?? "");
  }
}

/** Reads a path from the configuration or from a caller of `/check` like that of a request. */
export function parsePath(text: string): PathReadings {
  const path = rooted(text).replaceAll("?", "%3F").replaceAll("#", "%23");
  return new PathReadings(new URL(`http://host${path}`).pathname);
}

const special = /[%;\\]|\/[/.]/;

/** Decodes escapes that are valid UTF-8, and the `%uXXXX` of IIS. Invalid escapes remain. */
export const decoded = (text: string): string => text.replace(escapes, decode);

/** Like `decoded`, but keeps escaped slashes and backslashes, for origins that split a path before they decode. */
export const decodedInSegments = (text: string): string => text.replace(escapesInSegments, decode);

/** Like `decoded`, without `%uXXXX`, as most origins decode. */
const decodedPlainly = (text: string): string => text.replace(plainEscapes, decode);

const multibyte =
  "%c[2-9a-f]%[89ab][0-9a-f]|%d[0-9a-f]%[89ab][0-9a-f]|%e0%[ab][0-9a-f]%[89ab][0-9a-f]|" +
  "%(?:e[1-9a-cef])(?:%[89ab][0-9a-f]){2}|%ed%[89][0-9a-f]%[89ab][0-9a-f]|" +
  "%f0%[9ab][0-9a-f](?:%[89ab][0-9a-f]){2}|%f[1-3](?:%[89ab][0-9a-f]){3}|%f4%8[0-9a-f](?:%[89ab][0-9a-f]){2}";
const plainEscape = `(?:%[0-7][0-9a-f]|${multibyte})+`;
const plainEscapes = new RegExp(plainEscape, "gi");
const escapes = new RegExp(`%u[0-9a-f]{4}|${plainEscape}`, "gi");
const escapesInSegments = new RegExp(`%u(?!00(?:2f|5c))[0-9a-f]{4}|(?:%(?!2f|5c)[0-7][0-9a-f]|${multibyte})+`, "gi");

/** Never throws, because the expressions above match valid escapes only. */
const decode = (run: string): string =>
  /^%u/i.test(run) ? String.fromCharCode(Number.parseInt(run.slice(2), 16)) : decodeURIComponent(run);

/**
 * Folds all letters that some origin compares as equal: Python and Java treat "ſ" as "s" and "ı" as "i". Every character
 * keeps its offset, so letters whose other case has two characters remain.
 */
export const caseFolded = (text: string): string =>
  beyondAscii.test(text)
    ? text
        .replace(/[^\0-\x7f]/g, inUpperCase)
        .replaceAll("\u0130", "i")
        .toLowerCase()
        .replaceAll("\u03c2", "\u03c3")
    : text.toLowerCase();

const beyondAscii = /[^\0-\x7f]/;

function inUpperCase(character: string): string {
  const upper = character.toUpperCase();
  return upper.length === 1 ? upper : character;
}

/** Keeps the root. A regular expression would take quadratic time on many slashes. */
export function withoutTrailingSlashes(text: string): string {
  let end = text.length;
  while (end > 1 && text[end - 1] === "/") end--;
  return text.slice(0, end);
}

/** In regular expressions of nginx, Apache and Python, `$` also matches before a final newline. */
const withoutFinalNewline = (text: string): string =>
  text.endsWith("\n") && text.length > 1 ? text.slice(0, -1) : text;

const rooted = (path: string): string => (path.startsWith("/") ? path : `/${path}`);
const merged = (text: string): string => text.replace(/\/{2,}/g, "/");
const withSlashes = (text: string): string => text.replaceAll("\\", "/");
const withoutParameters = (text: string): string => text.replace(/;[^/]*/g, "");

function resolved(text: string): string {
  if (!text.includes("/.")) return text;
  const kept: string[] = [];
  for (const segment of text.split("/").slice(1)) {
    if (segment === "..") kept.pop();
    else if (segment !== ".") kept.push(segment);
  }
  return `/${kept.join("/")}`;
}

export const readingOf = (text: string, isDecoded: boolean): PathReading => ({
  text,
  folded: caseFolded(text),
  isDecoded,
});

/** Fully decoded forms come first, because keys are taken from the first match. */
function readingsOf(spellings: readonly string[]): PathReading[] {
  const whole = new Set<string>();
  const inSegments = new Set<string>();
  for (const spelling of spellings) {
    for (const decodeText of decodersFor(spelling)) {
      for (const text of decodings(spelling, decodeText)) addVariants(whole, text);
    }
    for (const text of decodings(spelling, decodedInSegments)) addVariants(inSegments, text);
  }
  return [
    ...[...whole].map((text) => readingOf(text, true)),
    ...[...inSegments].filter((text) => !whole.has(text)).map((text) => readingOf(text, false)),
  ];
}

type Decoder = (text: string) => string;

/** Only some origins decode `%uXXXX`. */
const decodersFor = (spelling: string): readonly Decoder[] =>
  /%u/i.test(spelling) ? [decoded, decodedPlainly] : [decoded];

/** Origins keep path parameters, or drop them before or after decoding. */
function decodings(spelling: string, decodeText: Decoder): Set<string> {
  const text = decodeText(spelling);
  return new Set([text, withoutParameters(text), decodeText(withoutParameters(spelling))]);
}

function addVariants(texts: Set<string>, text: string): void {
  for (const each of [resolved(merged(text)), resolved(merged(withSlashes(text))), resolved(text), text]) {
    texts.add(withoutTrailingSlashes(each));
    texts.add(withoutTrailingSlashes(withoutFinalNewline(each)));
  }
}

function canonicalsOf(spellings: readonly string[]): readonly string[] {
  const texts = spellings.flatMap((spelling) =>
    decodersFor(spelling).flatMap((decodeText) => {
      const text = decodeText(spelling);
      return [
        resolved(merged(text)),
        resolved(merged(withSlashes(text))),
        resolved(text),
        decodeText(withoutParameters(spelling)),
      ];
    }),
  );
  const canonicals = texts.map((text) =>
    withoutTrailingSlashes(withoutFinalNewline(resolved(merged(withSlashes(withoutParameters(text)))))),
  );
  return [...new Set(canonicals)];
}
