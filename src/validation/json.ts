/** JSON from outside, limited in depth, so that recursive code cannot exhaust the stack. */

/** Requests, tokens and variables need at most a dozen levels. */
export const mostJsonDepth = 64;

/** The error for a text whose objects and arrays are nested too deep. */
export class JsonTooDeep extends SyntaxError {
  override readonly name = "JsonTooDeep";
  /** The position of the first bracket that is too deep, in UTF-16 units, counted from 1. */
  readonly position: number;

  constructor(position: number) {
    super(`JSON is nested deeper than ${mostJsonDepth} levels at character ${position}`);
    this.position = position;
  }
}

/**
 * Like `JSON.parse`, with a limit on depth.
 * @throws JsonTooDeep if the text is nested too deep; SyntaxError if it is not JSON
 */
export function parseJson(text: string): unknown {
  refuseDeepJson(text);
  return JSON.parse(text) as unknown;
}

/** Whether a value is an object and not an array. */
export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The value of a JSON text of our own, such as a stored one; null for a text that is not JSON. */
export function jsonOrNull(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}

/** @throws JsonTooDeep if a text is nested too deep, whether it is JSON or not */
export function refuseDeepJson(text: string): void {
  let depth = 0;
  let isInString = false;
  for (let index = 0; index < text.length; index++) {
    const character = text.charCodeAt(index);
    if (isInString) {
      if (character === backslash) index++;
      else if (character === quotationMark) isInString = false;
    } else if (character === quotationMark) isInString = true;
    else if (character === openBracket || character === openBrace) {
      depth++;
      if (depth > mostJsonDepth) throw new JsonTooDeep(index + 1);
    } else if (character === closeBracket || character === closeBrace) depth--;
  }
}

const quotationMark = 0x22;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;
