/** The keys that policies within policies charge: for requests, and for callers of `/check`. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { unmatchedText } from "../../src/policy/key-text.ts";
import { encodingOf } from "../../src/policy/partition-key.ts";
import type { Policy } from "../../src/policy/policy.ts";
import { callerLevels, type KeyResolution, resolveCallerKey, resolveKey } from "../../src/policy/resolve-key.ts";
import { forAll } from "../for-all.ts";
import { requestTo } from "./harness.ts";
import { configOf } from "./parsed.ts";
import { type Fields, org, policiesOf, team, treeOf, user } from "./trees.ts";

describe("the key of a child", () => {
  const claims = { org: "acme", team: "core", sub: "alice" };
  const visitor = { headers: { "CF-Connecting-IP": "203.0.113.7" } };
  const [address] = Object.values(visitor.headers);

  const resolved = (written: readonly Fields[], given: Fields = claims): KeyResolution =>
    resolveKey(treeOf(...written).last, requestTo("/", visitor), given);

  /** The charged key and the root's key, as names and values; the kind if nothing is charged. */
  function charged(written: readonly Fields[], given?: Fields): unknown {
    const resolution = resolved(written, given);
    if (resolution.kind !== "charge") return resolution.kind;
    const { parts, values, ancestorParts } = resolution;
    const [rootParts] = ancestorParts;
    const names = parts.map((part) => ("name" in part ? part.name : part.kind));
    return [
      names.map((name, index) => `${name}=${values[index]}`).join(" "),
      rootParts === undefined ? null : values.slice(0, rootParts).join(),
    ];
  }

  it("a request is charged to the whole key, in the object of the root's key", () => {
    expect(charged([org, team, user])).toEqual(["org=acme team=core sub=alice", "acme"]);
    expect(charged([org, team])).toEqual(["org=acme team=core", "acme"]);
    expect(charged([org])).toEqual(["org=acme", null]);
  });

  it("the same user has another key in another team or organisation", () => {
    const keys = [{}, { team: "sales" }, { org: "other" }].map((other) =>
      charged([org, team, user], { ...claims, ...other }),
    );
    expect(new Set(keys.map((key) => JSON.stringify(key))).size).toBe(3);
  });

  it.each<[string, string, unknown]>([
    ["shared", "org", ["org=null team=core sub=alice", ""]],
    ["shared", "team", ["org=acme team=null sub=alice", "acme"]],
    ["shared", "user", ["org=acme team=core sub=null", "acme"]],
    ["ip", "org", [`ip=${address} team=core sub=alice`, address]],
    ["ip", "team", [`org=acme ip=${address} sub=alice`, "acme"]],
    ["ip", "user", [`org=acme team=core ip=${address}`, "acme"]],
    ["skip", "org", "exempt"],
    ["skip", "team", "exempt"],
    ["skip", "user", "exempt"],
    // The ancestor denies by itself. If it is a dry run or off, requests without the part share a key.
    ["deny", "org", ["org=null team=core sub=alice", ""]],
    ["deny", "team", ["org=acme team=null sub=alice", "acme"]],
    ["deny", "user", "missing-key"],
  ])(
    "with onMissingKey = %s on all levels, a request without the part of %s resolves to %j",
    (onMissingKey, level, result) => {
      const written = [org, team, user].map((each) => ({ ...each, onMissingKey }));
      const { [level === "user" ? "sub" : level]: _, ...given }: Fields = claims;
      expect(charged(written, given)).toEqual(result);
    },
  );

  it("onMissingKey of a level applies only to its own parts", () => {
    const { sub: _, ...given } = claims;
    const written = [{ ...org, onMissingKey: "deny" }, { ...team, onMissingKey: "skip" }, user];
    expect(charged(written, given)).toEqual(["org=acme team=core sub=null", "acme"]);
    expect(resolved([org, { ...team, onMissingKey: "deny" }], { org: "acme" })).toMatchObject({
      kind: "missing-key",
      missing: ["jwt:team"],
    });
  });

  it("the address stands once in a key in which several levels lack their parts", () => {
    const written = [org, team, user].map((each) => ({ ...each, onMissingKey: "ip" }));
    expect(charged(written, {})).toEqual([`ip=${address}`, address]);
    expect(charged(written, { sub: "alice" })).toEqual([`ip=${address} sub=alice`, address]);
    const byAddress = { ...user, key: ["ip", "jwt:sub"], onMissingKey: "shared" };
    expect(charged([...written.slice(0, 2), byAddress], { team: "core" })).toEqual([
      `ip=${address} team=core sub=null`,
      address,
    ]);
  });

  it("a child writes a path in its key as its parent does, whatever its own match", () => {
    const written = [
      { name: "page", key: "path", match: { path: "/users/:id" }, limits: "9/minute" },
      { name: "reader", within: "page", key: "ip", match: { path: "/USERS/*" }, limits: "5/minute" },
    ];
    const request = requestTo("/Users/Alice", visitor);
    const [page, reader] = policiesOf(...written).map((policy) => resolveKey(policy, request, {}));
    if (page?.kind !== "charge" || reader?.kind !== "charge") throw new Error("not charged");
    expect(page.values).toEqual(["/users/Alice"]);
    expect(reader.values).toEqual(["/users/Alice", address]);
    const deny = [["/USERS/Alice", address]];
    const denying = treeOf({ ...written[0] }, { ...written[1], match: {}, deny }).last;
    expect(resolveKey(denying, request, {}).kind).toBe("blocked");
    const { last } = treeOf(...written);
    expect(resolveCallerKey(last, ["/Users/Alice", "203.0.113.7"])?.values).toEqual(reader.values);
    expect(unmatchedText({ kind: "path" }, last, "/pages/1")).toMatch(/match\.path \("\/users\/:id"\)/);
  });

  it("a value on the blocklist of a level denies by that level, and one on its allowlist exempts from that level only", () => {
    const lists = { deny: [["acme", "core"]], allow: [["acme", "sales"]] };
    const written = [org, { ...team, ...lists }];
    const kinds = (given: Fields): string[] =>
      policiesOf(...written).map((policy) => resolveKey(policy, requestTo("/"), given).kind);
    expect(kinds(claims)).toEqual(["charge", "blocked"]);
    expect(kinds({ ...claims, team: "sales" })).toEqual(["charge", "exempt"]);
    expect(kinds({ ...claims, org: "other" })).toEqual(["charge", "charge"]);
  });

  it("each of several values of a part names a key of its own, within each value of the parts of its ancestors", () => {
    const ban = { after: 3, within: "1m", for: "1h" };
    const byHeader = { ...team, key: "header:x-team", ban };
    const policy = treeOf({ ...org, key: "header:x-org" }, byHeader).last;
    const request = requestTo("/", { headers: { "X-Org": "a, b", "X-Team": "t" } });
    const { named } = resolveKey(policy, request, {});
    expect(named).toEqual(["a, b", "a", "b"].map((value) => [value, "t"]));
    // While the root is off, requests without its part are charged to one key, which may be banned.
    const denying = treeOf({ ...org, key: "header:x-org", onMissingKey: "deny" }, byHeader).last;
    const twice = requestTo("/", { headers: { "X-Team": "t, u" } });
    expect(resolveKey(denying, twice, {}).named).toEqual(["t, u", "t", "u"].map((value) => [null, value]));
  });

  it("each level may have a function of its own as its key", () => {
    const written = [
      { ...org, key: () => null },
      { ...team, key: () => null },
    ];
    const policies = configOf({ KEY_SECRET: "the tests' secret", POLICIES: written }).policies;
    const request = { ...requestTo("/"), customKey: (name: string) => `the ${name}` };
    const values = policies
      .map((policy) => resolveKey(policy, request, {}))
      .map((each) => each.kind === "charge" && each.values);
    expect(values).toEqual([["the org"], ["the org", "the team"]]);
    const [root, child] = policies;
    expect(encodingOf(root?.key ?? [])(["x"])).toBe('[["custom","x"]]');
    expect(encodingOf(child?.key ?? [])(["x", "y"])).toBe('[["custom","x"],["custom:team","y"]]');
  });
});

describe("the keys of all levels, for drawn trees and requests", () => {
  const partPool = ["header:a", "header:b", "query:c", "cookie:d", "ip", "path", "method", "jwt:e", "country"];
  const anyMode = fc.constantFrom("shared", "ip", "deny", "skip");
  const anyTree = fc
    .tuple(
      fc.shuffledSubarray(partPool, { minLength: 3 }),
      fc.array(
        fc.tuple(fc.integer({ min: 1, max: 2 }), anyMode, fc.constantFrom({}, { path: "/:x" }, { path: "/*" })),
        {
          minLength: 2,
          maxLength: 3,
        },
      ),
    )
    .map(([pool, drawn]) => {
      const parts = [...pool];
      return drawn.flatMap(([count, onMissingKey, match], index): Fields[] => {
        const key = parts.splice(0, count);
        const within = index === 0 ? {} : { within: `l${index - 1}` };
        return key.length === 0 ? [] : [{ name: `l${index}`, key, onMissingKey, match, limits: "5/m", ...within }];
      });
    });
  const some = fc.option(fc.constantFrom("u", "v", "u, v"), { nil: undefined });
  const anyRequest = fc
    .record({
      a: some,
      b: some,
      c: some,
      d: some,
      e: some,
      ip: fc.constantFrom("203.0.113.7", "203.0.113.8", undefined),
    })
    .chain((values) =>
      fc.record({
        values: fc.constant(values),
        path: fc.constantFrom("/A", "/a", "/b%2fc"),
        method: fc.constantFrom("GET", "POST"),
        country: fc.constantFrom("DE", undefined),
      }),
    )
    .map(({ values: { a, b, c, d, e, ip }, path, method, country }) => {
      const headers = Object.entries({ a, b, "CF-Connecting-IP": ip, Cookie: d === undefined ? undefined : `d=${d}` });
      const stated = headers.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));
      const target = c === undefined ? path : `${path}?c=${encodeURIComponent(c)}`;
      const cf = country === undefined ? {} : { country };
      return {
        request: requestTo(target, { method, headers: Object.fromEntries(stated), cf }),
        claims: e === undefined ? {} : { e },
      };
    });

  type Drawn = typeof anyRequest extends fc.Arbitrary<infer Value> ? Value : never;
  const resolutionsOf = (policies: readonly Policy[], { request, claims }: Drawn) =>
    policies.map((policy) => resolveKey(policy, request, claims));

  it(
    "the key of a parent is the beginning of the child's, which states how many parts the parent's key has",
    forAll([anyTree, anyRequest], (written, request) => {
      const resolutions = resolutionsOf(policiesOf(...written), request);
      for (const [index, child] of resolutions.slice(1).entries()) {
        const parent = resolutions[index];
        expect([parent?.kind, child.kind]).not.toEqual(["exempt", "charge"]);
        if (parent?.kind !== "charge" || child.kind !== "charge") continue;
        expect(child.parts.slice(0, parent.parts.length)).toEqual(parent.parts);
        expect(child.values.slice(0, parent.values.length)).toEqual(parent.values);
        expect(child.ancestorParts).toEqual([...parent.ancestorParts, parent.parts.length]);
      }
    }),
  );

  it(
    "two requests that a child charges to one key are charged to one key by each of its ancestors",
    forAll([anyTree, anyRequest, anyRequest], (written, one, other) => {
      const policies = policiesOf(...written);
      const [first = [], second = []] = [one, other].map((request) =>
        resolutionsOf(policies, request).map((each) =>
          each.kind === "charge" ? encodingOf(each.parts)(each.values) : null,
        ),
      );
      const last = first.findLastIndex((key, index) => key !== null && key === second[index]);
      fc.pre(last > 0);
      const isOther = (key: string | null, index: number): boolean =>
        key !== null && second[index] !== null && key !== second[index];
      expect(first.slice(0, last).filter(isOther)).toEqual([]);
    }),
  );
});

describe("a key that a caller of /check names", () => {
  it("a caller names all parts of the whole key, and all levels of the tree are charged by their beginning of it", () => {
    const { last, policies } = treeOf(org, team, user);
    expect(resolveCallerKey(last, ["alice"])).toBeNull();
    const resolution = resolveCallerKey(last, ["acme", "core", "alice"]);
    expect(resolution).toMatchObject({ kind: "charge", values: ["acme", "core", "alice"] });
    const levels = callerLevels(last, policies);
    expect(levels).toEqual(policies);
    expect(
      levels.map(
        (level) => resolveCallerKey(level, ["acme", "core", "alice"].slice(0, level.key.length))?.values.length,
      ),
    ).toEqual([1, 2, 3]);
  });

  it("the levels are those in effect, and a policy that is within none is its only level", () => {
    const { last, policies } = treeOf(org, team);
    const off = policies.map((policy) => ({ ...policy, isOff: true }));
    expect(callerLevels(last, off)).toEqual([off[0], last]);
    const root = policies[0];
    if (root === undefined) throw new Error("no policy");
    expect(callerLevels(root, policies)).toEqual([root]);
  });
});
