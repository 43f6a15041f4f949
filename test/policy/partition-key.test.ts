import { createHmac } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { forAll } from "../for-all.ts";
import type { KeyValue } from "../../src/policy/key.ts";
import {
  ancestorsOfKey,
  hmacWith,
  isKeyWithin,
  ownPartOf,
  PartitionKeys,
  rootOfKey,
} from "../../src/policy/partition-key.ts";
import { partsOf } from "./harness.ts";

const secret = "the tests' secret";

const partitionOf = async (
  key: string | string[],
  values: readonly KeyValue[],
  partitions = new PartitionKeys(hmacWith(secret)),
): Promise<string> => partitions.partitionKey(partsOf(key), values);

describe("a partition key", () => {
  it("a partition key is 43 characters of base64url, for values of any length", async () => {
    for (const value of [null, "", "a", "ä\u0000\ud800", "x".repeat(100_000)]) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await partitionOf("path", [value])).toMatch(/^[A-Za-z0-9_-]{43}$/);
    }
  });

  it("a new version must compute the same partition keys, since counters are stored under them", async () => {
    expect(await partitionOf("ip", ["203.0.113.7"])).toBe("SyfzblXaJ4LDOFfw6gIwUk5oRXIzDSOfUl9ZVx_lTCE");
    expect(await partitionOf("header:x-tenant, global", ["ä", null])).toBe(
      "vUv5MRJ-mkCfQ03orMRAoHKeJszjvpaecgNFFqQIYao",
    );
    expect(await partitionOf("path", ["/35"])).toBe("b8OxdCLnR7-QQWwUgvzZ3_6-4hO3pptD_oDkrbmhMFs");
  });

  it.for<[string, KeyValue[], string]>([
    ["ip", ["2001:db8:0:0::/64"], "n_PrjgHuAkXhYmtPfzlB7fxAd-GR_i5aseR2Gauns2k"],
    ["path, ip", ["/a", null], "NHu_ZAHWmka80_vlRAsiVI1npHvk7ZSqQ-lCOQShSKo"],
    ["global", [null], "mQeWjw1vjilTejhc_cq1JVEeFUqyOYn4WJTljzV-PYs"],
    ["cookie:sid, query:k", ["x", "y"], "gFc9LVih9uCggY-UvWVyo0GX0m3yVyg-nWHTVZY5nOo"],
    ["method, host", ["GET", "h.example"], "BjwkxdIf9KzTqtjqkcOmmS88QH_d-Gc54pUbT1bNPms"],
    ["country, continent, asn, colo", ["DE", "EU", "3320", "FRA"], "xHIg47cDug4_uLLxJzc49H5uJjL418_gKJP50Uar39g"],
    ["jwt:sub", ["u1"], "TLYvNuMl0_8oVPC1ah5cu--bzsFWHuja_gJAy2ciFak"],
  ])("the partition key of %s as %j is equal in all versions", async ([key, values, expected]) => {
    expect(await partitionOf(key, values)).toBe(expected);
  });

  it("the order of key parts does not change the partition key", async () => {
    expect(await partitionOf("header:b, header:a", ["x", "y"])).toBe(
      await partitionOf("header:a, header:b", ["y", "x"]),
    );
  });

  it("the partition key of a key within others begins with theirs, and leads to the root's", async () => {
    const partitions = new PartitionKeys(hmacWith(secret));
    const parts = partsOf(["header:x-org", "header:x-team", "ip"]);
    const values = ["acme", "core", "192.0.2.1"];
    const levels = await Promise.all(
      [1, 2, 3].map(async (count) => partitions.partitionKey(parts.slice(0, count), values.slice(0, count))),
    );
    const [root = "", team = "", own = ""] = levels;
    const whole = await partitions.partitionKey(parts, values, null, [1, 2]);
    expect(whole).toBe(`${root}.${team}.${own}`);
    expect(ancestorsOfKey(whole)).toEqual([root, `${root}.${team}`]);
    expect([rootOfKey(whole), ownPartOf(whole)]).toEqual([root, own]);
    expect([rootOfKey(root), ownPartOf(root), ancestorsOfKey(root)]).toEqual([root, root, []]);
    expect([isKeyWithin(whole, `${root}.${team}`), isKeyWithin(whole, root), isKeyWithin(root, root)]).toEqual([
      true,
      true,
      false,
    ]);
    expect(await partitions.partitionKey(parts, values, "t", [1, 2])).not.toContain(root);
  });

  it("a partition key depends on the secret", async () => {
    const others = ["the tests' secret ", "The tests' secret", "x", "x".repeat(1_000)];
    const keys = [secret, ...others].map((each) =>
      partitionOf("ip", ["203.0.113.7"], new PartitionKeys(hmacWith(each))),
    );
    expect(new Set(await Promise.all(keys)).size).toBe(5);
  });

  it("a partition key is the same in every isolate and every call", async () => {
    const partitions = new PartitionKeys(hmacWith(secret));
    const keys = await Promise.all(
      [partitions, partitions, new PartitionKeys(hmacWith(secret))].map((each) => partitionOf("ip", ["a"], each)),
    );
    keys.push(await partitionOf("ip", ["a"], partitions));
    expect(new Set(keys).size).toBe(1);
  });

  it("a partition key is the same after the cache has evicted it", async () => {
    const partitions = new PartitionKeys(hmacWith(secret));
    const values = Array.from({ length: 5_000 }, (_, index) => String(index));
    const parts = partsOf("path");
    const keysOf = async (each: string): Promise<string> => partitions.partitionKey(parts, [each]);
    const first = await Promise.all(values.map(keysOf));
    expect(new Set(first).size).toBe(values.length);
    const again = await Promise.all(values.map(keysOf));
    expect(again).toEqual(first);
  });
});

describe("the text of a partition key", () => {
  /** The HMAC of the text, in the format that all versions use. */
  const hmacOf = (text: string): string => createHmac("sha256", secret).update(text).digest("base64url");

  const piece = fc.constantFrom('"', "],[", "\\", "a", "\u0000", "\u2028", "ä", "\ud83d\ude00");
  const text = fc.string({ unit: piece, maxLength: 4 });
  const tenants = fc.option(text);
  const names = ["ip", "path", "header:b", "header:a", "cookie:a", "query:B", "jwt:a", "global"];
  const keys = fc
    .shuffledSubarray(names, { minLength: 1, maxLength: 4 })
    .chain((parts) => fc.tuple(fc.constant(parts), fc.tuple(...parts.map(() => fc.option(text)))));

  it(
    "the partition key of a policy is the HMAC of the JSON of its sorted parts, with the tenant if there is one",
    forAll([keys, tenants], async ([partNames, values], tenant) => {
      const named = partNames.map((name, index) => [name, values[index]] as const);
      const key = named.toSorted(([a], [b]) => (a < b ? -1 : 1));
      const partitions = new PartitionKeys(hmacWith(secret));
      const partitionKey = await partitions.partitionKey(partsOf(partNames), values, tenant);
      expect(partitionKey).toBe(hmacOf(JSON.stringify(tenant === null ? key : { tenant, key })));
    }),
  );

  it("a key part that is undefined gives the same partition key as a missing part", async () => {
    expect(await partitionOf("ip, path", ["a"])).toBe(hmacOf('[["ip","a"],["path",null]]'));
    expect(await partitionOf("ip", [])).toBe(hmacOf('[["ip",null]]'));
  });
});

describe("the cache of partition keys", () => {
  it("partitionKey returns a cached key without a promise, and a promise of any other key", async () => {
    const partitions = new PartitionKeys(hmacWith(secret));
    const keysOf = (): (string | Promise<string>)[] => [
      partitions.partitionKey(partsOf("ip"), ["a"]),
      partitions.partitionKey(partsOf("ip"), ["a"], "acme"),
      partitions.adhocPartitionKey(["a"]),
      partitions.partitionKey(partsOf("path"), ["x".repeat(300)]),
    ];
    const valuesOf = (keys: (string | Promise<string>)[]): Promise<string[]> =>
      Promise.all(keys.map(async (key) => key));
    const first = keysOf();
    expect(first.map((key) => key instanceof Promise)).toEqual([true, true, true, true]);
    const values = await valuesOf(first);
    const again = keysOf();
    expect(again.map((key) => key instanceof Promise)).toEqual([false, false, false, true]);
    expect(await valuesOf(again)).toEqual(values);
  });

  const parts = partsOf("path");

  /** The number of HMACs that are computed for these values. */
  async function hashesOf(values: readonly string[]): Promise<number> {
    const sign = vi.spyOn(crypto.subtle, "sign");
    const partitions = new PartitionKeys(hmacWith(secret));
    // oxlint-disable-next-line no-await-in-loop
    for (const value of values) await partitions.partitionKey(parts, [value]);
    const { length } = sign.mock.calls;
    sign.mockRestore();
    return length;
  }

  it("a cached partition key is not computed again", async () => {
    expect(await hashesOf(["/a", "/b", "/a", "/a"])).toBe(2);
  });

  it("the cache keeps 4,096 partition keys and evicts the oldest", async () => {
    const values = Array.from({ length: 4_096 }, (_, index) => String(index));
    expect(await hashesOf([...values, "0", "4095"])).toBe(4_096);
    expect(await hashesOf([...values, "another", "1", "4095"])).toBe(4_097);
    expect(await hashesOf([...values, "another", "0"])).toBe(4_098);
  });

  it("the cache skips keys of more than 256 characters, including part names", async () => {
    const lengthOfRest = JSON.stringify([["path", ""]]).length;
    const [longest, longer] = [256, 257].map((length) => "x".repeat(length - lengthOfRest));
    expect(await hashesOf([longest ?? "", longest ?? ""])).toBe(1);
    expect(await hashesOf([longer ?? "", longer ?? ""])).toBe(2);
  });
});

describe("the partition key of a check with ad hoc limits", () => {
  const partitions = new PartitionKeys(hmacWith(secret));
  const adhocOf = async (...texts: string[]): Promise<string> => partitions.adhocPartitionKey(texts);

  it("the partition keys of ad hoc checks are the same in all versions", async () => {
    expect(await adhocOf("203.0.113.7")).toBe("LjeYjg_Sl-xzXAsRDrZdz2CefCykDOqlw8_2sWJrX9I");
  });

  it("the partition key of an ad hoc check never equals that of a policy", async () => {
    const policies = [
      partitionOf("ip", ["a"], partitions),
      partitionOf("global", [null], partitions),
      partitionOf("header:adhoc", ["a"], partitions),
      partitionOf("header:adhoc", ['["a"]'], partitions),
      partitionOf("header:adhoc, header:a", ["adhoc", "a"], partitions),
    ];
    const adhoc = [adhocOf("a"), adhocOf("ip", "a"), adhocOf('["ip","a"]'), adhocOf("adhoc", "a")];
    const keys = await Promise.all([...policies, ...adhoc]);
    expect(new Set(keys).size).toBe(keys.length);
  });

  const piece = fc.constantFrom('"', '","', "[", "]", ",", "\\", "a", "\u0000", "\ud800");
  const texts = fc.array(fc.string({ unit: piece, maxLength: 3 }), { minLength: 1, maxLength: 3 });

  it(
    "two ad hoc checks have one partition key exactly when their texts are equal",
    forAll([texts, texts], async (one, other) => {
      const isSame = one.length === other.length && one.every((each, at) => each === other[at]);
      expect((await adhocOf(...one)) === (await adhocOf(...other))).toBe(isSame);
    }),
  );
});

describe("two keys", () => {
  it.for<[string, [string, KeyValue[]], [string, KeyValue[]]]>([
    ["absent and empty", ["path", [null]], ["path", [""]]],
    ["absent and the text of it", ["path", [null]], ["path", ["null"]]],
    ["of different parts", ["path", ["a"]], ["header:path", ["a"]]],
    ["of different headers", ["header:a", ["x"]], ["header:b", ["x"]]],
    ["of header and cookie", ["header:a", ["x"]], ["cookie:a", ["x"]]],
    ["of parameter and claim", ["query:a", ["x"]], ["jwt:a", ["x"]]],
    ["of a parameter and the part of its name", ["query:path", ["x"]], ["path", ["x"]]],
    ["of country and continent", ["country", ["AS"]], ["continent", ["AS"]]],
    ["by the address in want of a header", ["ip", ["192.0.2.1"]], ["header:ip", ["192.0.2.1"]]],
    ["shared by all, of one part and of two", ["ip", [null]], ["ip,global", [null, null]]],
    ["global and without an address", ["global", [null]], ["ip", [null]]],
    ["of swapped values", ["ip,path", ["a", "b"]], ["ip,path", ["b", "a"]]],
    ["with a separator moved", ["ip,path", ["a", "b,c"]], ["ip,path", ["a,b", "c"]]],
    ["with a part in a value", ["header:a", ['x"],["path","y']], ["header:a,path", ["x", "y"]]],
    ["with quotes and backslashes", ["path", ['\\"']], ["path", ['"']]],
    ["with an escape and its text", ["path", ["\ud800"]], ["path", ["\\ud800"]]],
    ["of different halves of a character", ["path", ["\ud800"]], ["path", ["\ud801"]]],
    ["of a half and its replacement", ["path", ["\ud800"]], ["path", ["\ufffd"]]],
    ["of one and two characters that look alike", ["path", ["é"]], ["path", ["e\u0301"]]],
    ["with a zero", ["path", ["a"]], ["path", ["a\u0000"]]],
  ])("different keys have different partition keys: %s", async ([, [oneKey, one], [otherKey, other]]) => {
    const partitions = new PartitionKeys(hmacWith(secret));
    expect(await partitionOf(oneKey, one, partitions)).not.toBe(await partitionOf(otherKey, other, partitions));
  });

  const piece = fc.constantFrom('"', '","', '"],["', "[", "]", ",", "\\", ":", "null", "ip", "a", "\u0000", "\ud800");
  const value = fc.oneof(fc.constant(null), fc.string({ unit: piece, maxLength: 3 }));
  const key = fc
    .subarray(["ip", "path", "header:a", "header:b", "cookie:a", "query:a", "jwt:a", "asn"], {
      minLength: 1,
      maxLength: 3,
    })
    .chain((parts) => fc.tuple(fc.constant(parts), fc.tuple(...parts.map(() => value))));
  const partitions = new PartitionKeys(hmacWith(secret));

  const two = key.chain((one) => fc.tuple(fc.constant(one), fc.oneof(fc.constant(one), key)));

  it(
    "two keys have one partition key exactly when their parts and values are equal",
    forAll(
      [two],
      async ([[oneKey, one], [otherKey, other]]) => {
        const isSame = oneKey.join() === otherKey.join() && one.every((each, index) => each === other[index]);
        const keys = [await partitionOf(oneKey, one, partitions), await partitionOf(otherKey, other)];
        expect(keys[0] === keys[1]).toBe(isSame);
      },
      1_000,
    ),
  );
});
