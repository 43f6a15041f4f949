/** The common forms of a check, which are read without a schema. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { commonCheck, readAnyCheck, readCheck } from "../../../src/http/check/input.ts";
import { forAll } from "../../for-all.ts";

const anyText = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.constantFrom("", "\u{d800}", "a\u{dfff}b", "é".repeat(512), "é".repeat(513), "a".repeat(341)),
  fc.constantFrom("a".repeat(342), "a".repeat(1024), "a".repeat(1025), "€".repeat(341), "😀"),
);

const anyCost = fc.oneof(
  fc.integer({ min: -2, max: 1_000_002 }),
  fc.constantFrom(-0, 0.5, 1e3, 1e300, 2 ** 53, Number.NaN, Number.POSITIVE_INFINITY, "1", null),
);

const anyKey = fc.oneof(anyText, fc.array(anyText, { maxLength: 18 }), fc.sparseArray(anyText));

const field = fc.oneof(
  fc.tuple(fc.constant("policy"), anyText),
  fc.tuple(fc.constant("key"), anyKey),
  fc.tuple(fc.constant("cost"), anyCost),
  fc.tuple(fc.constantFrom("policy", "key", "cost"), fc.anything()),
  fc.tuple(
    fc.constantFrom("limits", "strategy", "attributes", "__proto__", "constructor", "polciy"),
    fc.oneof(fc.constantFrom("5/minute", undefined, null, {}), fc.anything()),
  ),
);

/** An object with any fields of its own. */
const anyBody = fc.oneof(
  { weight: 5, arbitrary: fc.array(field, { maxLength: 4 }).map(Object.fromEntries) },
  { weight: 1, arbitrary: fc.anything() },
);

/** The text of a body. Fields can be repeated, and numbers have any notation. */
const anyJson = fc
  .array(
    fc.oneof(
      field.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value) ?? "null"}`),
      fc.constantFrom('"cost":1e3', '"cost":-0', '"cost":1.0', '"key":"\\ud800"', '"\\u006bey":"k"'),
      fc.constantFrom('"__proto__":{"cost":5}', '"key":"a","key":["b"]', '"policy":"p"'),
    ),
    { maxLength: 4 },
  )
  .map((members) => `{${members.join(",")}}`);

describe("the two readers of a check", () => {
  it(
    "the reader of common checks agrees with the schemas on every object",
    forAll(
      [anyBody],
      (body) => {
        expect(readCheck(body)).toStrictEqual(readAnyCheck(body));
      },
      800,
    ),
  );

  it(
    "the reader of common checks agrees with the schemas on every JSON text",
    forAll(
      [anyJson],
      (json) => {
        const body: unknown = JSON.parse(json);
        expect(readCheck(body)).toStrictEqual(readAnyCheck(JSON.parse(json)));
      },
      300,
    ),
  );

  it("the common forms of a check need no schema", () => {
    expect(commonCheck({ policy: "p", key: "k" })).toEqual({ policy: "p", key: ["k"], cost: 1 });
    expect(commonCheck({ key: ["a", "b"], cost: 5 })).toEqual({ key: ["a", "b"], cost: 5 });
    expect(commonCheck({ key: "k", limits: "5/minute" })).toBe(null);
  });
});
