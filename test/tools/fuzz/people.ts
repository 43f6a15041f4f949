/** The keys of requests. Each has many spellings with the same meaning, and some spellings that name no key. */
import type { Draw } from "./draw.ts";

/** This text is part of every text that must not appear in a log. */
export const secretTag = "hushhush";

/** A key and the request lines that state it. */
export interface RequestKey {
  /** Null when the lines name no valid key. */
  readonly key: string | null;
  /** Lines of the request's head. */
  readonly lines: readonly string[];
}

const oddities = ["", "", "", " and 'co'", ' "so"', "%41", "é ∞", "~!$&()*+/:;=?@[]^`{|}", "\\"] as const;

/** Draws one of the names that the current generation of keys uses. */
export const nameOf = (draw: Draw, count = 5): string => `${secretTag}-${draw.generation}-${draw.below(count)}`;

/** A name with unusual characters, which depend only on the name. */
export function oddName(draw: Draw, count = 5): string {
  const name = nameOf(draw, count);
  return `${name}${oddities[(Number(name.at(-1)) + draw.generation) % oddities.length] ?? ""}`;
}

/** The UTF-8 bytes of a text, one character for each. */
export const utf8 = (text: string): string => Buffer.from(text, "utf8").toString("latin1");

/** A name in random case. */
export const anyCase = (draw: Draw, text: string): string =>
  draw.each(text, (letter) => (draw.chance(0.3) ? swapped(letter) : letter));

const swapped = (letter: string): string =>
  letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase();

export function byHeader(draw: Draw, field: string): RequestKey {
  const name = anyCase(draw, field);
  if (draw.chance(0.12)) {
    const invalidForms = [
      [],
      [`${name}:`],
      [`${name}: \t `],
      [`${name}: ${secretTag}-a, ${secretTag}-b`],
      [`${name}: ${secretTag}-a`, `${name}: ${secretTag}-a`],
      [`${name}: ,`],
    ] as const;
    return { key: null, lines: draw.one<readonly string[]>(invalidForms) };
  }
  const key = oddName(draw);
  const [before, after] = [draw.one(["", " ", "  ", "\t"]), draw.one(["", "", " ", " \t "])];
  return { key, lines: [`${name}:${before}${utf8(key)}${after}`] };
}

export function byCookie(draw: Draw, cookie: string): RequestKey {
  const others = ["theme=dark", `${cookie}x=${secretTag}`, "=", ";", "a", `x${cookie}=1`, "%=%ff"] as const;
  const noise = (): string => (draw.chance(0.4) ? `${draw.one(others)}; ` : "");
  if (draw.chance(0.12)) {
    const invalidForms = ["", `${cookie}=`, `${cookie}=a; ${cookie}=b`, cookie, `${cookie}=a,b`] as const;
    return { key: null, lines: [`Cookie: ${noise()}${draw.one(invalidForms)}`] };
  }
  const key = nameOf(draw);
  const spelled = draw.one([key, percentEncoded(draw, key), `"${key}"`, ` ${key} `]);
  const repeated = draw.chance(0.2) ? `; ${cookie}=${key}` : "";
  return { key, lines: [`${anyCase(draw, "Cookie")}: ${noise()}${cookie}=${spelled}${repeated}`] };
}

/** Parameters of the query, instead of request lines. */
export function byQuery(draw: Draw, parameter: string): { key: string | null; query: string[] } {
  if (draw.chance(0.12)) {
    const invalidForms = [[], [`${parameter}=`], [parameter], [`${parameter}=a`, `${parameter}=b`]];
    return { key: null, query: invalidForms[draw.below(invalidForms.length)] ?? [] };
  }
  const key = oddName(draw);
  const value = (): string =>
    draw.each(encodeURIComponent(key), (each) => each).replaceAll("%20", draw.one(["%20", "+"]));
  const name = draw.one([parameter, percentEncoded(draw, parameter)]);
  const query = [`${name}=${value()}`];
  if (draw.chance(0.2)) query.push(`${parameter}=${value()}`);
  if (draw.chance(0.2)) query.unshift(`${parameter}x=${secretTag}`, "&", "=", "%zz=%ff");
  return { key, query };
}

/** Percent-encodes random characters, with hexadecimal digits in either case. */
export const percentEncoded = (draw: Draw, text: string): string =>
  draw.each(text, (each) => {
    if (!draw.chance(0.2)) return each;
    const digits = each.charCodeAt(0).toString(16).padStart(2, "0");
    return `%${draw.one([digits, digits.toUpperCase()])}`;
  });

/** An address in its canonical form, and one of its spellings. */
export interface DrawnAddress {
  readonly key: string | null;
  readonly text: string;
}

const noAddresses = [
  "",
  "unknown",
  "203.0.113",
  "203.0.113.256",
  "203.0.113.7.8",
  "203.0.113.7:65536",
  "[2001:db8::1",
  "fe80::1%eth0",
  "2001:db8::1::2",
  "-",
  "::ffff:203.0.113",
  "0x7f.1",
  "2001:db8:0:0:0:0:0:0:1",
] as const;

type PrefixBits = 56 | 64 | 128;

/** An address that is not in any list of a policy. */
export function drawAddress(draw: Draw, prefixBits: PrefixBits): DrawnAddress {
  if (draw.chance(0.08)) return { key: null, text: draw.one(noAddresses) };
  return draw.chance(0.5) ? ipv4Address(draw, plainIpv4(draw)) : ipv6Address(draw, prefixBits);
}

/** An address in a form that proxies write in lists: with a port or in quotation marks. */
export function asForwardedEntry(draw: Draw, address: string): string {
  if (address === "" || draw.chance(0.7)) return address;
  const host = address.includes(":") ? `[${address}]` : address;
  return draw.one([host, `${host}:${draw.below(65_536)}`, `"${host}"`, `"${host}:80"`]);
}

const plainIpv4 = (draw: Draw): readonly number[] => [100, 64, draw.generation % 256, draw.below(4)];

/** An IPv4 address in one of its spellings. */
export function ipv4Address(draw: Draw, bytes: readonly number[]): DrawnAddress {
  const key = bytes.join(".");
  const [a = "", b = ""] = [0, 2].map((index) => (((bytes[index] ?? 0) << 8) | (bytes[index + 1] ?? 0)).toString(16));
  const mapped = `::ffff:${a}:${b}`;
  const clothes = [
    key,
    `::ffff:${key}`,
    mapped,
    mapped.toUpperCase(),
    `64:ff9b::${key}`,
    `0064:FF9B::${a}:${b}`,
    `0:0:0:0:0:ffff:${key}`,
  ] as const;
  return { key, text: draw.chance(0.4) ? key : draw.one(clothes) };
}

function ipv6Address(draw: Draw, prefixBits: PrefixBits): DrawnAddress {
  const site = (0x1000 + draw.generation * 4 + draw.below(3)).toString(16);
  const network = ["2001", "db8", site];
  // The last 8 bits of a prefix of 56 bits are the first 8 bits of the fourth group.
  const groups = {
    56: [...network, `7${draw.hex(2)}`],
    64: [...network, "7"],
    128: [...network, "0", "0", "0", "0", "1"],
  }[prefixBits];
  const own = Array.from({ length: 8 - groups.length }, () => draw.hex(draw.one([1, 4])));
  return {
    key: `${site}::/${prefixBits}`,
    text: spelledIpv6(draw, [...groups, ...own]),
  };
}

function spelledIpv6(draw: Draw, groups: readonly string[]): string {
  const padded = groups.map((group) => (draw.chance(0.3) ? group.padStart(4, "0") : group));
  const text = padded.join(":");
  const shortened = draw.chance(0.5) ? text.replace(/:(?:0{1,4}:)+/, "::") : text;
  return draw.chance(0.3) ? shortened.toUpperCase() : shortened;
}
