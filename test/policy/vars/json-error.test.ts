import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonErrorAt } from "../../../src/policy/vars/variables.ts";
import { forAll } from "../../for-all.ts";

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

describe("the position of an error in JSON", () => {
  it.for<[string, number, number]>([
    ["", 1, 1],
    ["[", 1, 2],
    ["[1,]", 1, 4],
    ['[{"name": "a",}]', 1, 15],
    ['["a" "b"]', 1, 6],
    ["['a']", 1, 2],
    ['{"a" 1}', 1, 6],
    ['{"a": }', 1, 7],
    ["{a: 1}", 1, 2],
    ["{,}", 1, 2],
    ['{"a": 1, 2}', 1, 10],
    ["[1}", 1, 3],
    ['{"a": 1]', 1, 8],
    ["[] []", 1, 4],
    ["[1_000]", 1, 3],
    ["[01]", 1, 3],
    ["[tru]", 1, 2],
    ["[True]", 1, 2],
    ["[1.]", 1, 3],
    ["[-]", 1, 2],
    ['["a\\x"]', 1, 4],
    ['["a\\u12"]', 1, 4],
    ['["open', 1, 7],
    ['["a\nb"]', 1, 4],
    ['[\n  "10/minute",\n  "5/second",\n]', 4, 1],
    ['[\r\n  {"limit": 5 "window": "1m"}\r\n]', 2, 15],
    ["[\u00a01]", 1, 2],
  ])("the JSON error in %j is at line %i, column %i", ([text, line, column]) => {
    expect(isJson(text)).toBe(false);
    expect(jsonErrorAt(text)).toEqual({ line, column });
  });

  it.for(["[]", " {} ", '\t[1, -0.5e+3, "\\u00e9\\n", "🚪", true, false, null]\r\n', '{"a":[{}]}', "7"])(
    "%j has no JSON error",
    (text) => {
      expect(jsonErrorAt(text)).toBeNull();
    },
  );

  it("jsonErrorAt finds an error exactly when JSON.parse does, and text after the error does not change its position", async () => {
    let brokenTexts = 0;
    const change = fc.constantFrom(..."[]{},:\"'\\ \n0a1-.e/".split(""), "");
    const holds = forAll(
      [fc.json({ maxDepth: 3 }), fc.nat(), change],
      (json, place, character) => {
        const at = place % (json.length + 1);
        const text = json.slice(0, at) + character + json.slice(at + 1);
        const position = jsonErrorAt(text);
        expect(position === null).toBe(isJson(text));
        if (position === null) return;
        brokenTexts++;
        const before = text.split("\n").slice(0, position.line - 1);
        const index = before.map((line) => `${line}\n`).join("").length + position.column - 1;
        const beginning = text.slice(0, index);
        expect(jsonErrorAt(beginning)).toEqual(isJson(beginning) ? null : position);
        expect(jsonErrorAt(text.slice(0, index + 1))).toEqual(position);
      },
      1_000,
    );
    await holds();
    expect(brokenTexts).toBeGreaterThan(300);
  });
});
