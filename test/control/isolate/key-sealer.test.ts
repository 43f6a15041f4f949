/** Sealed keys: who can open them, and what their labels show. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type PlainKey, readKey } from "../../../src/policy/key.ts";
import { KeySealer, isTooLong, labelOf } from "../../../src/control/isolate/key-sealer.ts";
import { forAll } from "../../for-all.ts";

const sealer = new KeySealer("the secret");

describe("sealing a key", () => {
  it(
    "a sealed text opens to the same text",
    forAll([fc.string({ unit: "binary" }), fc.string(), fc.string()], async (text, policy, key) => {
      const sealed = await sealer.seal(policy, key, text);
      expect(sealed).toMatch(/^v1\.[\w-]{38,}$/);
      expect(await sealer.open(policy, key, sealed)).toBe(text.toWellFormed());
    }),
  );

  it("the same text is sealed differently each time", async () => {
    const sealed = await Promise.all(Array.from({ length: 20 }, () => sealer.seal("p", "k", "ip=203.0.113.7")));
    expect(new Set(sealed).size).toBe(20);
  });

  it("a sealed key cannot be opened for another policy, for another key or with another KEY_SECRET", async () => {
    const sealed = await sealer.seal("p", "k", "ip=203.0.113.7");
    expect(await sealer.open("q", "k", sealed)).toBeNull();
    expect(await sealer.open("p", "l", sealed)).toBeNull();
    expect(await new KeySealer("rotated").open("p", "k", sealed)).toBeNull();
    expect(await new KeySealer("the secret").open("p", "k", sealed)).toBe("ip=203.0.113.7");
  });

  it("a sealed key cannot be opened when any of its characters has changed", async () => {
    const sealed = await sealer.seal("p", "k", "ip=203.0.113.7");
    let checked = 0;
    for (let index = 0; index < sealed.length; index++) {
      const other = sealed[index] === "A" ? "B" : "A";
      const changed = sealed.slice(0, index) + other + sealed.slice(index + 1);
      // base64 ignores some bits of the last character.
      if (index === sealed.length - 1) continue;
      // oxlint-disable-next-line no-await-in-loop
      expect(await sealer.open("p", "k", changed)).toBeNull();
      checked++;
    }
    expect(checked).toBeGreaterThan(50);
    for (const other of ["", "v1.", "v1.AAAA", "v1.!", "v1.A", "v2.AAAAAAAAAAAAAAAAAAAAAAAAAAAA"]) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await sealer.open("p", "k", other)).toBeNull();
    }
  });
});

const plainKey = (key: string, ...values: (string | null)[]): PlainKey => ({
  parts: readKey(key) ?? [],
  values,
});

describe("the label of a key", () => {
  it.each([
    ["ip", ["203.0.113.7"], "ip=203.0.113.7"],
    ["ip,header:x-user", ["203.0.113.7", "a"], "ip=203.0.113.7, header:x-user=a"],
    ["global", [null], "global"],
    ["header:x-user", [null], "header:x-user missing"],
    ["header:Authorization", ["Bearer 0123456789abcdef"], "header:authorization=…cdef"],
    ["header:x-api-key", ["0123456789ab"], "header:x-api-key=…89ab"],
    ["header:x-api-key", ["0123456789a"], "header:x-api-key=…"],
    ["cookie:sid", ["0123456789abcdef"], "cookie:sid=…cdef"],
    ["cookie:theme", ["dark"], "cookie:theme=…"],
    ["query:key", ["0123456789abcdef"], "query:key=…cdef"],
    ["query:page", ["0123456789abcdef"], "query:page=0123456789abcdef"],
    ["jwt:sub", ["customer-1234567"], "jwt:sub=customer-1234567"],
  ])("the label of the key %s with the values %j is %s", (key, values, label) => {
    expect(labelOf(plainKey(key, ...values))).toBe(label);
  });

  it("the label of a tenant's key names the tenant", () => {
    const plain = { ...plainKey("ip", "203.0.113.7"), tenant: "acme" };
    expect(labelOf(plain)).toBe("tenant=acme, ip=203.0.113.7");
  });

  it("a label has at most 240 characters, and at most 1,024 when it is sealed", async () => {
    const label = labelOf(plainKey("header:x-user", "a".repeat(1_000)));
    expect(label).toHaveLength(240);
    expect(label.endsWith("a…")).toBe(true);
    const wide = labelOf(plainKey("header:x-user", "あ".repeat(1_000)));
    expect((await sealer.seal("p", "k", wide)).length).toBeLessThanOrEqual(1_024);
  });

  it("a key of more than 1,024 characters is too long to be sealed", () => {
    expect(isTooLong(plainKey("ip,header:x-user", "a", "b".repeat(1_023)))).toBe(false);
    expect(isTooLong(plainKey("ip,header:x-user", "a", "b".repeat(1_024)))).toBe(true);
    expect(isTooLong(plainKey("ip", null))).toBe(false);
  });
});
