import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { forAll } from "../for-all.ts";
import { keyOfCaller, keyOfRequest, type KeyValue } from "../../src/policies/key.ts";
import { partsOf } from "./harness.ts";

/** The key of a request for a URL with these headers. */
function requestKey(
  key: string | string[],
  headers: Record<string, string> = {},
  target = "/",
): KeyValue[] {
  const url = new URL(`https://h.example${target}`);
  return keyOfRequest(partsOf(key), new Request(url, { headers }), url);
}

const callerKey = (key: string | string[], ...texts: string[]): KeyValue[] | null =>
  keyOfCaller(partsOf(key), texts);

const visitor = { "CF-Connecting-IP": "203.0.113.7" };

describe("the key of a request", () => {
  it("has a value for each part, in their order", () => {
    const headers = { ...visitor, "X-Tenant": "acme" };
    expect(requestKey("path, header:x-tenant, ip, global", headers, "/a//b/?q=1")).toEqual([
      "/a/b",
      "acme",
      "203.0.113.7",
      null,
    ]);
  });

  it("takes the address from what Cloudflare saw, never from what a client says", () => {
    const headers = {
      "X-Forwarded-For": "1.2.3.4",
      "X-Real-IP": "1.2.3.4",
      Forwarded: "for=1.2.3.4",
    };
    expect(requestKey("ip", headers)).toEqual([null]);
    expect(requestKey("ip", { ...headers, ...visitor })).toEqual(["203.0.113.7"]);
  });

  it("groups addresses by their network", () => {
    const address = (ip: string): KeyValue[] => requestKey("ip", { "CF-Connecting-IP": ip });
    expect(address("2001:db8::1")).toEqual(address("2001:db8:0:0:5:6:7:8"));
    expect(address("2001:db8::1")).not.toEqual(address("2001:db8:0:1::1"));
    expect(address("::ffff:203.0.113.7")).toEqual(["203.0.113.7"]);
  });

  it("has no value for a part that is missing, empty or unreadable", () => {
    expect(requestKey("ip, header:x-tenant")).toEqual([null, null]);
    expect(requestKey("header:x-tenant", { "X-Tenant": "" })).toEqual([null]);
    expect(requestKey("header:x-tenant", { "X-Tenant": "  " })).toEqual([null]);
    expect(requestKey("ip", { "CF-Connecting-IP": "1.2.3.4, 5.6.7.8" })).toEqual([null]);
  });

  it("reads a header by its name in any case, and its value as it is", () => {
    expect(requestKey("header:X-TENANT", { "x-tenant": "A;b, C" })).toEqual(["A;b, C"]);
  });

  it("is the same path in every spelling, and another in another case", () => {
    const paths = ["/api/users", "//api/users/", "/%61pi/./users?x", "/z/../api//users"];
    expect(new Set(paths.map((path) => requestKey("path", {}, path)[0]))).toEqual(
      new Set(["/api/users"]),
    );
    expect(requestKey("path", {}, "/API/users")).toEqual(["/API/users"]);
  });
});

describe("the key that a caller names", () => {
  it("has one text for each part", () => {
    expect(callerKey("ip, path", "203.0.113.7", "/a")).toEqual(["203.0.113.7", "/a"]);
    expect(callerKey("ip, path", "203.0.113.7")).toBeNull();
    expect(callerKey("ip, path", "203.0.113.7", "/a", "b")).toBeNull();
    expect(callerKey("path")).toBeNull();
    expect(keyOfCaller(partsOf("ip"), undefined)).toBeNull();
  });

  it("is read as an address where the part is one, and as it is elsewhere", () => {
    expect(callerKey("ip", "2001:DB8::5")).toEqual(["2001:db8:0:0::/64"]);
    expect(callerKey("ip", "somebody")).toBeNull();
    expect(callerKey("ip, header:a", "", "x")).toBeNull();
    expect(callerKey("header:a", " 2001:DB8::5 ")).toEqual([" 2001:DB8::5 "]);
    expect(callerKey("header:a, path", "127.1", "any/%61")).toEqual(["127.1", "any/%61"]);
  });

  it("may be left out, or be anything, for the part that all share", () => {
    expect(keyOfCaller(partsOf("global"), undefined)).toEqual([null]);
    expect(callerKey("global", "anything")).toEqual([null]);
    expect(callerKey("global", "a", "b")).toBeNull();
    expect(callerKey("ip, global", "203.0.113.7", "anything")).toEqual(["203.0.113.7", null]);
    expect(callerKey("ip, global", "203.0.113.7")).toBeNull();
  });

  const part = fc.constantFrom("ip", "path", "global", "header:a", "header:b");
  const text = fc.stringMatching(/^[\x21-\x7e]([\x20-\x7e]{0,8}[\x21-\x7e])?$/);
  const address = fc.oneof(
    fc.ipV4(),
    fc.ipV6().filter((each) => !each.includes(".")),
  );

  it(
    "is that of the request with the same values",
    forAll(
      [
        fc.uniqueArray(part, { minLength: 1 }),
        address,
        fc.webPath().filter((path) => path.startsWith("/")),
        text,
        text,
      ],
      (key, ip, path, a, b) => {
        const request = requestKey(key, { "CF-Connecting-IP": ip, a, b }, path);
        const named = {
          ip,
          path: requestKey("path", {}, path)[0] ?? "",
          "header:a": a,
          "header:b": b,
        };
        const texts = key.map((each) => Object.entries(named).find(([name]) => name === each)?.[1]);
        expect(callerKey(key, ...texts.map((each) => each ?? "whatever"))).toEqual(request);
        expect(request.map((value) => value === null)).toEqual(
          key.map((each) => each === "global"),
        );
      },
    ),
  );
});
