/** The values that `match.path` and `pathMatching` accept, and the error messages for other values. */
import { describe, expect, it } from "vitest";
import { describeProblem } from "../../src/validation/problems.ts";
import { configOf, problemsIn } from "./parsed.ts";

const withPolicy = (fields: object): Record<string, unknown> => ({
  KEY_SECRET: "s",
  POLICIES: [{ name: "a", limits: "1/s", ...fields }],
});

const messagesOf = (fields: object): string[] => problemsIn(withPolicy(fields)).map(describeProblem);

describe("match.path", () => {
  it.for(["/", "/*", "/login", "/a/:b/*", "/:a", "/~x.y_z-1,2;@=&$!'", "/a b", "/ä", "/%2A%3a%zz"])(
    "match.path accepts %s",
    (path) => {
      expect(messagesOf({ match: { path } })).toEqual([]);
    },
  );

  const group = 'write "*" or ":name" in place of a regular expression or a group, or ';
  const segment = '":name" stands for a whole segment; write "*" for a part of one, or "%3A" for ":" itself';
  it.for<[string, string]>([
    ["/users/:id(\\d+)", `${group}"%28" for "(" itself`],
    ["/a\\b", 'write "%5C" for "\\" itself'],
    ["/users/(a|b)", `${group}"%28" for "(" itself`],
    ["/a{/b}?", `${group}"%7B" for "{" itself`],
    ["/a|/b", `${group}"%7C" for "|" itself`],
    ["/[ab]", `${group}"%5B" for "[" itself`],
    ["/^a$", `${group}"%5E" for "^" itself`],
    ["/c++", `${group}"%2B" for "+" itself`],
    ["/:a?", 'a pattern has no query and no optional parts; write "%3F" for "?" itself'],
    ["/a?b=1", 'a pattern has no query and no optional parts; write "%3F" for "?" itself'],
    ["/a#b", 'write "%23" for "#" itself'],
    ["/a\tb", 'write "%09" for "\t" itself'],
    ["/files/:name.json", segment],
    ["/files/v:major", segment],
    ["/files/:name*", segment],
    ["/jobs/1:cancel", segment],
    ["/a/:", segment],
    ["/a/:1", segment],
    ["/a/../b", 'write the path without "." and ".." segments'],
    ["/a/%2e", 'write the path without "." and ".." segments'],
  ])("match.path rejects %s and suggests what to write", ([path, advice]) => {
    const [text = "", ...others] = messagesOf({ match: { path } });
    expect(others).toEqual([]);
    expect(text).toBe(
      `POLICIES[0].match.path: expected a path pattern such as "/login" or "/api/*", made of literals, ` +
        `"*" for any characters and ":name" for one segment, got ${JSON.stringify(path)}; ${advice}`,
    );
  });
});

describe("pathMatching", () => {
  const matchingOf = (fields: object): unknown =>
    configOf({ POLICIES: [{ name: "a", limits: "1/s", ...fields }] }).policies[0]?.match.pathMatching;

  it("pathMatching defaults to lenient, and may be set in the policy or in its match", () => {
    expect(matchingOf({})).toBe("lenient");
    expect(matchingOf({ match: { path: "/a" } })).toBe("lenient");
    expect(matchingOf({ match: { path: "/a" }, pathMatching: "exact" })).toBe("exact");
    expect(matchingOf({ match: { path: "/a", pathMatching: "exact" } })).toBe("exact");
    expect(matchingOf({ match: { path: "/a", pathMatching: "lenient" } })).toBe("lenient");
  });

  it("pathMatching accepts only lenient and exact", () => {
    expect(messagesOf({ pathMatching: "strict" })).toEqual([
      'POLICIES[0].pathMatching: expected "lenient" or "exact", got "strict"',
    ]);
    expect(messagesOf({ match: { path: "/a", pathMatching: true } })).toEqual([
      'POLICIES[0].match.pathMatching: expected "lenient" or "exact", got true',
    ]);
  });

  it("pathMatching cannot be set both in the policy and in its match", () => {
    const twice = { match: { path: "/a", pathMatching: "exact" }, pathMatching: "lenient" };
    expect(messagesOf(twice)).toEqual([
      'POLICIES[0].pathMatching: expected nothing, because match.pathMatching is set, got "lenient"',
    ]);
  });
});
