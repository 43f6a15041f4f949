/** Bearer tokens are compared in one buffer, which all requests reuse. */
import { timingSafeEqual } from "node:crypto";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { tokenMatcher } from "../../../src/http/check/call.ts";
import { forAll } from "../../for-all.ts";

/** Node's `crypto.subtle` lacks this method. */
Object.assign(crypto.subtle, { timingSafeEqual });

const anyToken = fc.oneof(
  fc.constantFrom("a", "ab", "abc", "é", "éa", "😀", "😀".repeat(4)),
  fc.string({ unit: "grapheme", minLength: 1, maxLength: 9 }),
);

it(
  "a token matches its own holder and no other, whatever tokens were compared before",
  forAll([fc.uniqueArray(anyToken), fc.array(anyToken, { minLength: 1 })], (tokens, given) => {
    const holders = tokens.map((token) => ({ token }));
    const holderOf = tokenMatcher(holders);
    for (const token of [...given, ...tokens, ...given, ""]) {
      expect(holderOf(token)).toBe(holders.find((each) => each.token === token));
    }
  }),
);
