import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { normalizedPath } from "../../src/http/attributes.ts";
import { forAll } from "../for-all.ts";
import { segments, spelling } from "../policy/paths.ts";

/** The normalized path of a request, which is compared with `CHECK_PATH`. */
const pathOf = (path: string): string => normalizedPath(new URL(`https://h.example${path}`).pathname);

describe("the normalization of a path for the comparison with CHECK_PATH", () => {
  it.for([
    ["/", "/"],
    ["//", "/"],
    ["/a", "/a"],
    ["/a/", "/a"],
    ["/a///b//", "/a/b"],
    ["/%61", "/a"],
    ["/%7E%7e", "/~~"],
    ["/%3b%3D", "/;="],
    ["/a%2fb", "/a%2Fb"],
    ["/a%5cb", "/a%5Cb"],
    ["/a%3fb%23c", "/a%3Fb%23c"],
    ["/%2561", "/%2561"],
    ["/%c3%a4", "/%C3%A4"],
    ["/ä", "/%C3%A4"],
    ["/a%20b", "/a%20b"],
    ["/%00%0a%7f", "/%00%0A%7F"],
    ["/A", "/A"],
  ] as const)("the path %s is compared as %s", ([path, expected]) => {
    expect(pathOf(path)).toBe(expected);
  });

  it(
    "all encodings of one path are compared as the same path",
    forAll([segments.chain((each) => fc.tuple(spelling(each), spelling(each)))], ([one, other]) => {
      expect(pathOf(one)).toBe(pathOf(other));
    }),
  );

  it(
    "a normalized path has the same decoded segments as the path",
    forAll([segments.chain((each) => fc.tuple(fc.constant(each), spelling(each)))], ([decoded, path]) => {
      expect(pathOf(path).split("/").map(decodeURIComponent)).toEqual(["", ...decoded]);
    }),
  );

  it(
    "normalizing a normalized path changes nothing, and a normalized path has no repeated slash and none at the end",
    forAll([segments.chain(spelling)], (path) => {
      const normalized = pathOf(path);
      expect(normalized).toMatch(/^(?:\/[^/]+)+$/);
      expect(normalizedPath(normalized)).toBe(normalized);
      expect(pathOf(normalized)).toBe(normalized);
    }),
  );
});
