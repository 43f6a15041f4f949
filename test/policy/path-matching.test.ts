/** The paths that `match.path` matches. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { forAll } from "../for-all.ts";
import { meets } from "./harness.ts";
import { spelling } from "./paths.ts";

describe("a path pattern", () => {
  it.for(["/api", "/api/", "/api*", "/:a", "//api", "/%61pi", "/API"])(
    "the pattern %s matches every spelling of /api",
    (path) => {
      for (const spelled of [
        "/api",
        "/api/",
        "/api//",
        "//api",
        "///api/",
        "/%61pi",
        "/%61%70%69",
        "/a%70i/",
        "/./api",
        "/a/../api",
        "/a/%2e%2e/api",
        "/a/%2E./%2e/api",
        "/api/.",
        "/api/x/..",
        "\\api",
        "/api?x=/other",
        "/api#x",
        "/\tapi",
        "/API",
        "/aPi/",
        "/%41PI",
        "/%2fapi",
        "/%2f/api%2F",
        "/x/..%2fapi",
        "/x%2f..%2fapi",
        "/%2e%2e%2fapi",
        "/x/%2e%2e%2Fapi",
        "/x//..%2f..%2fapi",
        "/api;v=1",
        "/api;/",
        "/api%3Bv=1",
        "/x;a/..%2fapi",
        "/x;%2f..%2fapi",
        "/x/..;/api",
        "/x%5c..%5capi",
        "/%5Capi",
        "/api%5c",
        "/api%2f.",
        "/%u0061pi",
        "/x/..%u002fapi",
      ]) {
        expect([spelled, meets({ path }, spelled)]).toEqual([spelled, true]);
      }
    },
  );

  it.for(["/", "/ap", "/apis", "/x/api", "/api/x", "/%2561pi", "/api/../x", "/api%2Fx", "/api;/x"])(
    "the pattern /api does not match %s",
    (requested) => {
      expect(meets({ path: "/api" }, requested)).toBe(false);
    },
  );

  it.for([
    "/api",
    "/api/",
    "/api/users",
    "/api//users",
    "//api/users/",
    "/%61pi/users",
    "/api/users/7",
    "/x/../api/users",
    "/api/%2e%2e/api/",
    "/api/a%2Fb",
    "/api%2Fusers",
    "/API/Users",
    "/x%2f..%2fapi/users",
    "/api;x/users",
    "/api/..%2fx",
  ])("the pattern /api/* matches %s", (requested) => {
    expect(meets({ path: "/api/*" }, requested)).toBe(true);
  });

  it.for(["/", "/apis", "/apis/1", "/x/api/1", "/api/../x", "/xapi/1"])(
    "the pattern /api/* does not match %s",
    (requested) => {
      expect(meets({ path: "/api/*" }, requested)).toBe(false);
    },
  );

  it.for<[string, string, boolean]>([
    ["/", "/", true],
    ["/", "//", true],
    ["/", "/;x", true],
    ["/", "/a", false],
    ["/*", "/", true],
    ["/*", "/a/b", true],
    ["/users/:id", "/users/7", true],
    ["/users/:id", "/users/7/", true],
    ["/users/:id", "/USERS/7", true],
    ["/users/:id", "/users/7/posts", false],
    ["/users/:id", "/users/", false],
    ["/users/:id", "/users//", false],
    ["/users/:id/", "/users/7", true],
    ["/users/:id", "/users/a%2Fb", true],
    ["/users/:id", "/%75sers/a%2Fb", true],
    ["/users/:id", "/USERS/a%2F..%2F..%2Fb", true],
    ["/users/:id", "/users/a%5cb", true],
    ["/users/:id", "/x%2f..%2fusers/a%5cb", true],
    ["/users/:id", "/users%2fa%u002fb", true],
    ["/users/:id", "/users%5ca%u002fb;x", true],
    ["/login", "/login%0a", true],
    ["/login", "/x/..%2fLOGIN/%0A", true],
    ["/login", "/login%0a%0a", false],
    ["/login", "/login%0d", false],
    ["/users/%25u002f", "/users%2f%25u002f", true],
    ["/users/:id/posts/:post", "/users/7/posts/8", true],
    ["/users/:id/posts/:post", "/users/7/posts/", false],
    ["/users/:id/*", "/users/7/a/b", true],
    ["/users/:id/*", "/users/7", true],
    ["/users/:id/*", "/users/", false],
    ["/orgs/*/repos/:repo/raw", "/orgs/a/b/repos/c/raw", true],
    ["/orgs/*/repos/:repo/raw", "/orgs/a/repos/c/d/raw", false],
    ["/orgs/*/repos/:repo/raw", "/orgs/a/repos/x/repos/c/raw", true],
    ["/*.json", "/a/b.json", true],
    ["/*.json", "/a/b.json/", true],
    ["/*.json", "/a/b.JSON", true],
    ["/*.json", "/a/b.xml", false],
    ["/a*b*c", "/abc", true],
    ["/a*b*c", "/a/c/b/c", true],
    ["/a*b*c", "/acb", false],
    ["/a**b", "/axb", true],
    ["/a b", "/a%20b", true],
    ["/ä", "/%c3%a4", true],
    ["/ä", "/%C3%84", true],
    ["/Σ", "/%CF%82", true],
    ["/I", "/%C4%B0", true],
    ["/login", "/log%C4%B1n", true],
    ["/status", "/%C5%BFtatu%C5%BF", true],
    ["/kelvin", "/%E2%84%AAelvin", true],
    ["/stra%C3%9Fe", "/STRA%E1%BA%9EE", true],
    ["/strasse", "/stra%C3%9Fe", false],
    ["/~me", "/%7Eme", true],
    ["/a%2Fb", "/a%2fb", true],
    ["/a%2Fb", "/%61%2fb", true],
    ["/a%2Fb", "/a/b", false],
    ["/%5Bx%5D", "/[x]", true],
    ["/%2A", "/*", true],
    ["/%2A", "/anything", false],
    ["/%3Aname", "/:name", true],
    ["/%3Aname", "/anything", false],
    ["/100%25", "/100%25", true],
    ["/a", "/a%ff", false],
    ["/a*", "/a%ff%zz%", true],
    ["/%zz", "/%zz", true],
    ["/login%", "/login%", true],
  ])("the pattern %s matches a request for %s: %s", ([path, requested, expected]) => {
    expect(meets({ path }, requested)).toBe(expected);
  });

  it(
    "a pattern matches every spelling of a path, and no other path",
    forAll([spelling(["api", "users"]), spelling(["api"]), spelling(["apis", "users"])], (users, api, others) => {
      const of = (path: string): boolean[] => [users, api, others].map((each) => meets({ path }, each));
      expect(of("/api/users")).toEqual([true, false, false]);
      expect(of("/api/users/")).toEqual([true, false, false]);
      expect(of("/api")).toEqual([false, true, false]);
      expect(of("/api/*")).toEqual([true, true, false]);
      expect(of("/:collection/users")).toEqual([true, false, true]);
    }),
  );

  it("a path pattern matches the same paths as an equivalent regular expression, with lenient and with exact matching", async () => {
    const piece = fc.constantFrom("a", "b", "ab", ":x", "*", "*a", "a*b");
    const patterns = fc.array(piece, { minLength: 1, maxLength: 5 });
    const names = fc.array(fc.constantFrom("a", "b", "ab", "ba", "aab"), { maxLength: 6 });
    let matched = 0;
    let missed = 0;
    await forAll(
      [patterns, names],
      (pieces, path) => {
        const pattern = `/${pieces.join("/")}`;
        const requested = `/${path.join("/")}`;
        const isMatched =
          expression(pattern).test(requested) ||
          (pattern.endsWith("/*") && expression(pattern.slice(0, -2)).test(requested));
        expect(meets({ path: pattern }, requested)).toBe(isMatched);
        expect(meets({ path: pattern, pathMatching: "exact" }, requested)).toBe(isMatched);
        if (isMatched) matched++;
        else missed++;
      },
      4_000,
      1_000,
    )();
    expect(Math.min(matched, missed)).toBeGreaterThan(60);
  });

  it.for<[string, string]>([
    ["/orgs/*/repos/*/files/*/raw", "/orgs/repos/files"],
    ["/*a*a*a*a*a*a*a*b", "/a"],
    ["/:a/*/:b/:c/*/:d/x", "/a/b"],
    ["/*/:a/:b/:c/x*", "/a"],
    ["/login", "/%2e%2e;x%5c"],
    ["/login", "//./;"],
    ["/*/x", "/%ff%c3"],
    ["/*/x", ";;;;;;;;"],
  ])("the pattern %s takes milliseconds for 16 KB of %s", ([path, repeated]) => {
    const requested = `/${repeated.repeat(16_384 / repeated.length)}`;
    // The first call is not measured, because it compiles the pattern.
    expect(meets({ path }, requested)).toBe(false);
    const startedAtMs = performance.now();
    expect(meets({ path }, `${requested}/y`)).toBe(false);
    expect(performance.now() - startedAtMs).toBeLessThan(200);
  });
});

describe('a path pattern with pathMatching = "exact"', () => {
  const exactly = (path: string, requested: string): boolean => meets({ path, pathMatching: "exact" }, requested);

  it.for<[string, string, boolean]>([
    ["/api", "/api", true],
    ["/api", "/x/../api", true],
    ["/api", "/API", false],
    ["/api", "/api/", false],
    ["/api/", "/api/", true],
    ["/api/", "/api", false],
    ["/api", "//api", false],
    ["/api", "/%61pi", false],
    ["/%61pi", "/%61pi", true],
    ["/api", "/api;v=1", false],
    ["/api", "/x%2f..%2fapi", false],
    ["/api/*", "/api", true],
    ["/api/*", "/api/", true],
    ["/api/*", "/api/x", true],
    ["/api/*", "/Api/x", false],
    ["/users/:id", "/users/A%2Fb", true],
    ["/users/:id", "/users/a/", false],
    ["/ä b", "/ä b", true],
  ])("the exact pattern %s matches a request for %s: %s", ([path, requested, expected]) => {
    expect(exactly(path, requested)).toBe(expected);
  });
});

/** The reference, a regular expression that may backtrack. */
function expression(pattern: string): RegExp {
  const source = pattern.replaceAll("*", "[^]*").replaceAll(":x", "[^/]+").replace(/\/+$/, "");
  return new RegExp(`^${source}/*$`);
}
