import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { forAll } from "../for-all.ts";
import { normalizedPath, parseConfig } from "../../src/config/index.ts";
import { matchingPolicies } from "../../src/policies/match.ts";
import { meets, policyOf, visitTo } from "./harness.ts";
import { segments, spelling } from "./paths.ts";

/** The path of a request for this, as the policies see it. */
const pathOf = (path: string): string =>
  normalizedPath(new URL(`https://h.example${path}`).pathname);

/** Null when the text is none. */
function urlPatternOf(pathname: string): URLPattern | null {
  try {
    return new URLPattern({ pathname });
  } catch {
    return null;
  }
}

describe("the policies that a request meets", () => {
  it.for<[string, string]>([
    ["/%61pi", "/api"],
    ["/a%2fb", "/a%2Fb"],
    ["/%c3%a9", "/é"],
    ["/%5Bx%5D", "/[x]"],
    ["//api//*", "/api/x"],
    ["/%2A", "/*"],
  ])("match a pattern in any spelling: %s meets %s", ([pattern, path]) => {
    expect(meets({ path: pattern }, path)).toBe(true);
  });

  it("take what is encoded in a pattern literally", () => {
    expect(meets({ path: "/%2A" }, "/anything")).toBe(false);
    expect(meets({ path: "/%3Aname" }, "/anything")).toBe(false);
    expect(meets({ path: "/%3Aname" }, "/:name")).toBe(true);
  });

  it("are those that a URLPattern tells, with and without a slash at the end", () => {
    const piece = fc.constantFrom("a", "b-1", "_c~", "d.e", ".f", ":x", "(y)?", "{z}", "%41", "*");
    const pieces = fc.array(piece, { maxLength: 3 }).map((each) => `/${each.join("/")}`);
    const patterns = fc.tuple(pieces, fc.constantFrom("", "/", "*", "/*", "**"));
    const path = fc.array(fc.constantFrom("a", "b-1", "_c~", "d.e", ".f", "A", "x"), {
      maxLength: 4,
    });
    forAll(
      [patterns, path],
      (parts, names) => {
        const text = parts.join("").replace(/\/{2,}/g, "/");
        const pattern = urlPatternOf(text.replaceAll("%41", "A"));
        fc.pre(pattern !== null);
        const asked = `/${names.join("/")}`;
        const isMet = pattern.test({ pathname: asked }) || pattern.test({ pathname: `${asked}/` });
        expect(meets({ path: text }, asked)).toBe(isMet);
      },
      2_000,
    );
  });

  it("are all that match, in the order of the configuration", () => {
    const { policies } = parseConfig({
      KEY_SECRET: "s",
      POLICIES: [
        { name: "everything", limits: "4/s" },
        { name: "writes", limits: "3/s", match: { methods: ["POST"] } },
        { name: "here", limits: "2/s", match: { path: "/here/*" } },
        { name: "host", limits: "1/s", match: { host: "h.example", methods: ["GET", "PUT"] } },
      ],
    });
    const met = (method: string, url: string): string[] =>
      matchingPolicies(policies, visitTo(url, { method })).map(({ name }) => name);
    expect(met("POST", "https://h.example/here/1")).toEqual(["everything", "writes", "here"]);
    expect(met("GET", "https://h.example/here/1")).toEqual(["everything", "here", "host"]);
    expect(met("PUT", "https://h.example/there")).toEqual(["everything", "host"]);
    expect(met("DELETE", "https://other.example/")).toEqual(["everything"]);
  });

  it("are those of which method, host and path all match", () => {
    const match = { methods: ["POST"], host: "h.example", path: "/a" };
    expect(meets(match, "/a", "POST")).toBe(true);
    expect(meets(match, "/a", "PUT")).toBe(false);
    expect(meets(match, "/b", "POST")).toBe(false);
    expect(meets(match, "https://i.example/a", "POST")).toBe(false);
  });
});

describe("a match of methods", () => {
  it.for<[string[], string, boolean]>([
    [["GET"], "GET", true],
    [["GET"], "HEAD", true],
    [["HEAD"], "HEAD", true],
    [["HEAD"], "GET", false],
    [["POST"], "HEAD", false],
    [["get"], "GET", true],
    [["get"], "HEAD", true],
    [["PATCH"], "patch", true],
    [["patch"], "PATCH", true],
    [["PATCH"], "PaTcH", true],
    [["GET", "POST"], "POST", true],
    [["GET", "POST"], "PUT", false],
    [["GET"], "GETS", false],
    [["*"], "GET", false],
    [["PURGE"], "PURGE", true],
  ])("of %j and a %s: %s", ([methods, method, expected]) => {
    expect(meets({ methods }, "/", method)).toBe(expected);
  });
});

describe("a match of a host", () => {
  it.for<[string, string, boolean]>([
    ["api.example.com", "api.example.com", true],
    ["api.example.com", "API.Example.COM", true],
    ["API.Example.com", "api.example.com", true],
    ["api.example.com", "api.example.com.", true],
    ["api.example.com", "api.example.com:8443", true],
    ["api.example.com", "api.example.com.:8443", true],
    ["api.example.com", "user:pass@api.example.com", true],
    ["api.example.com", "%61pi.example.com", true],
    ["api.example.com", "example.com", false],
    ["api.example.com", "xapi.example.com", false],
    ["api.example.com", "api.example.com.evil.example", false],
    ["api.example.com", "apixexample.com", false],
    ["*.example.com", "a.example.com", true],
    ["*.example.com", "a.b.example.com", true],
    ["*.example.com", "a.example.com.", true],
    ["*.Example.com", "A.EXAMPLE.com", true],
    ["*.example.com", "example.com", false],
    ["*.example.com", "aexample.com", false],
    ["*", "anything.example", true],
    ["192.0.2.1", "192.0.2.1", true],
    ["xn--bcher-kva.example", "bücher.example", true],
  ])("%s and a request to %s: %s", ([host, requested, expected]) => {
    expect(meets({ host }, `https://${requested}/`)).toBe(expected);
  });
});

describe("a match of headers", () => {
  const meetsWith = (header: Record<string, unknown>, headers: Record<string, string>): boolean =>
    matchingPolicies([policyOf({ match: { header } })], visitTo("/", { headers })).length === 1;

  it.for<[Record<string, unknown>, Record<string, string>, boolean]>([
    [{ "X-Plan": "free" }, { "x-plan": "free" }, true],
    [{ "x-plan": "free" }, { "X-PLAN": "free" }, true],
    [{ "X-Plan": "free" }, { "X-Plan": " free " }, true],
    [{ "X-Plan": "free" }, { "X-Plan": "Free" }, false],
    [{ "X-Plan": "free" }, { "X-Plan": "free2" }, false],
    [{ "X-Plan": "free" }, { "X-Plan": "free, pro" }, false],
    [{ "X-Plan": "free" }, {}, false],
    [{ "X-Plan": true }, { "X-Plan": "anything" }, true],
    [{ "X-Plan": true }, { "X-Plan": "" }, true],
    [{ "X-Plan": true }, {}, false],
    [{ "X-Plan": "free", "X-Beta": true }, { "X-Plan": "free", "X-Beta": "1" }, true],
    [{ "X-Plan": "free", "X-Beta": true }, { "X-Plan": "free" }, false],
    [{ "X-Plan": "free", "X-Beta": true }, { "X-Beta": "1" }, false],
    [{ "User-Agent": "a b/1 (c, d)" }, { "User-Agent": "a b/1 (c, d)" }, true],
  ])("%j and a request with %j: %s", ([header, headers, expected]) => {
    expect(meetsWith(header, headers)).toBe(expected);
  });
});

describe("a match of a path", () => {
  it.for(["/api", "/api/", "/api*", "/:a", "/{api}"])(
    "%s is met by every spelling of /api",
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
      ]) {
        expect([spelled, meets({ path }, spelled)]).toEqual([spelled, true]);
      }
    },
  );

  it.for(["/", "/ap", "/apis", "/API", "/x/api", "/api/x", "/api%2F", "/%2561pi", "/api/../x"])(
    "/api is not met by %s",
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
  ])("/api/* is met by %s", (requested) => {
    expect(meets({ path: "/api/*" }, requested)).toBe(true);
  });

  it.for(["/", "/apis", "/apis/1", "/x/api/1", "/api/../x", "/api%2Fusers"])(
    "/api/* is not met by %s",
    (requested) => {
      expect(meets({ path: "/api/*" }, requested)).toBe(false);
    },
  );

  it.for<[string, string, boolean]>([
    ["/", "/", true],
    ["/", "//", true],
    ["/", "/a", false],
    ["/*", "/", true],
    ["/*", "/a/b", true],
    ["/users/:id", "/users/7", true],
    ["/users/:id", "/users/7/", true],
    ["/users/:id", "/users/7/posts", false],
    ["/users/:id", "/users/", false],
    ["/users/:id/", "/users/7", true],
    ["/users/:id(\\d+)", "/users/7", true],
    ["/users/:id(\\d+)", "/users/me", false],
    ["/*.json", "/a/b.json", true],
    ["/*.json", "/a/b.json/", true],
    ["/*.json", "/a/b.xml", false],
    ["/a{/b}?", "/a", true],
    ["/a{/b}?", "/a/b/", true],
    ["/a b", "/a%20b", true],
    ["/ä", "/%c3%a4", true],
    ["/~me", "/%7Eme", true],
    ["/a%2Fb", "/a%2fb", true],
    ["/a%2Fb", "/a/b", false],
  ])("%s and a request for %s: %s", ([path, requested, expected]) => {
    expect(meets({ path }, requested)).toBe(expected);
  });

  it(
    "depends on no spelling",
    forAll(
      [spelling(["api", "users"]), spelling(["api"]), spelling(["apis", "users"])],
      (users, api, others) => {
        const of = (path: string): boolean[] =>
          [users, api, others].map((each) => meets({ path }, each));
        expect(of("/api/users")).toEqual([true, false, false]);
        expect(of("/api/users/")).toEqual([true, false, false]);
        expect(of("/api")).toEqual([false, true, false]);
        expect(of("/api/*")).toEqual([true, true, false]);
        expect(of("/:collection/users")).toEqual([true, false, true]);
      },
    ),
  );
});

describe("one spelling for a path", () => {
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
  ] as const)("of %s is %s", ([path, expected]) => {
    expect(pathOf(path)).toBe(expected);
  });

  it(
    "is the same for all that mean the same",
    forAll([segments.chain((each) => fc.tuple(spelling(each), spelling(each)))], ([one, other]) => {
      expect(pathOf(one)).toBe(pathOf(other));
    }),
  );

  it(
    "keeps what it means",
    forAll(
      [segments.chain((each) => fc.tuple(fc.constant(each), spelling(each)))],
      ([decoded, path]) => {
        expect(pathOf(path).split("/").map(decodeURIComponent)).toEqual(["", ...decoded]);
      },
    ),
  );

  it(
    "is its own, with single slashes and none at its end",
    forAll([segments.chain(spelling)], (path) => {
      const normalized = pathOf(path);
      expect(normalized).toMatch(/^(?:\/[^/]+)+$/);
      expect(normalizedPath(normalized)).toBe(normalized);
      expect(pathOf(normalized)).toBe(normalized);
    }),
  );
});
