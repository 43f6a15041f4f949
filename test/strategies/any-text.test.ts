/**
 * Every spelling of the notation is parsed, and every other text is refused with problems that quote it. The expected
 * result comes from a second parser, which reads character by character and shares no code with the first.
 */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { forAll } from "../for-all.ts";
import { formatWindow, type Limit, parseLimits, strategies } from "../../src/strategies/index.ts";
import { ConfigProblems } from "../../src/validation/problems.ts";
import { dayMs } from "./meters.ts";

const longestMs = 3_650 * dayMs;

const unitNames: readonly (readonly [number, ...string[]])[] = [
  [1, "ms", "millisecond", "milliseconds"],
  [1_000, "s", "sec", "secs", "second", "seconds"],
  [60_000, "m", "min", "mins", "minute", "minutes"],
  [3_600_000, "h", "hr", "hrs", "hour", "hours"],
  [dayMs, "d", "day", "days"],
  [7 * dayMs, "w", "week", "weeks"],
];

/** Calendar periods and their maximum lengths. */
const periodNames: readonly (readonly [number, "month" | "year", ...string[]])[] = [
  [31 * dayMs, "month", "mo", "month", "months"],
  [366 * dayMs, "year", "y", "yr", "yrs", "year", "years"],
];

/** The parts of a limit in notation. */
interface ParsedLimit {
  readonly limit: number;
  readonly windowMs: number;
  readonly period?: "month" | "year";
}

const windows: fc.Arbitrary<Omit<ParsedLimit, "limit">> = fc.oneof(
  fc.integer({ min: 1, max: longestMs }).map((windowMs) => ({ windowMs })),
  fc
    .tuple(fc.constantFrom(...unitNames), fc.integer({ min: 1, max: 500 }))
    .map(([[size], count]) => ({ windowMs: size * count })),
  fc.constantFrom(...periodNames).map(([windowMs, period]) => ({ windowMs, period })),
);

const spaces = fc.constantFrom("", " ", "  ", "\t", "\u00a0", "\n ");
const someSpaces = fc.constantFrom(" ", "  ", "\t", " \n");
const zeros = fc.constantFrom("", "", "0", "000");

/** The choices in the spelling of a limit. Every combination is valid for every limit. */
interface Spelling {
  readonly unit: number;
  readonly capitals: number;
  /** Whether to omit the number 1 before the unit. */
  readonly isNumberOmitted: boolean;
  readonly zeros: readonly [string, string];
  readonly per: string;
  readonly space: string;
  readonly word: string;
}

const spelling: fc.Arbitrary<Spelling> = fc.record({
  unit: fc.nat(1_000),
  capitals: fc.oneof(fc.constant(0), fc.nat(4_095)),
  isNumberOmitted: fc.boolean(),
  zeros: fc.tuple(zeros, zeros),
  per: fc.oneof(
    fc.tuple(spaces, fc.constant("/"), spaces).map((parts) => parts.join("")),
    fc.tuple(someSpaces, fc.constantFrom("per", "PER", "Per"), someSpaces).map((parts) => parts.join("")),
  ),
  space: spaces,
  word: fc.constantFrom("", "", " request", "  requests", " Req", " reqs"),
});

function spelledLimit({ limit, windowMs, period }: ParsedLimit, how: Spelling): string {
  const choices =
    period === undefined
      ? unitNames.flatMap(([size, ...names]) =>
          windowMs % size === 0 ? names.map((name) => [windowMs / size, name] as const) : [],
        )
      : periodNames.flatMap(([, name, ...names]) => (name === period ? names.map((each) => [1, each] as const) : []));
  const [count, name] = choices[how.unit % choices.length] ?? [windowMs, "ms"];
  const unit = Array.from(name, (letter, index) =>
    (how.capitals >> index) % 2 === 1 ? letter.toUpperCase() : letter,
  ).join("");
  const number = count === 1 && how.isNumberOmitted ? "" : `${how.zeros[1]}${count}`;
  return `${how.zeros[0]}${limit}${how.word}${how.per}${number}${how.space}${unit}`;
}

const separator = fc.tuple(spaces, fc.constantFrom(";", ",", "|"), spaces).map((parts) => parts.join(""));

/** A limit, its spelling, and the separator after it. */
const spelledLimits = (greatest: number) =>
  fc.tuple(
    fc
      .tuple(fc.integer({ min: 1, max: greatest }), windows)
      .map(([limit, window]): ParsedLimit => ({ limit, ...window })),
    spelling,
    separator,
  );

type SpelledLimits = readonly (readonly [ParsedLimit, Spelling, string])[];

const textOf = (limits: SpelledLimits): string =>
  limits.map(([limit, how], index) => `${limits[index - 1]?.[2] ?? ""}${spelledLimit(limit, how)}`).join("");

const distinct = fc.uniqueArray(spelledLimits(10_000), {
  minLength: 1,
  maxLength: 8,
  selector: ([limit]) => formatWindow(limit),
});

/** The options that each strategy has by default. */
const defaultsOf: Readonly<Record<string, object>> = {
  "fixed-window": { align: "first-request", elastic: false },
  "sliding-window-counter": { align: "first-request" },
  "sliding-buckets": { edge: "keep" },
  "token-bucket": { refill: "continuous" },
  "leaky-bucket": { mode: "queue" },
};

describe("the notation of limits in every spelling", () => {
  it(
    "limits parse to the same result in every spelling, for every strategy",
    forAll(
      [distinct, spaces, fc.constantFrom(...strategies.keys())],
      (limits, space, strategy) => {
        const expected = limits.map(([limit]) => ({
          ...limit,
          ...(limit.period === undefined
            ? { strategy, ...defaultsOf[strategy] }
            : { strategy: "fixed-window", align: "calendar", elastic: false }),
          name: limits.length === 1 ? "api" : `api.${limit.limit}-per-${formatWindow(limit)}`,
        }));
        const defaults = { strategy, policy: "api" };
        expect(parseLimits(`${space}${textOf(limits)}${space}`, defaults)).toEqual(expected);
        const each = limits.map(([limit, how]) => spelledLimit(limit, how));
        expect(parseLimits(each, defaults)).toEqual(expected);
        const shortest = limits.map(([limit]) => `${limit.limit}/${formatWindow(limit)}`);
        expect(parseLimits(shortest.join(";"), defaults)).toEqual(expected);
      },
      2_000,
      60,
    ),
  );
});

/** A run of digits, letters or spaces, or a single other character. */
interface Piece {
  readonly kind: "digits" | "letters" | "spaces" | "other";
  readonly text: string;
}

function kindOf(character: string): Piece["kind"] {
  if (character.trim() === "") return "spaces";
  if (character >= "0" && character <= "9") return "digits";
  const lower = character >= "A" && character <= "Z" ? character.toLowerCase() : character;
  return lower >= "a" && lower <= "z" ? "letters" : "other";
}

function piecesOf(text: string): Piece[] {
  const pieces: Piece[] = [];
  let start = 0;
  for (let end = 1; end <= text.length; end++) {
    const kind = kindOf(text.charAt(start));
    if (end < text.length && kind !== "other" && kindOf(text.charAt(end)) === kind) continue;
    pieces.push({ kind, text: text.slice(start, end).toLowerCase() });
    start = end;
  }
  return pieces;
}

const sizeOf = new Map(unitNames.flatMap(([size, ...names]) => names.map((name) => [name, size])));
const periodOf = new Map(
  periodNames.flatMap(([windowMs, period, ...names]) => names.map((name) => [name, { windowMs, period }])),
);

const requestWords = new Set(["request", "requests", "req", "reqs"]);

/**
 * Parses one limit: digits, an optional word such as `requests`, a slash or the word `per`, optional digits, and a unit.
 * @returns null if the text is not a limit
 */
function parsedLimit(text: string): ParsedLimit | null {
  const pieces = piecesOf(text.trim());
  const take = (kind: Piece["kind"], word?: string): string | undefined => {
    const [piece] = pieces;
    const isIt = piece?.kind === kind && (word === undefined || piece.text === word);
    return isIt ? pieces.shift()?.text : undefined;
  };
  let limit = take("digits");
  while (limit !== undefined && pieces[0]?.text === "_" && pieces[1]?.kind === "digits") {
    take("other", "_");
    limit += take("digits") ?? "";
  }
  let before = take("spaces");
  if (before !== undefined && requestWords.has(pieces[0]?.text ?? "")) {
    take("letters");
    before = take("spaces");
  }
  const isSlash = take("other", "/") !== undefined;
  const isPer = !isSlash && before !== undefined && take("letters", "per") !== undefined;
  const after = take("spaces");
  const count = take("digits") ?? "1";
  take("spaces");
  const unit = take("letters") ?? "";
  if (limit === undefined || pieces.length > 0) return null;
  if (!isSlash && (!isPer || after === undefined)) return null;
  if (limit.length > 16 || count.length > 15) return null;
  const period = Number(count) === 1 ? periodOf.get(unit) : undefined;
  const window = period ?? { windowMs: Number(count) * (sizeOf.get(unit) ?? 0) };
  const isWindow = window.windowMs >= 1 && window.windowMs <= longestMs;
  const isLimit = Number(limit) >= 1 && Number(limit) < 10 ** 15;
  return isWindow && isLimit ? { limit: Number(limit), ...window } : null;
}

/**
 * The limits in a text.
 * @returns null if the text must be refused
 */
function parsedLimits(text: string): ParsedLimit[] | null {
  const parts: string[] = [""];
  for (const character of text) {
    if (";,|".includes(character)) parts.push("");
    else parts.push(`${parts.pop() ?? ""}${character}`);
  }
  if (parts.length > 1 && text.trim().endsWith(";")) parts.pop();
  const limits = parts.map(parsedLimit).filter((limit) => limit !== null);
  const windowsOf = new Set(limits.map(({ windowMs, period }) => `${windowMs} ${period}`));
  const isRefused = limits.length < parts.length || parts.length > 16;
  return isRefused || windowsOf.size < limits.length ? null : limits;
}

/** The text as an error message quotes it: at most 200 characters. */
function quoted(text: string): string {
  const json = JSON.stringify(text);
  return json.length > 200 ? `${json.slice(0, 200)}…` : json;
}

/**
 * Uses `sliding-buckets`, which accepts every product of limit and window, so that only the text decides whether a
 * limit is valid.
 */
const strategy = "sliding-buckets";

const parsedOf = ({ limit, windowMs, period }: Limit) =>
  period === undefined ? { limit, windowMs } : { limit, windowMs, period };

/** Expects the result of the second parser, or an error in which each problem quotes a part of the text. */
function expectParsedOrQuoted(text: string): void {
  let parsed: unknown = null;
  try {
    parsed = parseLimits(text, { strategy }).map(parsedOf);
  } catch (error) {
    if (!(error instanceof ConfigProblems)) throw error;
    const { problems, message } = error;
    const isEachQuoted = problems.every(
      ({ value, accepted }) =>
        typeof value === "string" &&
        text.includes(value) &&
        accepted !== "" &&
        message.includes(`: expected ${accepted}, got ${quoted(value)}`),
    );
    if (problems.length === 0 || !isEachQuoted) throw error;
  }
  expect(parsed).toEqual(parsedLimits(text));
}

const token = fc.constantFrom(
  ...'0123456789 /;,|.-_+eE%\n\t\u00a0\u2028\ufeff\u0130\u017f\u212a\u0663\ud800\0"\\'.split(""),
  ..."requests request req reqs requestss Requests 1_000 1_0 _1 1_ 1__0".split(" "),
  ..."per PER pe rper ms s minute hours w mo yr month years 1e3 ∞ NaN 0x1 1n 00".split(" "),
  ...`10/m,5/30s, per ,1/1mo,${"9".repeat(15)},${"9".repeat(16)},3650d,3651d`.split(","),
  ..."constructor __proto__ prototype toString hasOwnProperty valueOf undefined null".split(" "),
);
const tokens = fc.string({ unit: token, maxLength: 16 });

const valid = fc.array(spelledLimits(999_999_999_999_999), { minLength: 1, maxLength: 3 }).map(textOf);

/** Replaces parts of a text with copies or with another text, `times` times. */
interface Edit {
  readonly at: number;
  readonly length: number;
  readonly replacement: string | null;
  readonly times: number;
}

const edit: fc.Arbitrary<Edit> = fc.record({
  at: fc.nat(60),
  length: fc.nat(6),
  replacement: fc.option(fc.oneof(fc.constant(""), token)),
  times: fc.oneof({ weight: 9, arbitrary: fc.nat(2) }, { weight: 1, arbitrary: fc.nat(40) }),
});

function edited(text: string, { at, length, replacement, times }: Edit): string {
  const start = at % (text.length + 1);
  const end = start + length;
  const piece = replacement ?? text.slice(start, end);
  return `${text.slice(0, start)}${piece.repeat(times)}${text.slice(end)}`;
}

/** Twenty texts, each made from one valid text by up to three edits. */
const nearlyValid = fc
  .tuple(valid, fc.array(fc.array(edit, { maxLength: 3 }), { minLength: 20, maxLength: 20 }))
  .map(([text, each]) => each.map((edits) => edits.reduce(edited, text)));

describe("an arbitrary text as a limit", () => {
  it(
    "a text that differs from the notation by a few edits is parsed, or refused with problems that quote it",
    forAll([nearlyValid], (texts) => texts.forEach(expectParsedOrQuoted), 1_000, 100),
    60_000,
  );

  it(
    "a text made of pieces of the notation is parsed, or refused with problems that quote it",
    forAll([tokens], expectParsedOrQuoted, 10_000, 1_000),
    60_000,
  );

  it(
    "a text of arbitrary characters is parsed, or refused with problems that quote it",
    forAll([fc.string({ unit: "binary", maxLength: 30 })], expectParsedOrQuoted, 5_000, 500),
    60_000,
  );

  const repeated = fc
    .tuple(tokens, fc.oneof(token, tokens, valid), fc.integer({ min: 2, max: 400 }), tokens)
    .map(([before, piece, times, after]) => `${before}${piece.repeat(times)}${after}`);

  it(
    "a long repetitive text is parsed, or refused with problems that quote it",
    forAll([repeated], expectParsedOrQuoted, 250),
    60_000,
  );

  it.for(
    ["__proto__", "constructor", "prototype", "toString", "__defineGetter__"].flatMap((name) => [
      name,
      `${name}/second`,
      `1/${name}`,
      `1 per 1 ${name}`,
      `1/s;${name}`,
    ]),
  )("the name of an inherited property is not a unit or a limit (%s)", (text) => {
    expect(parsedLimits(text)).toBeNull();
    expectParsedOrQuoted(text);
  });

  it.for<[string, string]>([
    ["digits", "9".repeat(500_000)],
    ["digits before a unit", `1/${"9".repeat(500_000)}s`],
    ["spaces", `1${" ".repeat(500_000)}x`],
    ["spaces before half a word", `1${" ".repeat(500_000)}pe`],
    ["spaces before a line's end", `1/${" ".repeat(500_000)}a\nb`],
    ["spaces between number and unit", `1/5${" \n".repeat(250_000)}m!`],
    ["slashes", "/".repeat(500_000)],
    ["letters", `1/${"m".repeat(500_000)}!`],
    ["words", "1 per ".repeat(80_000)],
    ["words without spaces", `1 ${"per".repeat(160_000)}`],
    ["words between hyphens", `1 ${"-per".repeat(120_000)}`],
    ["pairs of surrogates", "\u{1f6a6}".repeat(250_000)],
    ["separators", ";".repeat(20_000)],
    ["limits", "1/s;".repeat(20_000)],
    ["digits with underscores", `${"1_".repeat(250_000)}1/s`],
    ["spaces before half the word requests", `1${" ".repeat(500_000)}reques`],
    ["separators and spaces", `1/s${"; ".repeat(250_000)}!`],
    ["spaces after a separator", `1/s;${" ".repeat(500_000)}!`],
  ])("a text of up to 500,000 characters is refused in linear time (%s)", ([, text]) => {
    expect(() => parseLimits(text)).toThrow(ConfigProblems);
  });

  it("a limit with 100,000 spaces between its words is parsed", () => {
    const space = " ".repeat(100_000);
    const text = `${space}1${space}per${space}2${space}hours${space}`;
    expect(parseLimits(text)).toMatchObject([{ limit: 1, windowMs: 7_200_000 }]);
  });
});
