import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { forAll } from "../for-all.ts";
import type { KeyValue } from "../../src/policy/key.ts";
import { callerKeyValues } from "../../src/policy/key-text.ts";
import { resolveKey } from "../../src/policy/resolve-key.ts";
import { policyOf, requestTo } from "./harness.ts";

/** The key of a request for a URL with these headers. */
function requestKey(key: string | string[], headers: Record<string, string> = {}, target = "/"): readonly KeyValue[] {
  const made = resolveKey(policyOf({ key }), requestTo(target, { headers }), {});
  return made.kind === "charge" ? made.values : [];
}

const callerKey = (key: string | string[], ...texts: string[]): KeyValue[] | null =>
  callerKeyValues(policyOf({ key }), texts);

const visitor = { "CF-Connecting-IP": "203.0.113.7" };

describe("the key of a request", () => {
  it("a request's key has a value for each part, in order", () => {
    const headers = { ...visitor, "X-Tenant": "acme" };
    expect(requestKey("path, header:x-tenant, ip, global", headers, "/a//b/?q=1")).toEqual([
      "/a/b",
      "acme",
      "203.0.113.7",
      null,
    ]);
  });

  it("the key part ip comes from CF-Connecting-IP, never from X-Forwarded-For", () => {
    const headers = {
      "X-Forwarded-For": "1.2.3.4",
      "X-Real-IP": "1.2.3.4",
      Forwarded: "for=1.2.3.4",
    };
    expect(requestKey("ip", headers)).toEqual([null]);
    expect(requestKey("ip", { ...headers, ...visitor })).toEqual(["203.0.113.7"]);
  });

  it("the key part ip groups IPv6 addresses by network", () => {
    const address = (ip: string): readonly KeyValue[] => requestKey("ip", { "CF-Connecting-IP": ip });
    expect(address("2001:db8::1")).toEqual(address("2001:db8:0:0:5:6:7:8"));
    expect(address("2001:db8::1")).not.toEqual(address("2001:db8:0:1::1"));
    expect(address("::ffff:203.0.113.7")).toEqual(["203.0.113.7"]);
  });

  it("a key part that is missing, empty or unreadable has the value null", () => {
    expect(requestKey("ip, header:x-tenant")).toEqual([null, null]);
    expect(requestKey("header:x-tenant", { "X-Tenant": "" })).toEqual([null]);
    expect(requestKey("header:x-tenant", { "X-Tenant": "  " })).toEqual([null]);
    expect(requestKey("ip", { "CF-Connecting-IP": "1.2.3.4, 5.6.7.8" })).toEqual([null]);
  });

  it("header names are case-insensitive in keys, and header values are not", () => {
    expect(requestKey("header:X-TENANT", { "x-tenant": "A;b C" })).toEqual(["A;b C"]);
  });
});

describe("a part of a key", () => {
  const cookie = (header: string): readonly KeyValue[] => requestKey("cookie:sid", { Cookie: header });
  const query = (text: string): readonly KeyValue[] => requestKey("query:k", {}, `/?${text}`);

  it("a header with a comma is a missing key part, because it may consist of several headers", () => {
    expect(requestKey("header:a", { a: "x, y" })).toEqual([null]);
    expect(requestKey("header:a", { a: "x,x" })).toEqual([null]);
    expect(requestKey("header:a", { a: "," })).toEqual([null]);
    expect(requestKey("header:a", { a: "x; y=1" })).toEqual(["x; y=1"]);
  });

  it.for<[string, KeyValue]>([
    ["sid=x", "x"],
    ["a=1; sid=x; b=2", "x"],
    ["a=1;sid=x;b=2", "x"],
    [" sid = x ", "x"],
    ['sid="x"', "x"],
    ["sid=%78", "x"],
    ["sid=a=b", "a=b"],
    ["sid=%zz", "%zz"],
    ["sid=x; sid=x", "x"],
    ["sid=x; SID=y; xsid=z", "x"],
    ["sid=x; sid=y", null],
    ["sid=x; sid=", null],
    ["sid=x; sid", null],
    ['sid=x; sid="y', null],
    ["sid=x, sid=y", null],
    ["a=1, sid=x", null],
    ["sid=", null],
    ["sid", null],
    ["", null],
    ["a=sid", null],
  ])("the key part cookie:sid of %j is %j", ([header, expected]) => {
    expect(cookie(header)).toEqual([expected]);
  });

  it.for<[string, KeyValue]>([
    ["k=x", "x"],
    ["a=1&k=x", "x"],
    ["k=%78", "x"],
    ["%6b=x", "x"],
    ["k=a+b", "a b"],
    ["k=x,y", "x,y"],
    ["k=x&k=x", "x"],
    ["k=x&k=y", null],
    ["k=x&k=", null],
    ["k=", null],
    ["k", null],
    ["K=x", null],
    ["k=x&K=x", "x"],
    ["k=x&K=y", null],
    ["K=y&k=x", null],
    ["k=x&k[]=y", null],
    ["k[0]=y&k=x", null],
    ["k=x&%5Bk%5D=y", null],
    ["k=x;k=y", null],
    ["k=x;y", null],
    ["k=x%3By", "x;y"],
    ["k=x&a=1;k=y", null],
    ["k=x&%256B=y", "x"],
    ["k=x&kk=y&a[k]=z", "x"],
    ["", null],
  ])("the key part query:k of %j is %j", ([text, expected]) => {
    expect(query(text)).toEqual([expected]);
  });

  const partsOfVisit = (key: string[], options: Parameters<typeof requestTo>[1], claims = {}): unknown =>
    resolveKey(policyOf({ key }), requestTo("https://API.Example.com.:8443/A//b", options), claims);

  it("the key parts method, host and path are in canonical form", () => {
    expect(partsOfVisit(["method", "host", "path"], { method: "patch" })).toMatchObject({
      values: ["PATCH", "api.example.com", "/A/b"],
    });
  });

  it("the key parts country, continent, asn and colo come from request.cf and may be missing", () => {
    const key = ["country", "continent", "asn", "colo"];
    const cf = { country: "DE", continent: "EU", asn: 3320, colo: "FRA" };
    expect(partsOfVisit(key, { cf })).toMatchObject({ values: ["DE", "EU", "3320", "FRA"] });
    expect(partsOfVisit(key, {})).toMatchObject({ values: [null, null, null, null] });
    expect(partsOfVisit(key, { cf: { country: null, asn: "" } })).toMatchObject({
      values: [null, null, null, null],
    });
  });

  it.for<[unknown, KeyValue]>([
    ["u1", "u1"],
    [42, "42"],
    [0, "0"],
    [true, "true"],
    [false, "false"],
    ["", null],
    [null, null],
    [["u1"], null],
    [{ id: "u1" }, null],
    [undefined, null],
  ])("the key part of a claim %j is %j", ([sub, expected]) => {
    expect(partsOfVisit(["jwt:sub"], {}, { sub })).toMatchObject({ values: [expected] });
  });

  it("a claim must be a property of its own: properties that objects inherit are not claims", () => {
    expect(partsOfVisit(["jwt:constructor", "jwt:__proto__"], {})).toMatchObject({
      values: [null, null],
    });
  });
});

describe("a request without a part of the key", () => {
  const made = (fields: Record<string, unknown>, headers = {}): unknown =>
    resolveKey(policyOf(fields), requestTo("/p", { headers }), {});
  const key = ["header:a", "path", "jwt:sub"];

  it("with onMissingKey = shared, requests without a part share its missing value", () => {
    expect(made({ key })).toMatchObject({ kind: "charge", values: [null, "/p", null] });
    expect(made({ key, onMissingKey: "shared" }, { a: "x" })).toMatchObject({
      values: ["x", "/p", null],
    });
  });

  it("with onMissingKey = ip, a request without a part is charged to its address, like a key of ip", () => {
    const fields = { key, onMissingKey: "ip", ipv6Prefix: 48 };
    expect(made(fields, { "CF-Connecting-IP": "2001:db8:1:2::3" })).toMatchObject({
      kind: "charge",
      parts: [{ kind: "ip" }],
      values: ["2001:db8:1::/48"],
    });
    expect(made(fields)).toMatchObject({ parts: [{ kind: "ip" }], values: [null] });
  });

  it("with onMissingKey = deny or skip, a request without a part is denied or exempt", () => {
    expect(made({ key, onMissingKey: "deny" }, { a: "x" })).toMatchObject({
      kind: "missing-key",
      missing: ["jwt:sub"],
    });
    expect(made({ key, onMissingKey: "skip" }, { a: "x" })).toMatchObject({ kind: "exempt" });
  });

  it("the part global is never missing", () => {
    for (const onMissingKey of ["ip", "deny", "skip"]) {
      expect(made({ key: "global", onMissingKey })).toMatchObject({
        kind: "charge",
        values: [null],
      });
    }
  });
});

describe("the key that a caller names", () => {
  it("a key that a caller of /check names has the same canonical form as a request's key", () => {
    expect(callerKey("host, method", "API.Example.com.", "patch")).toEqual(["api.example.com", "PATCH"]);
    const location = ["country", "continent", "colo", "asn"];
    expect(callerKey(location, "de", "eu", "fra", "as013335")).toEqual(["DE", "EU", "FRA", "13335"]);
    expect(callerKey("jwt:sub, query:a, header:b", " U ", "x,y", "é")).toEqual([" U ", "x,y", "é"]);
    const policy = policyOf({ key: "ip", ipv6Prefix: 48, trustedProxies: 2 });
    expect(callerKeyValues(policy, ["2001:DB8:1:2::3"])).toEqual(["2001:db8:1::/48"]);
  });

  it("a key that a caller of /check names needs one text for each part", () => {
    expect(callerKey("ip, path", "203.0.113.7", "/a")).toEqual(["203.0.113.7", "/a"]);
    expect(callerKey("ip, path", "203.0.113.7")).toBeNull();
    expect(callerKey("ip, path", "203.0.113.7", "/a", "b")).toBeNull();
    expect(callerKey("path")).toBeNull();
    expect(callerKeyValues(policyOf({ key: "ip" }), undefined)).toBeNull();
  });

  it("a text that a caller of /check names is read as an address only for the part ip", () => {
    expect(callerKey("ip", "2001:DB8::5")).toEqual(["2001:db8:0:0::/64"]);
    expect(callerKey("ip", "somebody")).toBeNull();
    expect(callerKey("ip, header:a", "", "x")).toBeNull();
    expect(callerKey("header:a", " 2001:DB8::5 ")).toEqual([" 2001:DB8::5 "]);
    expect(callerKey("header:a, path", "127.1", "any/%61")).toEqual(["127.1", "/any/a"]);
  });

  it("a caller of /check may omit the key global, or name any text for it", () => {
    expect(callerKeyValues(policyOf({ key: "global" }), undefined)).toEqual([null]);
    expect(callerKey("global", "anything")).toEqual([null]);
    expect(callerKey("global", "a", "b")).toBeNull();
    expect(callerKey("ip, global", "203.0.113.7", "anything")).toEqual(["203.0.113.7", null]);
    expect(callerKey("ip, global", "203.0.113.7")).toBeNull();
  });

  const part = fc.constantFrom("ip", "path", "global", "header:a", "header:b");
  // A header with a comma counts as a missing part.
  const text = fc.stringMatching(/^[\x21-\x7e]([\x20-\x7e]{0,8}[\x21-\x7e])?$/).filter((each) => !each.includes(","));
  const address = fc.oneof(
    fc.ipV4(),
    fc.ipV6().filter((each) => !each.includes(".")),
  );

  it(
    "a caller's key equals the key of a request with the same values",
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
          path,
          "header:a": a,
          "header:b": b,
        };
        const texts = key.map((each) => Object.entries(named).find(([name]) => name === each)?.[1]);
        expect(callerKey(key, ...texts.map((each) => each ?? "whatever"))).toEqual(request);
        expect(request.map((value) => value === null)).toEqual(key.map((each) => each === "global"));
      },
    ),
  );
});
