import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { forAll } from "../for-all.ts";
import { parseAddress, isWithin, parseNetwork } from "../../src/policy/address.ts";
import { looksLikeAddress } from "../../src/policy/subject-pattern.ts";
import { resolveKey, resolveCallerKey } from "../../src/policy/resolve-key.ts";
import { policyOf, requestTo } from "./harness.ts";

type Fields = Record<string, unknown>;

/** Whether the policy blocks a request with these headers and claims. */
function isBlocked(fields: Fields, headers: Record<string, string>, claims: Fields = {}): boolean {
  return resolveKey(policyOf(fields), requestTo("/", { headers }), claims).kind === "blocked";
}

/** Whether a blocklist with one entry blocks an address. */
const isBlockedFrom = (entry: unknown, address: string, fields: Fields = {}): boolean =>
  isBlocked({ ...fields, deny: [entry] }, { "CF-Connecting-IP": address });

const octet = fc.integer({ min: 0, max: 255 });
const octets = fc.tuple(octet, octet, octet, octet);
const groups = fc
  .array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 })
  // The address is neither IPv4-mapped nor NAT64.
  .filter(([first = 0]) => first !== 0 && first !== 0x64);

const bitsOf = (numbers: readonly number[], width: number): string =>
  numbers.map((number) => number.toString(2).padStart(width, "0")).join("");

/** The numbers, with one of their bits inverted. */
const flipped = (numbers: readonly number[], width: number, bit: number): number[] =>
  numbers.map((number, index) =>
    index === Math.floor(bit / width) ? number ^ (1 << (width - 1 - (bit % width))) : number,
  );

const written = (numbers: readonly number[]): string =>
  numbers.length === 4 ? numbers.join(".") : numbers.map((number) => number.toString(16)).join(":");

function holds(block: string, address: string): boolean | null {
  const [network, visitor] = [parseNetwork(block), parseAddress(address)];
  return network === null || visitor === null ? null : isWithin(visitor, network);
}

describe("a network", () => {
  it(
    "an IPv4 network matches exactly the addresses with its prefix",
    forAll(
      [octets, octets, fc.integer({ min: 0, max: 32 }), fc.integer({ min: 0, max: 31 })],
      (first, other, bits, bit) => {
        for (const visitor of [first, other, flipped(first, 8, bit)]) {
          const isSame = bitsOf(first, 8).slice(0, bits) === bitsOf(visitor, 8).slice(0, bits);
          expect(holds(`${written(first)}/${bits}`, written(visitor))).toBe(isSame);
        }
      },
    ),
  );

  it(
    "an IPv6 network matches exactly the addresses with its prefix",
    forAll(
      [groups, groups, fc.integer({ min: 0, max: 128 }), fc.integer({ min: 16, max: 127 })],
      (first, other, bits, bit) => {
        for (const visitor of [first, other, flipped(first, 16, bit)]) {
          const isSame = bitsOf(first, 16).slice(0, bits) === bitsOf(visitor, 16).slice(0, bits);
          expect(holds(`${written(first)}/${bits}`, written(visitor))).toBe(isSame);
        }
      },
    ),
  );

  it(
    "a network never matches addresses of the other IP version",
    forAll([octets, groups, fc.nat(32), fc.nat(128)], (ipv4, ipv6, few, many) => {
      for (const bits of [0, few]) {
        expect(holds(`${written(ipv4)}/${bits}`, written(ipv6))).toBe(false);
      }
      for (const bits of [0, many]) {
        expect(holds(`${written(ipv6)}/${bits}`, written(ipv4))).toBe(false);
      }
    }),
  );

  it(
    "an IPv4 network matches mapped addresses",
    forAll([octets, octets, fc.nat(32)], (first, visitor, bits) => {
      const block = `${written(first)}/${bits}`;
      const plain = holds(block, written(visitor));
      for (const clothing of ["::ffff:", "::FFFF:", "64:ff9b::"]) {
        expect(holds(block, clothing + written(visitor))).toBe(plain);
      }
    }),
  );

  it.for<[string, string, boolean]>([
    ["203.0.113.7", "203.0.113.7", true],
    ["203.0.113.7", "203.0.113.8", false],
    ["203.0.113.7", "::ffff:203.0.113.7", true],
    ["203.0.113.7", "::ffff:cb00:7107", true],
    ["203.0.113.7", "64:ff9b::203.0.113.7", true],
    ["::ffff:203.0.113.7", "203.0.113.7", true],
    ["64:ff9b::cb00:7107", "203.0.113.7", true],
    ["203.0.113.7", "2001:db8::203.0.113.7", false],
    ["203.0.113.7", "::203.0.113.7", false],
    ["10.0.0.0/8", "10.255.255.255", true],
    ["10.0.0.0/8", "11.0.0.0", false],
    ["10.1.2.3/8", "10.9.9.9", true],
    ["203.0.113.7/31", "203.0.113.6", true],
    ["203.0.113.7/31", "203.0.113.8", false],
    ["0.0.0.0/0", "255.255.255.255", true],
    ["203.0.113.7/0", "1.2.3.4", true],
    ["0.0.0.0/0", "::1", false],
    ["0.0.0.0/0", "::ffff:1.2.3.4", true],
    ["::/0", "2001:db8::1", true],
    ["::/0", "::1", true],
    ["::/0", "1.2.3.4", false],
    ["::/0", "::ffff:1.2.3.4", false],
    ["::/0", "64:ff9b::1.2.3.4", false],
    ["64::/16", "64:ff9b::1.2.3.4", false],
    ["2001:db8::/32", "2001:DB8:FFFF::1", true],
    ["2001:db8::1/32", "2001:db8:2::", true],
    ["2001:db8::/33", "2001:db8:8000::", false],
    ["2001:db8::1", "2001:db8:0:0::2", false],
  ])("the network %s and an address %s match: %s", ([entry, address, expected]) => {
    for (const key of ["ip", "global", "header:x-api-key", "jwt:sub", ["ip", "path"]]) {
      expect(isBlockedFrom(entry, address, { key })).toBe(expected);
    }
  });

  it("a network does not match a request without an address", () => {
    for (const entry of ["0.0.0.0/0", "::/0", "*", ["0.0.0.0/0"]]) {
      expect(isBlocked({ deny: [entry] }, {})).toBe(false);
      expect(isBlockedFrom(entry, "unknown")).toBe(false);
    }
  });

  it("a network is compared with the exact address, not with the IPv6 network that is charged", () => {
    const fields = { ipv6Prefix: 48 };
    expect(isBlockedFrom("2001:db8::1", "2001:db8::1", fields)).toBe(true);
    expect(isBlockedFrom("2001:db8::1", "2001:db8::2", fields)).toBe(false);
    expect(isBlockedFrom("2001:db8::/64", "2001:db8:0:1::", fields)).toBe(false);
  });

  it("behind trusted proxies, a network is compared with the address that trustedProxies selects", () => {
    const fields = { trustedProxies: 2, key: "header:x-api-key", deny: ["203.0.113.0/24"] };
    const by = (...hops: string[]): boolean =>
      isBlocked(fields, { "CF-Connecting-IP": "203.0.113.9", "X-Forwarded-For": hops.join(", ") });
    expect(by("203.0.113.7", "192.0.2.1")).toBe(true);
    expect(by("198.51.100.1", "203.0.113.7")).toBe(false);
    expect(by("203.0.113.7", "198.51.100.1", "192.0.2.1")).toBe(false);
    expect(by("203.0.113.7")).toBe(false);
  });
});

describe("a star in a pattern", () => {
  const text = fc
    .array(fc.constantFrom("a", "b", "ab", "*", ".", "é", "\n"), { maxLength: 10 })
    .map((pieces) => pieces.join(""));

  /** A mistyped address such as `*.*.*.**` is a configuration problem and not a pattern. */
  const starred = text.filter((each) => each.includes("*") && !looksLikeAddress(each));

  /** The regular expression that matches the same texts as a pattern. */
  const naive = (pattern: string): RegExp =>
    new RegExp(
      `^${pattern
        .split("*")
        .map((piece) => piece.replaceAll(".", String.raw`\.`))
        .join("[^]*")}$`,
      "u",
    );

  it(
    "a star matches any text, and other characters match themselves",
    forAll(
      [starred, text.filter((sub) => sub !== "")],
      (pattern, sub) => {
        const expected = naive(pattern).test(sub);
        expect(isBlocked({ key: "jwt:sub", deny: [pattern] }, {}, { sub })).toBe(expected);
        const policy = policyOf({ overrides: [{ when: `jwt:sub=${pattern}`, limits: "9/s" }] });
        const ruling = resolveKey(policy, requestTo("/"), { sub });
        // The value of a condition is trimmed.
        const isMet = ruling.kind === "charge" && ruling.policy.limits[0]?.limit === 9;
        expect(isMet).toBe(naive(pattern.trim()).test(sub));
      },
      1_000,
    ),
  );

  it.for<[string, string, boolean]>([
    ["*", "anything", true],
    ["user-*", "user-", true],
    ["user-*", "user", false],
    ["user-*", "User-1", false],
    ["*-admin", "team-admin", true],
    ["*-admin", "team-admins", false],
    ["a*a", "a", false],
    ["a*a", "aa", true],
    ["a**a", "aa", true],
    ["ab*ba", "aba", false],
    ["a*b*c", "acb", false],
    ["a*b*c", "abcbc", true],
    ["a*bc*c", "abc", false],
    ["a.*", "abc", false],
    ["*$", "a", false],
  ])("the pattern %s and the claim %s match: %s", ([pattern, sub, expected]) => {
    expect(isBlocked({ key: "jwt:sub", deny: [pattern] }, {}, { sub })).toBe(expected);
  });

  const octetOrStar = fc.option(octet, { nil: "*" as const });
  it(
    "a star in an address matches one number of an IPv4 address and no IPv6 address",
    forAll(
      [fc.tuple(octetOrStar, octetOrStar, octetOrStar, fc.constant("*" as const)), octets, groups],
      (pattern, other, ipv6) => {
        const like = pattern.map((each, index) => (each === "*" ? (other[index] ?? 0) : each));
        const isLike = pattern.every((each, index) => each === "*" || each === other[index]);
        const entry = pattern.join(".");
        expect(isBlockedFrom(entry, written(like))).toBe(true);
        expect(isBlockedFrom(entry, `::ffff:${written(like)}`)).toBe(true);
        expect(isBlockedFrom(entry, written(other))).toBe(isLike);
        expect(isBlockedFrom(entry, written(ipv6))).toBe(false);
      },
    ),
  );

  it("an entry that is a single star matches every address", () => {
    for (const address of ["203.0.113.7", "2001:db8::1", "::ffff:203.0.113.7"]) {
      expect(isBlockedFrom("*", address)).toBe(true);
    }
  });

  it.for(["country", "continent", "asn", "colo"])("a star matches every known value of %s", (key) => {
    const policy = policyOf({ key, deny: ["1*"] });
    const of = (value: unknown): string => resolveKey(policy, requestTo("/", { cf: { [key]: value } }), {}).kind;
    expect(new Set(["1", "13", 13_335, "1a"].map(of))).toEqual(new Set(["blocked"]));
    expect(new Set(["21", "", null, undefined].map(of))).toEqual(new Set(["charge"]));
  });
});

describe("a key in allow or deny", () => {
  it.for<[string, Record<string, string>, boolean]>([
    ["partner-42", { "X-Api-Key": "partner-42" }, true],
    ["partner-42", { "X-Api-Key": " partner-42 " }, true],
    ["partner-42", { "X-Api-Key": "Partner-42" }, false],
    ["partner-42", { "X-Api-Key": "partner-421" }, false],
    ["partner-42", { "X-Api-Key": "x, partner-42" }, true],
    ["partner-42", { "X-Api-Key": "x,partner-42x" }, false],
    ["partner-42", { "X-Api-Key": "" }, false],
    ["partner-42", {}, false],
  ])("a key matches its exact value only: %s and %j: %s", ([entry, headers, expected]) => {
    expect(isBlocked({ key: "header:x-api-key", deny: [entry] }, headers)).toBe(expected);
  });

  it("a client cannot evade deny by sending a second value", () => {
    const fields = { key: "query:k", deny: ["bad"] };
    const kindOf = (target: string): string => resolveKey(policyOf(fields), requestTo(target), {}).kind;
    const targets = ["/?k=bad", "/?k=bad&k=x", "/?k=x&k=b%61d", "/?k=x&k=y"];
    expect(targets.map(kindOf)).toEqual(["blocked", "blocked", "blocked", "charge"]);
    const cookies = { key: "cookie:sid", deny: ["bad"] };
    expect(isBlocked(cookies, { Cookie: "sid=x; sid=bad" })).toBe(true);
    const both = { key: ["header:a", "query:k"], deny: [["1", "2"]] };
    expect(isBlocked(both, { A: "0, 1" })).toBe(false);
  });

  it("an entry with a comma matches the whole value of a header", () => {
    const fields = { key: "header:user-agent", deny: ["BadBot/1.0 (a, b)"] };
    expect(isBlocked(fields, { "User-Agent": "BadBot/1.0 (a, b)" })).toBe(true);
    expect(isBlocked(fields, { "User-Agent": "BadBot/1.0 (a, c)" })).toBe(false);
  });

  it("an entry for asn matches with and without the prefix AS", () => {
    for (const asn of ["13335", "AS13335", "as13335"]) {
      const policy = policyOf({ key: "asn", deny: [asn] });
      expect(resolveKey(policy, requestTo("/", { cf: { asn: 13_335 } }), {}).kind).toBe("blocked");
    }
  });

  it("an allow entry matches only a request with a single value of the key part", () => {
    const policy = policyOf({ key: "query:k", allow: ["good"] });
    const kindOf = (target: string): string => resolveKey(policy, requestTo(target), {}).kind;
    expect(["/?k=good", "/?k=good&k=bad", "/?k=bad"].map(kindOf)).toEqual(["exempt", "charge", "charge"]);
  });

  it("entries for country, continent and colo are case-insensitive", () => {
    const policy = policyOf({ key: "country", deny: ["de"] });
    const visit = requestTo("/", { cf: { country: "DE" } });
    expect(resolveKey(policy, visit, {}).kind).toBe("blocked");
  });

  it(`the entry "203.0.113.7" in deny blocks the address, and ["203.0.113.7"] blocks the header value`, () => {
    const visitor = { "CF-Connecting-IP": "203.0.113.7" };
    const named = { "X-Api-Key": "203.0.113.7" };
    const key = "header:x-api-key";
    expect(isBlocked({ key, deny: ["203.0.113.7"] }, visitor)).toBe(true);
    expect(isBlocked({ key, deny: ["203.0.113.7"] }, named)).toBe(false);
    expect(isBlocked({ key, deny: [["203.0.113.7"]] }, visitor)).toBe(false);
    expect(isBlocked({ key, deny: [["203.0.113.7"]] }, named)).toBe(true);
    expect(isBlocked({ key, deny: [["203.0.113.0/24"]] }, named)).toBe(false);
  });

  it("an entry for several parts matches only if all of them match", () => {
    const fields = { key: ["ip", "jwt:sub", "path"], deny: [["10.0.0.0/8", "u-*", "/"]] };
    const from = (address: string): Record<string, string> => ({ "CF-Connecting-IP": address });
    expect(isBlocked(fields, from("10.1.1.1"), { sub: "u-1" })).toBe(true);
    expect(isBlocked(fields, from("11.1.1.1"), { sub: "u-1" })).toBe(false);
    expect(isBlocked(fields, from("10.1.1.1"), { sub: "v-1" })).toBe(false);
    expect(isBlocked(fields, from("10.1.1.1"))).toBe(false);
    expect(isBlocked(fields, {}, { sub: "u-1" })).toBe(false);
    const elsewhere = requestTo("/x", { headers: from("10.1.1.1") });
    expect(resolveKey(policyOf(fields), elsewhere, { sub: "u-1" }).kind).toBe("charge");
  });

  it("an entry ignores the text for the part global", () => {
    const fields = { key: ["global", "header:a"], deny: [["*", "x"]] };
    expect(isBlocked(fields, { a: "x" })).toBe(true);
    expect(isBlocked(fields, { a: "y" })).toBe(false);
    expect(isBlocked(fields, {})).toBe(false);
  });

  it("entries for method and host match in any spelling of a request", () => {
    const fields = { key: ["host", "method"], deny: [["API.example.com.", "patch"]] };
    const policy = policyOf(fields);
    const visit = requestTo("https://api.EXAMPLE.com./", { method: "PaTcH" });
    expect(resolveKey(policy, visit, {}).kind).toBe("blocked");
    expect(resolveCallerKey(policy, ["Api.Example.Com", "PATCH"])?.kind).toBe("blocked");
  });
});

describe("a path in allow or deny", () => {
  const policy = policyOf({ key: "path", deny: ["/admin/", "//api/%75sers", "/b c/é", "/d%2fe"] });

  it.for([
    "/admin",
    "/admin/",
    "//admin",
    "/%61dmin",
    "/api/users",
    "/b%20c/%c3%a9",
    "/d%2Fe/",
    "/d/e",
    "/x/..%2fadmin",
  ])("a path entry matches every spelling of the path: %s", (path) => {
    expect(resolveKey(policy, requestTo(path), {}).kind).toBe("blocked");
  });

  it.for(["/admin", "/admin/", "/api/users", "//api/%75sers", "/b c/é", "/d%2fe", "/d/e"])(
    "a path entry matches the path that a caller of /check names: %s",
    (path) => {
      expect(resolveCallerKey(policy, [path])?.kind).toBe("blocked");
    },
  );

  it.for(["/", "/ADMIN", "/admin/x", "/api", "/b/c"])("a path entry does not match %s", (path) => {
    expect(resolveKey(policy, requestTo(path), {}).kind).toBe("charge");
    expect(resolveCallerKey(policy, [path])?.kind).toBe("charge");
  });
});

describe("an entry for a location, a host, a path or a method", () => {
  const request = () => ({
    ...requestTo("https://xn--bcher-kva.example:8443/A//b", {
      method: "PUT",
      cf: { country: "DE", continent: "EU", asn: 13_335, colo: "FRA" },
    }),
  });

  it.for<[string | string[], unknown[]]>([
    ["country", ["DE", "de", "D*", "d*"]],
    ["continent", ["eu", ["EU"]]],
    ["asn", ["13335", "AS13335", "as013335", "133*", "AS133*"]],
    ["colo", ["FRA", "fra", "f*"]],
    ["method", ["put"]],
    ["host", ["xn--bcher-kva.example", "BÜCHER.example.", "bücher.example:8443"]],
    ["path", ["/A/b", "A/%62/"]],
    [["asn", "country"], [["AS13335", "de"]]],
  ])("for the key %j, each of the entries %j matches", ([key, entries]) => {
    for (const entry of entries) {
      const { kind } = resolveKey(policyOf({ key, deny: [entry] }), request(), {});
      expect([entry, kind]).toEqual([entry, "blocked"]);
    }
  });
});
