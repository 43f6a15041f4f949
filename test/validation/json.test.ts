import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { JsonTooDeep, mostJsonDepth, parseJson } from "../../src/validation/json.ts";
import { forAll } from "../for-all.ts";

const nested = (depth: number, inner = ""): string =>
  `${"[".repeat(depth)}${inner}${"]".repeat(depth)}`;

/** Where a text is refused as too deep; null where it is not. */
function depthErrorAt(text: string): number | null {
  try {
    parseJson(text);
    return null;
  } catch (error) {
    return error instanceof JsonTooDeep ? error.position : null;
  }
}

/** What is read, or the kind of error. */
function valueOf(read: () => unknown): unknown {
  try {
    return { value: read() };
  } catch (error) {
    return error instanceof SyntaxError ? "a syntax error" : error;
  }
}

describe("JSON from outside", () => {
  it("is read up to 64 levels of nesting, and refused one level deeper", () => {
    expect(mostJsonDepth).toBe(64);
    expect(parseJson(nested(64))).toEqual(JSON.parse(nested(64)));
    expect(() => parseJson(nested(65))).toThrow(
      "JSON is nested deeper than 64 levels at character 65",
    );
  });

  it("is refused at the first level too many, however objects and lists alternate", () => {
    expect(depthErrorAt(`${'{"a":['.repeat(32)}{`)).toBe(6 * 32 + 1);
    expect(depthErrorAt(`[[1], ${nested(64)}]`)).toBe(6 + 64);
    expect(depthErrorAt(`{"checks":${nested(9_000)}}`)).toBe(10 + 64);
  });

  it("is as deep as its brackets outside of strings are", () => {
    const texts = [
      JSON.stringify("[".repeat(100)),
      JSON.stringify({ ["{".repeat(100)]: '\\"['.repeat(100) }),
      JSON.stringify(`"${"[".repeat(100)}`),
      JSON.stringify(Array.from({ length: 100 }, () => [{}])),
    ];
    for (const text of texts) expect(parseJson(text)).toEqual(JSON.parse(text));
    expect(depthErrorAt(nested(64, '"\\\\",['))).not.toBeNull();
  });

  it("is refused without a stack overflow, however deep it is", () => {
    expect(depthErrorAt("[".repeat(1_000_000))).toBe(65);
    expect(depthErrorAt('{"a":'.repeat(1_000_000))).toBe(5 * 64 + 1);
  });

  it(
    "is read as JSON.parse reads it, and refused where JSON.parse refuses it",
    forAll([fc.oneof(fc.json({ maxDepth: 5 }), fc.string())], (text) => {
      expect(valueOf(() => parseJson(text))).toEqual(valueOf(() => JSON.parse(text)));
    }),
  );
});
