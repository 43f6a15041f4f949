/** Finds the position of a JSON syntax error (RFC 8259). The errors of `JSON.parse` name it only for some mistakes. */

export interface Position {
  /** Counted from 1. */
  readonly line: number;
  /** In UTF-16 units, counted from 1. */
  readonly column: number;
}

/** The position of the first invalid character, or of the end of a truncated text; null for valid JSON. */
export function jsonErrorAt(text: string): Position | null {
  const index = errorIndex(text);
  if (index === null) return null;
  const lines = text.slice(0, index).split("\n");
  return { line: lines.length, column: (lines.at(-1) ?? "").length + 1 };
}

/**
 * The next expected character. "more": a comma or a closing bracket. "first-…": the first item after an opening bracket, or
 * the closing bracket.
 */
type Expected = "value" | "first-value" | "key" | "first-key" | "colon" | "more";

const space = /[\t\n\r ]*/y;
const scalar = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
/** A string without its closing quotation mark. */
const beginningOfString = /"(?:[ !#-[\]-\u{10ffff}]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*/uy;

function errorIndex(text: string): number | null {
  const open: string[] = [];
  let expected: Expected = "value";
  let index = 0;
  for (;;) {
    index = endOf(space, text, index);
    const character = text[index];
    const opened = open.at(-1);
    if (expected === "more" && opened === undefined) {
      return character === undefined ? null : index;
    }
    const isFirst = expected === "first-value" || expected === "first-key";
    const isKey: boolean = expected === "key" || expected === "first-key";
    if ((isFirst || expected === "more") && character === (opened === "[" ? "]" : "}")) {
      open.pop();
      index++;
      expected = "more";
    } else if (expected === "more" || expected === "colon") {
      if (character !== (expected === "more" ? "," : ":")) return index;
      index++;
      expected = expected === "more" && opened === "{" ? "key" : "value";
    } else if (character === '"') {
      index = endOf(beginningOfString, text, index);
      if (text[index] !== '"') return index;
      index++;
      expected = isKey ? "colon" : "more";
    } else if (!isKey && (character === "[" || character === "{")) {
      open.push(character);
      index++;
      expected = character === "[" ? "first-value" : "first-key";
    } else {
      const end = isKey ? index : endOf(scalar, text, index);
      if (end === index) return index;
      index = end;
      expected = "more";
    }
  }
}

/** The end of a match that begins at `index`; `index` itself without a match. */
function endOf(pattern: RegExp, text: string, index: number): number {
  pattern.lastIndex = index;
  return pattern.test(text) ? pattern.lastIndex : index;
}
