/** The key part `path` has one value for all spellings of a path. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { keyPartReader } from "../../src/policy/compiled-policy.ts";
import { callerKeyValues } from "../../src/policy/key-text.ts";
import { forAll } from "../for-all.ts";
import { policyOf, requestTo } from "./harness.ts";
import { segments, spelling } from "./paths.ts";

/** The values of the key part for a request, and for a call of `/check` that names the same path. */
function keysOf(path: string, pattern?: string): (string | null)[] {
  const policy = policyOf({
    key: "path",
    ...(pattern !== undefined && { match: { path: pattern } }),
  });
  const requested = keyPartReader({ kind: "path" }, policy)(requestTo(path), {});
  return [requested, callerKeyValues(policy, [path])?.[0] ?? null];
}

const twice = (key: string): string[] => [key, key];

describe("the key part path without a pattern", () => {
  it.for<[string, string]>([
    ["/", "/"],
    ["//", "/"],
    ["/api/users", "/api/users"],
    ["/api/users/", "/api/users"],
    ["//api//users", "/api/users"],
    ["/%61pi/./users", "/api/users"],
    ["/z/../api/users", "/api/users"],
    ["/z%2f..%2Fapi/users", "/api/users"],
    ["/api%5cusers", "/api/users"],
    ["/api;a=1/users;b=2", "/api/users"],
    ["/API/users", "/API/users"],
    ["/%c3%A4", "/ä"],
    ["/%ff%FE%zz%", "/%ff%FE%zz%"],
    ["/a%2520b", "/a%20b"],
    ["/a%3Fb%23", "/a?b#"],
  ])("the key part path of %s is %s, in the proxy and in /check", ([path, expected]) => {
    expect(keysOf(path)).toEqual(twice(expected));
  });

  it(
    "every spelling of a path has one key, the decoded path, unless a decoded segment contains /, \\, ; or %",
    forAll(
      [
        segments
          .filter((each) => !/[/\\;%]/.test(each.join("")))
          .chain((each) => fc.tuple(fc.constant(each), spelling(each))),
      ],
      ([decoded, path]) => {
        expect(keysOf(path)[0]).toBe(`/${decoded.join("/")}`);
      },
    ),
  );

  // nginx reads each of these paths as /api/login, and other origins read each as a different path.
  it.for<[string, (name: string) => string]>([
    ["parameters with a slash", (name) => `/api/${name};%2f..%2flogin`],
    ["a backslash before dot segments", (name) => `/api/${name}%5cb%2f..%2flogin`],
    ["a slash that only IIS decodes", (name) => `/api/${name}%u002fb%2f..%2flogin`],
  ])("all ambiguous paths share one key: %s", ([, path]) => {
    const keys = ["a", "b", "c"].flatMap((name) => keysOf(path(name)));
    expect(new Set(keys)).toEqual(new Set(["//"]));
    const byPattern = ["a", "b", "c"].flatMap((name) => keysOf(path(name), "/api/*"));
    expect(new Set(byPattern)).toEqual(new Set(["/api/*"]));
  });
});

describe("the key part path with a pattern", () => {
  it.for<[string, string, string]>([
    ["/Login", "/LOGIN/", "/login"],
    ["/login", "/x/..%2flogin;a=1", "/login"],
    ["/login", "/x;%2f..%2flogin", "/login"],
    ["/login", "/y%5cb%2f..%2flogin", "/login"],
    ["/", "//", "/"],
    ["/api/*", "/API/Users/7/", "/api/Users/7"],
    ["/api/*", "/API", "/api"],
    ["/*", "/", "/"],
    ["/users/:id/posts/*", "/USERS/Ann/POSTS/A/b", "/users/Ann/posts/A/b"],
    ["/*.JSON", "/A.Json", "/A.json"],
    ["/files/:name", "/FILES/a%2Fb", "/files/a/b"],
    ["/files/:name", "/files/%61%2fB", "/files/a/B"],
    ["/files/:name", "/files/Ab%0a", "/files/Ab"],
    ["/login", "/login%0A", "/login"],
    ["/files/:name", "/FILES/%41%5cb", "/files/A\\b"],
    ["/ä/:x", "/%C3%84/%C3%84", "/ä/Ä"],
  ])("with the pattern %s, the key part path of %s is %s, in the proxy and in /check", ([pattern, path, expected]) => {
    expect(keysOf(path, pattern)).toEqual(twice(expected));
  });

  it("a path that a caller of /check names keeps its case if the policy's pattern does not match it", () => {
    expect(keysOf("/Other%2fPath/", "/api/*")).toEqual(twice("/Other/Path"));
  });

  it("paths in a policy's lists are converted to the same canonical form as those of requests", () => {
    const policy = policyOf({
      key: "path",
      match: { path: "/api/*" },
      overrides: [{ key: "/Api/%55sers/", limits: "9/s" }],
    });
    const [override] = policy.lists.overrides;
    expect(override?.for).toMatchObject({ patterns: [{ kind: "text", text: "/api/Users" }] });
  });
});
