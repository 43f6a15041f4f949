/** Scenarios of keys: every key part, in every spelling, and every way in which a key part can be missing. */
import type { Draw } from "./draw.ts";
import {
  byCookie,
  byHeader,
  byQuery,
  nameOf,
  ipv4Address,
  secretTag,
  drawAddress,
  anyCase,
  asForwardedEntry,
} from "./people.ts";
import { allOf, charge, type DrawnRequest, longWindow, type Scenario } from "./scenarios.ts";
import { bearer } from "./tokens.ts";

const few = 8;
const log = (limit: number): object => ({ limit, window: longWindow, strategy: "sliding-log" });
const fixed = (limit: number): object => ({ limit, window: longWindow, strategy: "fixed-window" });
const sharded = { objects: "sharded", shards: 4 };

const header: Scenario = {
  name: "header",
  policies: [{ name: "header", match: allOf("header"), key: "header:X-Key", limits: log(few), ...sharded }],
  draw: (draw) => {
    const { key, lines } = byHeader(draw, "X-Key");
    return { lines, charges: [charge("header", key, few)] };
  },
};

/** A request without the cookie is charged to its address, which has its own quota. */
const cookie: Scenario = {
  name: "cookie",
  policies: [
    {
      name: "cookie",
      match: allOf("cookie"),
      key: "cookie:sid",
      onMissingKey: "ip",
      limits: fixed(few),
      ...sharded,
    },
  ],
  draw: (draw) => {
    const { key, lines } = byCookie(draw, "sid");
    const { key: address, text } = drawAddress(draw, 64);
    const charged = charge("cookie", key ?? `address ${address}`, few);
    return {
      lines: [...lines, `CF-Connecting-IP: ${text}`],
      charges: [key === null ? { ...charged, named: null } : charged],
    };
  },
};

const query: Scenario = {
  name: "query",
  policies: [
    {
      name: "query",
      match: allOf("query"),
      key: ["query:user"],
      onMissingKey: "deny",
      limits: { limit: few, window: longWindow, strategy: "sliding-window-counter" },
      ...sharded,
    },
  ],
  draw: (draw) => {
    const { key, query: parameters } = byQuery(draw, "user");
    const charges = key === null ? [] : [charge("query", key, few)];
    return { query: parameters, charges, isBarred: key === null };
  },
};

const path: Scenario = {
  name: "path",
  policies: [
    {
      name: "path",
      match: allOf("path"),
      key: ["path"],
      limits: { limit: few, window: longWindow, strategy: "token-bucket" },
      ...sharded,
    },
  ],
  draw: (draw) => {
    const below = [nameOf(draw), ...(draw.chance(0.2) ? ["~a-b_c.d"] : [])];
    return { path: below, charges: [charge("path", `/path/${below.join("/")}`, few)] };
  },
};

const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"] as const;

const server: Scenario = {
  name: "server",
  policies: [
    {
      name: "server",
      match: allOf("server"),
      key: ["method", "host"],
      limits: { limit: few, window: longWindow, strategy: "sliding-buckets" },
      ...sharded,
    },
  ],
  draw: (draw) => {
    const name = `${nameOf(draw, 2)}.example`;
    const method = draw.one(methods);
    const host = `${anyCase(draw, name)}${draw.one(["", "", ".", ":80", ":8443", ".:8080"])}`;
    return {
      method,
      host,
      charges: [{ ...charge("server", `${method} ${name}`, few), named: [method, name] }],
    };
  },
};

const placeless: readonly unknown[] = [undefined, null, "", [], ["DE"], {}];

/** The policy is skipped if Cloudflare has no location data. */
const place: Scenario = {
  name: "place",
  policies: [
    {
      name: "place",
      match: allOf("place"),
      key: ["country", "continent", "asn", "colo"],
      onMissingKey: "skip",
      limits: { limit: few, window: longWindow, strategy: "leaky-bucket", mode: "police" },
      ...sharded,
    },
  ],
  draw: (draw) => {
    const asn = 60_000 + draw.generation * 4 + draw.below(4);
    const known: Record<string, unknown> = {
      country: "DE",
      continent: "EU",
      asn: draw.one([asn, String(asn)]),
      colo: "FRA",
    };
    const isKnown = !draw.chance(0.15);
    if (!isKnown) known[draw.one(Object.keys(known))] = draw.one(placeless);
    const charged = { ...charge("place", `${asn}`, few), named: ["DE", "EU", `${asn}`, "FRA"] };
    return { lines: [`X-Cf: ${JSON.stringify(known)}`], charges: isKnown ? [charged] : [] };
  },
};

const ofPro = 14;

const claim: Scenario = {
  name: "claim",
  policies: [
    {
      name: "claim",
      match: allOf("claim"),
      key: "jwt:sub",
      limits: log(few),
      overrides: [{ when: "jwt:plan=pro", limits: log(ofPro) }],
    },
  ],
  draw: async (draw) => {
    const { key, isPro, lines } = await bearer(draw);
    const looked = charge("claim", key, few);
    const charged = isPro ? charge("claim", key, ofPro, { looked: looked.quotas }) : looked;
    return { lines, charges: [charged] };
  },
};

const address: Scenario = {
  name: "address",
  policies: [
    {
      name: "address",
      match: allOf("address"),
      limits: fixed(few),
      allow: ["198.51.100.0/25", "2001:db8:a110::/48"],
      deny: ["198.51.100.128/25", "2001:db8:bad::/48", "192.0.2.*"],
      overrides: [{ key: "203.0.113.0/25", limits: fixed(ofPro) }],
      ...sharded,
    },
  ],
  draw: keyRules,
};

function keyRules(draw: Draw): DrawnRequest {
  const last = draw.below(128);
  const kind = draw.below(10);
  const from = (text: string, rest: Omit<DrawnRequest, "lines">): DrawnRequest => ({
    lines: [`CF-Connecting-IP: ${text}`],
    ...rest,
  });
  if (kind === 0) return from(ipv4Address(draw, [198, 51, 100, last]).text, { charges: [] });
  if (kind === 1) return from(`2001:DB8:A110:${draw.hex(4)}::1`, { charges: [] });
  if (kind === 2) {
    const denied = draw.one([
      [198, 51, 100, 128 + last],
      [192, 0, 2, last],
    ]);
    return from(ipv4Address(draw, denied).text, { charges: [], isBarred: true });
  }
  if (kind === 3) return from(`2001:0db8:bad::${draw.hex(3)}`, { charges: [], isBarred: true });
  if (kind === 4) {
    const { key, text } = ipv4Address(draw, [203, 0, 113, draw.generation % 128]);
    return from(text, { charges: [{ ...charge("address", key, ofPro), named: [text] }] });
  }
  const { key, text } = drawAddress(draw, 64);
  return from(text, { charges: [charge("address", key, few, { named: named(key, text) })] });
}

const named = (key: string | null, text: string): string[] | null => (key === null ? null : [text]);

/** The client is the second entry from the right, regardless of the other entries of the list. */
const proxied: Scenario = {
  name: "proxied",
  policies: [
    {
      name: "proxied",
      match: allOf("proxied"),
      key: ["ip", "global"],
      trustedProxies: 2,
      ipv6Prefix: 56,
      limits: log(few),
      ...sharded,
    },
  ],
  draw: (draw) => {
    const { key, text } = drawAddress(draw, 56);
    const forged = Array.from({ length: draw.below(4) }, () => drawAddress(draw, 56).text);
    const own = draw.one([" 192.0.2.1", "192.0.2.1", "\t2001:db8::1 ", secretTag]);
    const isShort = draw.chance(0.1);
    const list = isShort ? [own] : [...forged, draw.one(["", " "]) + asForwardedEntry(draw, text), own];
    const cut = draw.below(list.length);
    const lines = draw.chance(0.2) ? [list.slice(0, cut), list.slice(cut)].filter((part) => part.length > 0) : [list];
    const charged = isShort ? null : key;
    return {
      lines: [
        ...lines.map((part) => `X-Forwarded-For: ${part.join(",")}`),
        `CF-Connecting-IP: ${drawAddress(draw, 64).text}`,
      ],
      charges: [charge("proxied", charged, few, { named: charged === null ? null : [text, "all"] })],
    };
  },
};

const narrow: Scenario = {
  name: "narrow",
  policies: [
    {
      name: "narrow",
      match: allOf("narrow"),
      key: "ip, header:X-Key",
      ipv6Prefix: 128,
      limits: fixed(few),
      durability: "confirmed",
      ...sharded,
    },
  ],
  draw: (draw) => {
    const { key, text } = drawAddress(draw, 128);
    const { key: name, lines } = byHeader(draw, "X-Key");
    const isWhole = key !== null && name !== null;
    const charged = charge("narrow", JSON.stringify([key, name]), few, {
      named: isWhole ? [text, name] : null,
    });
    return { lines: [`CF-Connecting-IP: ${text}`, ...lines], charges: [charged] };
  },
};

export const byKey: readonly Scenario[] = [header, cookie, query, path, server, place, claim, address, proxied, narrow];
