import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { forAll } from "../for-all.ts";
import { compiledPolicy } from "../../src/policy/compiled-policy.ts";
import { resolveKey, resolveCallerKey } from "../../src/policy/resolve-key.ts";
import { policyOf, requestTo } from "./harness.ts";

type Fields = Record<string, unknown>;
type RequestOptions = Parameters<typeof requestTo>[1];

const address = "203.0.113.7";
const visitor = { "CF-Connecting-IP": address };
const partner = { "X-Api-Key": "partner-42" };
const key = "header:x-api-key";

const resolved = (fields: Fields, request: RequestOptions = { headers: visitor }, claims: Fields = {}) =>
  resolveKey(policyOf(fields), requestTo("/", request), claims);

/**
 * For a charged request, the number of its limit; for any other request, the kind of its resolution, such as `blocked`.
 */
function limitOf(fields: Fields, request?: RequestOptions, claims?: Fields): number | string | undefined {
  const resolution = resolved(fields, request, claims);
  return resolution.kind === "charge" ? resolution.policy.limits[0]?.limit : resolution.kind;
}

/** Like `limitOf`, for a key that a caller of `/check` names. */
function limitOfCaller(fields: Fields, ...texts: string[]): number | string | undefined {
  const resolution = resolveCallerKey(policyOf(fields), texts);
  return resolution?.kind === "charge" ? resolution.policy.limits[0]?.limit : resolution?.kind;
}

describe("a client in allow or deny", () => {
  it("a client in allow is exempt, one in deny is blocked, and others are charged", () => {
    expect(limitOf({ allow: [address] })).toBe("exempt");
    expect(limitOf({ deny: [address] })).toBe("blocked");
    expect(limitOf({ allow: ["203.0.113.8"], deny: ["203.0.113.9"] })).toBe(1);
    expect(limitOf({ allow: [], deny: [] })).toBe(1);
  });

  it("a client in both lists is blocked", () => {
    const headers = { ...visitor, ...partner };
    expect(limitOf({ allow: [address], deny: [address] })).toBe("blocked");
    expect(limitOf({ allow: [address], deny: ["0.0.0.0/0"] })).toBe("blocked");
    expect(limitOf({ key, allow: [address], deny: ["partner-42"] }, { headers })).toBe("blocked");
    expect(limitOf({ key, allow: ["partner-42"], deny: [address] }, { headers })).toBe("blocked");
  });

  it("a list matches if any of its entries does, at any position", () => {
    const others = ["192.0.2.1", "198.51.100.0/24", "2001:db8::/32"];
    for (const place of [0, 1, 2, 3]) {
      const deny = others.toSpliced(place, 0, address);
      expect(limitOf({ deny })).toBe("blocked");
    }
  });

  it("an address in a list matches under any kind of key", () => {
    for (const each of ["global", key, "path", "jwt:sub", ["country", "method"]]) {
      expect(limitOf({ key: each, deny: ["203.0.113.0/24"] })).toBe("blocked");
      expect(limitOf({ key: each, allow: ["203.0.113.0/24"] })).toBe("exempt");
    }
  });

  it("the lists apply before onMissingKey", () => {
    for (const onMissingKey of ["shared", "ip", "deny", "skip"]) {
      expect(limitOf({ key, onMissingKey, deny: [address] })).toBe("blocked");
      expect(limitOf({ key, onMissingKey, allow: [address] })).toBe("exempt");
    }
  });

  it("the lists apply before overrides", () => {
    const overrides = [{ key: address, limits: "9/s" }];
    expect(limitOf({ overrides, deny: [address] })).toBe("blocked");
    expect(limitOf({ overrides, allow: [address] })).toBe("exempt");
    expect(limitOf({ overrides })).toBe(9);
  });

  it("a client in neither list is charged to its key", () => {
    const headers = { ...visitor, ...partner };
    const lists = {
      deny: ["198.51.100.1"],
      allow: ["x"],
      overrides: [{ key: "y", limits: "9/s" }],
    };
    expect(resolved({ key, ...lists }, { headers })).toMatchObject({
      kind: "charge",
      parts: [{ kind: "header", name: "x-api-key" }],
      values: ["partner-42"],
    });
  });
});

describe("the first matching override", () => {
  const overrides = [
    { key: "198.51.100.0/24", limits: "2/s" },
    { when: "jwt:plan=pro", limits: "3/s" },
    { key: "partner-42", limits: "4/s" },
    { key: "203.0.113.0/24", limits: "5/s" },
    { key: address, limits: "6/s" },
  ];

  it("only the first matching override applies", () => {
    const fields = { key, overrides };
    const headers = { ...visitor, ...partner };
    expect(limitOf(fields, { headers }, { plan: "pro" })).toBe(3);
    expect(limitOf(fields, { headers })).toBe(4);
    expect(limitOf(fields)).toBe(5);
    expect(limitOf(fields, { headers: { "CF-Connecting-IP": "192.0.2.1" } })).toBe(1);
    expect(limitOf({ key, overrides: overrides.toReversed() })).toBe(6);
  });

  it("an override changes only the limits", () => {
    const fields = { cost: 3, ban: "10m", onDeny: { status: 503 }, timeout: "2s" };
    const plain = policyOf(fields);
    const policy = policyOf({ ...fields, overrides: [{ key: address, limits: "9/s" }] });
    const resolution = resolveKey(policy, requestTo("/", { headers: visitor }), {});
    expect(resolution).toMatchObject({ parts: plain.key, values: [address] });
    expect(resolution.kind === "charge" && { ...resolution.policy, limits: 0, lists: 0, written: 0 }).toEqual({
      ...plain,
      limits: 0,
      lists: 0,
      written: 0,
    });
  });

  it("an override applies to a request without a key part, and does not change the key that is charged", () => {
    const fields = { key, overrides: [{ key: address, limits: "9/s" }] };
    expect(limitOf({ ...fields, onMissingKey: "shared" })).toBe(9);
    expect(limitOf({ ...fields, onMissingKey: "ip" })).toBe(9);
    expect(limitOf({ ...fields, onMissingKey: "deny" })).toBe("missing-key");
    expect(limitOf({ ...fields, onMissingKey: "skip" })).toBe("exempt");
  });

  it(
    "the applied override is the first that a naive search finds",
    forAll(
      [
        fc.array(fc.integer({ min: 0, max: 32 }), { minLength: 1, maxLength: 6 }),
        fc.oneof(
          fc.ipV4(),
          fc.nat(255).map((octet) => `203.0.113.${octet}`),
          fc.nat(255).map((octet) => `203.0.${octet}.7`),
        ),
      ],
      (widths, from) => {
        const blocks = widths.map((bits, index) => ({
          key: `${address}/${bits}`,
          limits: `${index + 2}/s`,
        }));
        const bitsOf = (text: string): string =>
          text
            .split(".")
            .map((octet) => Number(octet).toString(2).padStart(8, "0"))
            .join("");
        const first = widths.findIndex((bits) => bitsOf(address).slice(0, bits) === bitsOf(from).slice(0, bits));
        const request = { headers: { "CF-Connecting-IP": from } };
        expect(limitOf({ overrides: blocks }, request)).toBe(first < 0 ? 1 : first + 2);
      },
    ),
  );
});

describe("a condition", () => {
  const meets = (when: string, request: RequestOptions, claims: Fields = {}): boolean =>
    limitOf({ overrides: [{ when, limits: "9/s" }] }, request, claims) === 9;

  it.for<[string, unknown, boolean]>([
    ["pro", "pro", true],
    ["pro", "Pro", false],
    ["pro", " pro", false],
    ["pro", "pro2", false],
    ["pro", undefined, false],
    ["pro", null, false],
    ["pro", "", false],
    ["p*", "pro", true],
    ["*", "anything", true],
    ["*", "", false],
    ["*", null, false],
    ["*", undefined, false],
    ["*", {}, false],
    ["*", [], false],
    ["5", 5, true],
    ["5", "5", true],
    ["5", 5.5, false],
    ["5.5", 5.5, true],
    ["05", 5, false],
    ["0", 0, true],
    ["-1", -1, true],
    ["1e+21", 1e21, true],
    ["true", true, true],
    ["true", "true", true],
    ["false", false, true],
    ["true", false, false],
    ["pro", ["free", "pro"], true],
    ["pro", ["free"], false],
    ["pro", ["pro,free"], false],
    ["p*", ["free", "pro"], true],
    ["5", [4, 5], true],
    ["true", [true], true],
    ["*", [""], false],
    ["*", [null, {}], false],
    ["pro", [["pro"]], false],
    ["pro", { plan: "pro" }, false],
    ["pro", { 0: "pro", length: 1 }, false],
    ["free,pro", ["free", "pro"], false],
    ["[object Object]", {}, false],
    ["null", null, false],
    ["undefined", undefined, false],
  ])("the condition jwt:plan=%s matches the claim %j: %s", ([wanted, plan, expected]) => {
    const claims = plan === undefined ? {} : { plan };
    expect(meets(`jwt:plan=${wanted}`, {}, claims)).toBe(expected);
  });

  it("a condition does not match properties that objects inherit", () => {
    for (const name of ["constructor", "toString", "__proto__"]) {
      expect(meets(`jwt:${name}=*`, {})).toBe(false);
      const own = JSON.parse(`{ ${JSON.stringify(name)}: "pro" }`) as Fields;
      expect(meets(`jwt:${name}=pro`, {}, own)).toBe(true);
    }
  });

  it("conditions on claims are case-sensitive", () => {
    expect(meets("jwt:plan=pro", {}, { Plan: "pro" })).toBe(false);
    expect(meets("jwt:a.b=pro", {}, { a: { b: "pro" } })).toBe(false);
    expect(meets("jwt:a.b=pro", {}, { "a.b": "pro" })).toBe(true);
  });

  it("a condition never matches values that a client can invent", () => {
    const headers = { plan: "pro", Cookie: "plan=pro", "CF-IPCountry": "DE" };
    expect(meets("jwt:plan=pro", { headers })).toBe(false);
    expect(meets("country=DE", { headers })).toBe(false);
    expect(meets("ip=203.0.113.7", { headers: { "X-Forwarded-For": address } })).toBe(false);
  });

  it.for<[string, Record<string, unknown>, boolean]>([
    ["country=DE", { country: "DE" }, true],
    ["country=DE", { country: "FR" }, false],
    ["country=*", { country: "FR" }, true],
    ["country=*", { country: null }, false],
    ["country=*", {}, false],
    ["continent=EU", { continent: "EU" }, true],
    ["asn=13335", { asn: 13_335 }, true],
    ["asn=13335", { asn: 1_333 }, false],
    ["asn=133*", { asn: 13_335 }, true],
    ["colo=FRA", { colo: "FRA" }, true],
  ])("the condition %s matches request.cf %j: %s", ([when, cf, expected]) => {
    expect(meets(when, { cf })).toBe(expected);
  });

  it.for<[string, string, boolean]>([
    ["ip=203.0.113.0/24", "203.0.113.7", true],
    ["ip=203.0.113.0/24", "::ffff:203.0.113.7", true],
    ["ip=203.0.113.0/24", "203.0.114.7", false],
    ["ip=203.0.*.7", "203.0.113.7", true],
    ["ip=203.0.*.7", "203.0.113.8", false],
    ["ip=2001:db8::/32", "2001:db8::1", true],
    ["ip=2001:db8::1", "2001:db8::2", false],
    ["ip=*", "2001:db8::2", true],
    ["ip=*", "nonsense", false],
  ])("the condition %s matches the address %s: %s", ([when, from, expected]) => {
    expect(meets(when, { headers: { "CF-Connecting-IP": from } })).toBe(expected);
  });
});

describe("a policy that needs claims", () => {
  it.for<[Fields, boolean]>([
    [{}, false],
    [{ key: "jwt:sub" }, true],
    [{ key: ["ip", "jwt:sub"] }, true],
    [{ overrides: [{ when: "jwt:plan=pro", limits: "9/s" }] }, true],
    [{ overrides: [{ when: "country=DE", limits: "9/s" }] }, false],
    [{ overrides: [{ key: address, limits: "9/s" }], allow: ["10.0.0.0/8"] }, false],
  ])("a policy with %j needs claims: %s", ([fields, expected]) => {
    expect(compiledPolicy(policyOf(fields)).needsClaims).toBe(expected);
  });
});

describe("a caller who names a key", () => {
  it("lists apply to a key that a caller of /check names as they apply to a request", () => {
    const fields = { deny: ["10.0.0.0/8"], allow: ["203.0.113.*"] };
    expect(limitOfCaller(fields, "10.9.9.9")).toBe("blocked");
    expect(limitOfCaller(fields, "::ffff:10.9.9.9")).toBe("blocked");
    expect(limitOfCaller(fields, address)).toBe("exempt");
    expect(limitOfCaller(fields, "192.0.2.1")).toBe(1);
    expect(limitOfCaller({ key: "path, ip", deny: ["10.0.0.0/8"] }, "/", "10.9.9.9")).toBe("blocked");
  });

  it("for a key that a caller of /check names, lists compare the exact address, not its IPv6 network", () => {
    expect(limitOfCaller({ deny: ["2001:db8::1"] }, "2001:db8::1")).toBe("blocked");
    expect(limitOfCaller({ deny: ["2001:db8::1"] }, "2001:db8::2")).toBe(1);
  });

  it("a key without the part ip has no address, even if one of its texts looks like an address", () => {
    expect(limitOfCaller({ key, deny: [address] }, address)).toBe(1);
    expect(limitOfCaller({ key, deny: [[address]] }, address)).toBe("blocked");
    expect(limitOfCaller({ key: "global", deny: ["0.0.0.0/0"] }, address)).toBe(1);
  });

  it("a key that a caller of /check names has only the claims and locations that the caller states", () => {
    const pro = { when: "jwt:plan=pro", limits: "9/s" };
    expect(limitOfCaller({ key: "jwt:sub, jwt:plan", overrides: [pro] }, "u", "pro")).toBe(9);
    expect(limitOfCaller({ key: "jwt:sub, jwt:plan", overrides: [pro] }, "pro", "free")).toBe(1);
    expect(limitOfCaller({ key: "jwt:sub", overrides: [pro] }, "pro")).toBe(1);
    const here = { when: "country=DE", limits: "9/s" };
    expect(limitOfCaller({ key: "country", overrides: [here] }, "DE")).toBe(9);
    expect(limitOfCaller({ key: "ip", overrides: [here] }, address)).toBe(1);
    const near = { when: `ip=${address}`, limits: "9/s" };
    expect(limitOfCaller({ key: "ip", overrides: [near] }, address)).toBe(9);
    expect(limitOfCaller({ key, overrides: [near] }, address)).toBe(1);
  });

  it("a key that a caller of /check names is charged with the limits and values that a request would have", () => {
    const overrides = [{ key: ["partner-42", "203.0.113.*"], limits: "9/s" }];
    const fields = { key: [key, "ip"], overrides };
    const resolution = resolveCallerKey(policyOf(fields), ["partner-42", address]);
    const request = resolved(fields, { headers: { ...visitor, ...partner } });
    expect(resolution).toEqual({
      kind: "charge",
      policy: { ...policyOf(fields), limits: policyOf({ limits: "9/s" }).limits },
      source: { field: "overrides", rule: null, index: 0 },
      values: request.kind === "charge" && request.values,
    });
  });
});
