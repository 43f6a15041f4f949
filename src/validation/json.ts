/** JSON from outside, with a bound on its depth: what walks a value by recursion cannot exhaust the stack then. */

/** No request, token or variable that Headgate reads needs more than a dozen levels. */
export const mostJsonDepth = 64;

/** JSON, or what begins like JSON, whose objects and lists are nested too deep. */
export class JsonTooDeep extends SyntaxError {
  override readonly name = "JsonTooDeep";
  /** Where the first level too many begins, in UTF-16 units, counted from 1. */
  readonly position: number;

  constructor(position: number) {
    super(`JSON is nested deeper than ${mostJsonDepth} levels at character ${position}`);
    this.position = position;
  }
}

type Reviver = (
  this: unknown,
  key: string,
  value: unknown,
  context?: { source?: string },
) => unknown;

/**
 * The value of a JSON text.
 * @param reviver as that of `JSON.parse`
 * @throws JsonTooDeep when it is nested too deep; SyntaxError when it is not JSON
 */
export function parseJson(text: string, reviver?: Reviver): unknown {
  refuseDeepJson(text);
  return JSON.parse(text, reviver) as unknown;
}

/** @throws JsonTooDeep when a text is nested too deep, whether it is JSON or not */
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
