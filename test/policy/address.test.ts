import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { forAll } from "../for-all.ts";
import * as address from "../../src/policy/address.ts";

const chargedAddress = (text: string): string | null => address.addressKey(text, 64);

const group = fc.integer({ min: 0, max: 0xffff });
const octets = fc.tuple(...([0, 0, 0, 0] as const).map(() => fc.integer({ min: 0, max: 255 })));

const hex = (value: number): string => value.toString(16);

/** Eight groups of an IPv6 address that is neither IPv4-mapped nor NAT64. */
const ipv6 = fc
  .array(group, { minLength: 8, maxLength: 8 })
  .filter(([a = 0, b, ...others]) => a !== 0 && !(a === 0x64 && b === 0xff9b && others[0] === 0));

/** Several spellings of an address. */
function spellings(groups: readonly number[]): string[] {
  const full = groups.map(hex).join(":");
  const padded = groups.map((each) => hex(each).padStart(4, "0")).join(":");
  const [c = 0, d = 0] = groups.slice(6);
  const dotted = [c >> 8, c & 255, d >> 8, d & 255].join(".");
  return [
    full,
    padded,
    padded.toUpperCase(),
    `${groups.slice(0, 6).map(hex).join(":")}:${dotted}`,
    new URL(`http://[${full}]`).hostname.slice(1, -1),
  ];
}

/** The distinct key values of these texts. */
const charged = (texts: readonly string[]): (string | null)[] => [...new Set(texts.map(chargedAddress))];

describe("an IPv4 address", () => {
  it(
    "an IPv4 address is its own key value",
    forAll([octets], (bytes) => {
      expect(chargedAddress(bytes.join("."))).toBe(bytes.join("."));
    }),
  );

  it(
    "an IPv4-mapped or NAT64 address has the key value of its IPv4 address",
    forAll([octets], (bytes) => {
      const [a = 0, b = 0, c = 0, d = 0] = bytes;
      const groups = [(a << 8) | b, (c << 8) | d];
      const mapped = spellings([0, 0, 0, 0, 0, 0xffff, ...groups]);
      const translated = spellings([0x64, 0xff9b, 0, 0, 0, 0, ...groups]);
      const shortened = ["::ffff:", "::FFFF:", "0::ffff:", "64:ff9b::", "0064:FF9B:0::"];
      const dotted = shortened.map((start) => `${start}${bytes.join(".")}`);
      expect(charged([...mapped, ...translated, ...dotted])).toEqual([bytes.join(".")]);
    }),
  );

  it("an IPv4 address has one key value, whether mapped, dotted or hexadecimal", () => {
    expect(charged(["1.2.3.4", "::ffff:1.2.3.4", "::ffff:102:304", "64:ff9b::1.2.3.4"])).toEqual(["1.2.3.4"]);
  });
});

describe("an IPv6 address", () => {
  it(
    "all spellings of an IPv6 address have one key value, its first 64 bits",
    forAll([ipv6], (groups) => {
      expect(charged(spellings(groups))).toEqual([`${groups.slice(0, 4).map(hex).join(":")}::/64`]);
    }),
  );

  it(
    "all addresses of an IPv6 network have one key value",
    forAll([ipv6, fc.array(group, { minLength: 4, maxLength: 4 })], (groups, host) => {
      const neighbour = [...groups.slice(0, 4), ...host];
      expect(charged([groups, neighbour].map((each) => each.map(hex).join(":")))).toHaveLength(1);
    }),
  );

  it(
    "addresses of different IPv6 networks have different key values",
    forAll([ipv6, fc.nat(3), fc.integer({ min: 1, max: 0xffff })], (groups, index, difference) => {
      const other = groups.map((each, at) => (at === index ? each ^ difference : each));
      const texts = [groups, other].map((each) => each.map(hex).join(":"));
      expect(new Set(texts.map((text) => text.split(":").slice(0, 4).join(":"))).size).toBe(2);
      expect(new Set([chargedAddress(texts[0] ?? ""), chargedAddress(texts[1] ?? "")]).size).toBe(2);
    }),
  );

  it.for([
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["2001:DB8:0:0:ffff::", "2001:db8:0:0::/64"],
    ["2001:db8::1.2.3.4", "2001:db8:0:0::/64"],
    ["2001:db8:0:1::1", "2001:db8:0:1::/64"],
    ["fe80::1", "fe80:0:0:0::/64"],
    ["::", "0:0:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
    ["1::", "1:0:0:0::/64"],
    ["::ffff:0:102:304", "0:0:0:0::/64"],
    ["2002:102:304::1", "2002:102:304:0::/64"],
  ] as const)("the address %s has the key value %s", ([text, expected]) => {
    expect(chargedAddress(text)).toBe(expected);
  });
});

describe("the field ipv6Prefix", () => {
  const to = (text: string, prefix: number): string | null => address.addressKey(text, prefix);
  const bitsOf = (groups: readonly number[]): string =>
    groups.map((each) => each.toString(2).padStart(16, "0")).join("");
  const prefix = fc.integer({ min: 32, max: 128 });

  it.for<[number, string]>([
    [32, "2001:db8::/32"],
    [33, "2001:db8:8000::/33"],
    [48, "2001:db8:ffff::/48"],
    [56, "2001:db8:ffff:ff00::/56"],
    [63, "2001:db8:ffff:fffe::/63"],
    [64, "2001:db8:ffff:ffff::/64"],
    [65, "2001:db8:ffff:ffff:8000::/65"],
    [128, "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff::/128"],
  ])("a prefix of %i bits keeps that many bits of an address", ([bits, expected]) => {
    expect(to("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", bits)).toBe(expected);
  });

  it(
    "two addresses have one key value exactly when their first ipv6Prefix bits are equal",
    forAll([ipv6, fc.integer({ min: 16, max: 127 }), prefix], (groups, flipped, bits) => {
      const other = groups.map((each, index) =>
        index === Math.floor(flipped / 16) ? each ^ (0x8000 >> (flipped % 16)) : each,
      );
      const [one, two] = [groups, other].map((each) => to(each.map(hex).join(":"), bits));
      const isSame = bitsOf(groups).slice(0, bits) === bitsOf(other).slice(0, bits);
      expect(one === two).toBe(isSame);
    }),
  );

  it(
    "the prefix does not change IPv4 addresses, mapped or not",
    forAll([octets, prefix], (bytes, bits) => {
      const text = bytes.join(".");
      const all = [text, `::ffff:${text}`, `64:ff9b::${text}`].map((each) => to(each, bits));
      expect(new Set(all)).toEqual(new Set([text]));
    }),
  );
});

describe("an IPv6 address that resembles IPv4", () => {
  it("an IPv6 address with dotted digits stays an IPv6 address", () => {
    // IPv4-compatible (RFC 4291, section 2.5.5.1) and local-use translation (RFC 8215) are IPv6.
    expect(chargedAddress("::1.2.3.4")).toBe("0:0:0:0::/64");
    expect(chargedAddress("::102:304")).toBe("0:0:0:0::/64");
    expect(chargedAddress("64:ff9b:1::1.2.3.4")).toBe("64:ff9b:1:0::/64");
    expect(chargedAddress("::ffff:010.2.3.4")).toBeNull();
  });
});

describe("texts that are not addresses", () => {
  it.for([
    "",
    " ",
    "a, b",
    "localhost",
    "1.2.3",
    "1.2",
    "16909060",
    "0x7f.1",
    "0x7f.0.0.1",
    "0x7f000001",
    "01.2.3.4",
    "1.2.3.04",
    "1.2.3.4.5",
    "1.2.3.4.",
    ".1.2.3.4",
    "1.2.3.256",
    "1.2.3.-4",
    "1.2.3.4:80",
    "1.2.3.4/32",
    " 1.2.3.4",
    "1.2.3.4 ",
    "1.2.3.4\n",
    "1.2.3.4, 5.6.7.8",
    "1。2。3。4",
    "١.2.3.4",
    ":",
    ":::",
    "::g",
    "1::2::3",
    ":1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7:8::",
    "::12345",
    "::0x1",
    "::1.2.3",
    "::ffff:1.2.3.256",
    "::ffff:1.2.3.4.5",
    "1.2.3.4::",
    "[::1]",
    "[::1]:80",
    "::1/128",
    " ::1",
    "::1 ",
    "fe80::1%eth0",
    "fe80::1%",
    "::ffff:1.2.3.4%1",
    "::1, ::2",
  ])("the text %j is not an address", (text) => {
    expect(chargedAddress(text)).toBeNull();
  });

  it(
    "a text is an address exactly when it is four decimal numbers joined by dots, or an IPv6 address that a URL accepts in brackets",
    forAll([fc.oneof(fc.ipV4Extended(), fc.string({ maxLength: 20 }), fc.domain())], (text) => {
      const isIpv4 = /^(?:(?:0|[1-9]\d{0,2})(?:\.(?!$)|$)){4}$/.test(text);
      const isSmall = text.split(".").every((octet) => Number(octet) <= 255);
      const isIpv6 = /^[0-9a-f:]+$/i.test(text) && URL.canParse(`http://[${text}]`);
      expect(chargedAddress(text) !== null).toBe((isIpv4 && isSmall) || isIpv6);
    }),
  );

  const piece = fc.oneof(
    { weight: 4, arbitrary: group.map(hex) },
    fc.constantFrom("", "", "0", "0000", "ffff", "FFFF", "10000", "00001", "g"),
  );
  it(
    "a text is an IPv6 address exactly when the URL parser accepts it",
    forAll([fc.array(piece, { minLength: 1, maxLength: 9 }).map((pieces) => pieces.join(":"))], (text) => {
      const isIpv6 = text.includes(":") && URL.canParse(`http://[${text}]`);
      expect(chargedAddress(text) !== null).toBe(isIpv6);
    }),
  );
});

describe("an address with a port", () => {
  it(
    "the port, brackets and quotation marks of an address are removed",
    forAll([fc.oneof(fc.ipV4(), fc.ipV6()), fc.nat(65_535)], (text, port) => {
      const host = text.includes(":") ? `[${text}]` : text;
      for (const each of [host, `${host}:${port}`, `"${host}"`, `"${host}:${port}"`]) {
        expect(address.withoutPort(each)).toBe(text);
      }
      expect(address.withoutPort(text)).toBe(text);
    }),
  );

  it.for([
    "",
    "unknown",
    "203.0.113.7:",
    "203.0.113.7:65536",
    "203.0.113.7:123456",
    "203.0.113.7:8x",
    "203.0.113.7 :80",
    "203.0.113.7:80:80",
    "[203.0.113.7]",
    "[203.0.113.7]:80",
    "[2001:db8::1",
    "[2001:db8::1]80",
    "[2001:db8::1%eth0]:80",
    "2001:db8::1]:80",
    "[[2001:db8::1]]:80",
    '"203.0.113.7:80',
    "'203.0.113.7:80'",
    '"',
    "_hidden:80",
    "example.com:80",
  ])("the text %j is not an address with a port, and stays unchanged", (text) => {
    expect(address.withoutPort(text)).toBe(text);
    expect(chargedAddress(address.withoutPort(text))).toBeNull();
  });

  it("an address with a port is found in linear time", () => {
    for (const piece of ["1.", "a:", "[:", "[a.", '"', "1:", "[a:a"]) {
      const startedAtMs = performance.now();
      address.withoutPort(piece.repeat(100_000));
      expect(performance.now() - startedAtMs).toBeLessThan(500);
    }
  });
});
