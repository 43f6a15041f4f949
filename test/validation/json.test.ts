import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { JsonTooDeep, mostJsonDepth, parseJson } from "../../src/validation/json.ts";
import { forAll } from "../for-all.ts";

const nested = (depth: number, inner = ""): string => `${"[".repeat(depth)}${inner}${"]".repeat(depth)}`;

/** The position at which a text is refused because it is nested too deep; null if it is accepted. */
function depthErrorAt(text: string): number | null {
  try {
    parseJson(text);
    return null;
  } catch (error) {
    return error instanceof JsonTooDeep ? error.position : null;
  }
}

/** The parsed value, or the kind of error. */
function valueOf(read: () => unknown): unknown {
  try {
    return { value: read() };
  } catch (error) {
    return error instanceof SyntaxError ? "a syntax error" : error;
  }
}

describe("parseJson", () => {
  it("JSON is parsed up to 64 levels of nesting and refused one level deeper", () => {
    expect(mostJsonDepth).toBe(64);
    expect(parseJson(nested(64))).toEqual(JSON.parse(nested(64)));
    expect(() => parseJson(nested(65))).toThrow("JSON is nested deeper than 64 levels at character 65");
  });

  it("JSON that is nested too deep is refused at the bracket of level 65, whether of an object or a list", () => {
    expect(depthErrorAt(`${'{"a":['.repeat(32)}{`)).toBe(6 * 32 + 1);
    expect(depthErrorAt(`[[1], ${nested(64)}]`)).toBe(6 + 64);
    expect(depthErrorAt(`{"checks":${nested(9_000)}}`)).toBe(10 + 64);
  });

  it("brackets inside JSON strings do not count as nesting", () => {
    const texts = [
      JSON.stringify("[".repeat(100)),
      JSON.stringify({ ["{".repeat(100)]: '\\"['.repeat(100) }),
      JSON.stringify(`"${"[".repeat(100)}`),
      JSON.stringify(Array.from({ length: 100 }, () => [{}])),
    ];
    for (const text of texts) expect(parseJson(text)).toEqual(JSON.parse(text));
    expect(depthErrorAt(nested(64, '"\\\\",['))).not.toBeNull();
  });

  it("JSON with a million levels is refused without a stack overflow", () => {
    expect(depthErrorAt("[".repeat(1_000_000))).toBe(65);
    expect(depthErrorAt('{"a":'.repeat(1_000_000))).toBe(5 * 64 + 1);
  });

  it(
    "parseJson returns what JSON.parse returns and refuses what JSON.parse refuses",
    forAll([fc.oneof(fc.json({ maxDepth: 5 }), fc.string())], (text) => {
      expect(valueOf(() => parseJson(text))).toEqual(valueOf(() => JSON.parse(text)));
    }),
  );
});
