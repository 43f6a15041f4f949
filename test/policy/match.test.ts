import { describe, expect, it } from "vitest";
import { parseConfig } from "../../src/policy/vars/config.ts";
import { matchingPolicies } from "../../src/policy/compiled-policy.ts";
import { meets, policyOf, requestTo } from "./harness.ts";

describe("the policies that match a request", () => {
  it("all matching policies apply, in the order of the configuration", () => {
    const { policies } = parseConfig({
      KEY_SECRET: "s",
      POLICIES: [
        { name: "everything", limits: "4/s" },
        { name: "writes", limits: "3/s", match: { methods: ["POST"] } },
        { name: "here", limits: "2/s", match: { path: "/here/*" } },
        { name: "host", limits: "1/s", match: { host: "h.example", methods: ["GET", "PUT"] } },
      ],
    });
    const matched = (method: string, url: string): string[] =>
      matchingPolicies(policies, requestTo(url, { method })).map(({ name }) => name);
    expect(matched("POST", "https://h.example/here/1")).toEqual(["everything", "writes", "here"]);
    expect(matched("GET", "https://h.example/here/1")).toEqual(["everything", "here", "host"]);
    expect(matched("PUT", "https://h.example/there")).toEqual(["everything", "host"]);
    expect(matched("DELETE", "https://other.example/")).toEqual(["everything"]);
  });

  it("a policy matches when method, host and path all match", () => {
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
  ])("the methods %j match the method %s: %s", ([methods, method, expected]) => {
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
    ["a*c*e.example", "abcde.example", true],
    ["a*c*e.example", "abced.example", false],
    ["a*a.example", "a.example", false],
    ["192.0.2.1", "192.0.2.1", true],
    ["xn--bcher-kva.example", "bücher.example", true],
  ])("the host pattern %s matches a request to %s: %s", ([host, requested, expected]) => {
    expect(meets({ host }, `https://${requested}/`)).toBe(expected);
  });
});

describe("a match of headers", () => {
  const meetsWith = (header: Record<string, unknown>, headers: Record<string, string>): boolean =>
    matchingPolicies([policyOf({ match: { header } })], requestTo("/", { headers })).length === 1;

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
  ])("the header condition %j matches a request with %j: %s", ([header, headers, expected]) => {
    expect(meetsWith(header, headers)).toBe(expected);
  });
});
