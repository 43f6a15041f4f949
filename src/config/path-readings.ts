/**
 * The paths that origins may read in one request path. Origins differ in what they decode, drop and resolve: nginx decodes
 * before it resolves dot segments, servlet containers drop path parameters, IIS takes a backslash for a slash, Express
 * decodes nothing before it compares. A policy that knew one of them only could be evaded at all others.
 */

/** A path as some origin reads it. */
export interface PathReading {
  /** Without slashes at its end, but for the root. */
  readonly text: string;
  /** `text` without regard to case, with each character in the same place. */
  readonly folded: string;
  /** Whether all of it is percent-decoded; otherwise escaped slashes and backslashes still are escapes. */
  readonly isDecoded: boolean;
}

/** One request path in all its readings, which are computed when the first policy asks for them. */
export class PathReadings {
  /** As the origin receives it. */
  readonly received: string;
  readonly #spellings: readonly string[];
  #all: readonly PathReading[] | null = null;
  #canonical: string | null | undefined;

  /** @param parsed the same path after URL parsing, where the origin may receive it before that */
  constructor(received: string, parsed = received) {
    this.received = received;
    this.#spellings = [...new Set([received, parsed].map(rooted))];
  }

  /** Each different one once. */
  get all(): readonly PathReading[] {
    this.#all ??= this.#isUnambiguous
      ? [readingOf(this.#plain, true)]
      : readingsOf(this.#spellings);
    return this.#all;
  }

  /**
   * The one spelling for all that mean the same path: decoded, merged, resolved, without path parameters and slashes at
   * its end. Null when origins disagree about the path: a spelling that another origin reads as `/a1`, `/a2`, … must not
   * give a client of this one as many keys.
   */
  get canonical(): string | null {
    if (this.#canonical === undefined) {
      this.#canonical = this.#isUnambiguous ? this.#plain : canonicalOf(this.#spellings);
    }
    return this.#canonical;
  }

  /** Readings to take a key from, of which the first that matches is the one. */
  get forKeys(): readonly PathReading[] {
    const { canonical } = this;
    return canonical === null || this.#isUnambiguous
      ? this.all
      : [readingOf(canonical, true), ...this.all];
  }

  get #plain(): string {
    return withoutTrailingSlashes(this.#spellings[0] ?? "/");
  }

  /** Nearly all requests: nothing to decode, drop, merge or resolve. */
  get #isUnambiguous(): boolean {
    return this.#spellings.length === 1 && !special.test(this.#spellings[0] ?? "");
  }
}

/** A path that the configuration or a caller of `/check` names, read as the path of a request would be. */
export function parsePath(text: string): PathReadings {
  const path = rooted(text).replaceAll("?", "%3F").replaceAll("#", "%23");
  return new PathReadings(new URL(`http://host${path}`).pathname);
}

const special = /[%;\\]|\/[/.]/;

/** All escapes that are valid UTF-8, and the `%uXXXX` that IIS accepts; what is invalid stays as it is. */
export const decoded = (text: string): string => text.replace(escapes, decode);

/** The same but for slashes and backslashes: origins that split before they decode see no separators in them. */
export const decodedInSegments = (text: string): string => text.replace(escapesInSegments, decode);

/** All escapes that are valid UTF-8 and no others, as most origins decode. */
const decodedPlainly = (text: string): string => text.replace(plainEscapes, decode);

const multibyte =
  "%c[2-9a-f]%[89ab][0-9a-f]|%d[0-9a-f]%[89ab][0-9a-f]|%e0%[ab][0-9a-f]%[89ab][0-9a-f]|" +
  "%(?:e[1-9a-cef])(?:%[89ab][0-9a-f]){2}|%ed%[89][0-9a-f]%[89ab][0-9a-f]|" +
  "%f0%[9ab][0-9a-f](?:%[89ab][0-9a-f]){2}|%f[1-3](?:%[89ab][0-9a-f]){3}|%f4%8[0-9a-f](?:%[89ab][0-9a-f]){2}";
const plainEscape = `(?:%[0-7][0-9a-f]|${multibyte})+`;
const plainEscapes = new RegExp(plainEscape, "gi");
const escapes = new RegExp(`%u[0-9a-f]{4}|${plainEscape}`, "gi");
const escapesInSegments = new RegExp(
  `%u(?!00(?:2f|5c))[0-9a-f]{4}|(?:%(?!2f|5c)[0-7][0-9a-f]|${multibyte})+`,
  "gi",
);

/** Never throws: what is matched is valid. */
const decode = (run: string): string =>
  /^%u/i.test(run)
    ? String.fromCharCode(Number.parseInt(run.slice(2), 16))
    : decodeURIComponent(run);

/**
 * The same text for all letters that any origin compares as equal: Python and Java take "ſ" for "s" and "ı" for "i". Every
 * character keeps its place, so a letter stays as it is where another case of it has two.
 */
export const caseFolded = (text: string): string =>
  text
    .replace(/[^\0-\x7f]/g, inUpperCase)
    .replaceAll("\u0130", "i")
    .toLowerCase()
    .replaceAll("\u03c2", "\u03c3");

function inUpperCase(character: string): string {
  const upper = character.toUpperCase();
  return upper.length === 1 ? upper : character;
}

/** The root stays. A loop, since a regular expression would look for the end from each of many slashes. */
export function withoutTrailingSlashes(text: string): string {
  let end = text.length;
  while (end > 1 && text[end - 1] === "/") end--;
  return text.slice(0, end);
}

/** In regular expressions of nginx, Apache and Python, `$` matches before a newline at the end, too. */
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

function readingOf(text: string, isDecoded: boolean): PathReading {
  return { text, folded: caseFolded(text), isDecoded };
}

/** Decoded ones first: keys are taken from the first that matches. */
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

/** How origins decode the path: `%uXXXX` is an escape for some of them only. */
const decodersFor = (spelling: string): readonly Decoder[] =>
  /%u/i.test(spelling) ? [decoded, decodedPlainly] : [decoded];

/** Path parameters may stay, be dropped before decoding, or after. */
function decodings(spelling: string, decodeText: Decoder): Set<string> {
  const text = decodeText(spelling);
  return new Set([text, withoutParameters(text), decodeText(withoutParameters(spelling))]);
}

function addVariants(texts: Set<string>, text: string): void {
  for (const each of [
    resolved(merged(text)),
    resolved(merged(withSlashes(text))),
    resolved(text),
    text,
  ]) {
    texts.add(withoutTrailingSlashes(each));
    texts.add(withoutTrailingSlashes(withoutFinalNewline(each)));
  }
}

/** What each kind of origin resolves the path to, in one spelling; null when they differ. */
function canonicalOf(spellings: readonly string[]): string | null {
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
  const [only, ...others] = new Set(
    texts.map((text) =>
      withoutTrailingSlashes(
        withoutFinalNewline(resolved(merged(withSlashes(withoutParameters(text))))),
      ),
    ),
  );
  return only === undefined || others.length > 0 ? null : only;
}
