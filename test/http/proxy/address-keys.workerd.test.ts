import { describe, expect, it } from "vitest";
import { headgate, statusOf } from "../harness.ts";

type Headers = Record<string, string>;

/** The statuses of successive requests with these headers, under a limit of one request per hour and address. */
async function statusesOf(fields: object, requests: readonly Headers[]): Promise<number[]> {
  const policy = { name: "a", limits: "1/hour", strategy: "fixed-window", ...fields };
  const { send } = headgate({ POLICIES: [policy] });
  const statuses = [];
  for (const headers of requests) {
    // oxlint-disable-next-line no-await-in-loop
    statuses.push(await statusOf(send("/", { headers })));
  }
  return statuses;
}

const at = (address: string): Headers => ({ "CF-Connecting-IP": address });
const forwarded = (...hops: string[]): Headers => ({
  ...at("198.51.100.9"),
  "X-Forwarded-For": hops.join(", "),
});

describe("K01: the connecting address", () => {
  const forgeries: Headers[] = [
    { "X-Forwarded-For": "203.0.113.1" },
    { "X-Forwarded-For": "203.0.113.1, 203.0.113.2" },
    { Forwarded: 'for="203.0.113.1";proto=https' },
    { "True-Client-IP": "203.0.113.1" },
    { "X-Real-IP": "203.0.113.1" },
    { "X-Client-IP": "203.0.113.1" },
    { "CF-Connecting-IPv6": "2001:db8::1" },
    { "CF-Pseudo-IPv4": "240.0.0.1" },
    { "CF-Worker": "evil.example" },
    { Connection: "CF-Connecting-IP" },
  ];

  it("K01: CF-Connecting-IP is charged, whatever other address fields a request has", async () => {
    const requests = [{}, ...forgeries].map((forged) => ({ ...at("192.0.2.1"), ...forged }));
    const statuses = await statusesOf({}, requests);
    expect(statuses).toEqual([200, ...forgeries.map(() => 429)]);
  });

  it("K01: requests without CF-Connecting-IP share one limit", async () => {
    const statuses = await statusesOf({}, forgeries);
    expect(statuses).toEqual([200, ...forgeries.slice(1).map(() => 429)]);
  });
});

describe("K02: an IPv6 network", () => {
  it("K02: all addresses of an IPv6 /64 network, in every spelling, are one visitor", async () => {
    expect(
      await statusesOf({}, [
        at("2001:db8:0:1::1"),
        at("2001:DB8:0:1:ffff:ffff:ffff:ffff"),
        at("2001:0db8:0000:0001::"),
        at("2001:db8::1:0:0:0:9"),
        at("2001:db8:0:2::1"),
      ]),
    ).toEqual([200, 429, 429, 429, 200]);
  });

  it.for<[number, string, string]>([
    [32, "2001:db8:ffff::1", "2001:db9::1"],
    [48, "2001:db8:0:ffff::1", "2001:db8:1::1"],
    [56, "2001:db8:0:ff::1", "2001:db8:0:100::1"],
    [60, "2001:db8:0:f::1", "2001:db8:0:10::1"],
    [128, "2001:DB8:0::1", "2001:db8::2"],
  ])("K02: ipv6Prefix = %i sets the size of a visitor's network", async ([ipv6Prefix, within, beyond]) => {
    const requests = [at("2001:db8::1"), at(within), at(beyond)];
    expect(await statusesOf({ ipv6Prefix }, requests)).toEqual([200, 429, 200]);
  });

  it("K02: /check groups an IPv6 address by the policy's ipv6Prefix", async () => {
    const policy = { name: "a", limits: "3/hour", strategy: "fixed-window", ipv6Prefix: 48 };
    const { send, check } = headgate({ POLICIES: [policy] });
    await statusOf(send("/", { headers: at("2001:db8:1:2::3") }));
    const remaining = async (key: string): Promise<unknown> => {
      const response = await check("GET", `/check?key=${key}`);
      return (await response.json<{ limits: { remaining: number }[] }>()).limits[0]?.remaining;
    };
    expect(await remaining("2001:DB8:1:ffff::")).toBe(2);
    expect(await remaining("2001:db8:2::")).toBe(3);
  });
});

describe("K03: an IPv4 address", () => {
  it("K03: plain, IPv4-mapped and NAT64 forms of an IPv4 address are one visitor", async () => {
    expect(
      await statusesOf({}, [
        at("1.2.3.4"),
        at("::ffff:1.2.3.4"),
        at("::ffff:102:304"),
        at("::FFFF:0102:0304"),
        at("64:ff9b::1.2.3.4"),
        at("64:ff9b::102:304"),
      ]),
    ).toEqual([200, 429, 429, 429, 429, 429]);
  });

  it("K03: different mapped IPv4 addresses are different visitors, and so is an IPv6 address that only ends like one", async () => {
    const requests = ["::ffff:1.2.3.4", "::ffff:1.2.3.5", "64:ff9b::1.2.3.6", "2001:db8::1.2.3.4"];
    for (const ipv6Prefix of [32, 64, 128]) {
      // oxlint-disable-next-line no-await-in-loop
      const statuses = await statusesOf({ ipv6Prefix }, requests.map(at));
      expect(statuses).toEqual([200, 200, 200, 200]);
    }
  });
});

describe("K11: Workers of other zones", () => {
  const workersAddress = "2a06:98c0:3600::103";

  it("K11: Workers of other zones, which share one address, are distinguished by zone", async () => {
    const fromZone = (zone: string, address = workersAddress): Headers => ({
      ...at(address),
      "CF-Worker": zone,
    });
    expect(
      await statusesOf({}, [
        fromZone("one.example"),
        fromZone("two.example"),
        fromZone("one.example"),
        fromZone("ONE.example"),
        fromZone("two.example", "2A06:98C0:3600:0:0:0:0:103"),
        at(workersAddress),
        at(workersAddress),
      ]),
    ).toEqual([200, 200, 429, 429, 429, 200, 429]);
  });

  it("K11: CF-Worker is ignored for all other addresses", async () => {
    const neighbour = (zone: string): Headers => ({
      ...at("2a06:98c0:3600::104"),
      "CF-Worker": zone,
    });
    expect(await statusesOf({}, [neighbour("one.example"), neighbour("two.example")])).toEqual([200, 429]);
  });
});

describe("trustedProxies", () => {
  it("trustedProxies = n uses the n-th address from the right, whatever precedes it", async () => {
    const requests = [
      forwarded("203.0.113.1", "192.0.2.1"),
      forwarded("6.6.6.6", "203.0.113.1", "192.0.2.2"),
      forwarded("not an address", "", "203.0.113.1", "192.0.2.3"),
      forwarded("203.0.113.2", "192.0.2.1"),
    ];
    expect(await statusesOf({ trustedProxies: 2 }, requests)).toEqual([200, 429, 429, 200]);
  });

  it("trustedProxies = 1 uses the last address, with or without spaces", async () => {
    const requests = [
      forwarded("203.0.113.1"),
      { "X-Forwarded-For": "9.9.9.9,203.0.113.1" },
      { "X-Forwarded-For": "9.9.9.9 ,   ::ffff:203.0.113.1 " },
      forwarded("203.0.113.1", "203.0.113.2"),
    ];
    expect(await statusesOf({ trustedProxies: 1 }, requests)).toEqual([200, 429, 429, 200]);
  });

  it("with trustedProxies, the key part is missing when X-Forwarded-For is absent, too short or has no address at the position", async () => {
    const requests = [
      forwarded("203.0.113.1"),
      forwarded("203.0.113.2"),
      at("198.51.100.1"),
      forwarded("unknown", "192.0.2.1"),
      forwarded("", "192.0.2.1"),
      forwarded("203.0.113.9:4711x", "192.0.2.1"),
      forwarded("203.0.113.9:65536", "192.0.2.1"),
      forwarded("[203.0.113.9]:80", "192.0.2.1"),
      forwarded("[2001:db8::1]443", "192.0.2.1"),
      forwarded('"203.0.113.9', "192.0.2.1"),
      forwarded("for=203.0.113.9", "192.0.2.1"),
    ];
    expect(await statusesOf({ trustedProxies: 2 }, requests)).toEqual([
      200, 429, 429, 429, 429, 429, 429, 429, 429, 429, 429,
    ]);
    const denied = await statusesOf({ trustedProxies: 2, onMissingKey: "deny" }, requests);
    expect(denied).toEqual(requests.map(() => 403));
  });

  it.for([
    ["203.0.113.7", ["203.0.113.7:5678", '"203.0.113.7"', '"203.0.113.7:80"', "203.0.113.7:0"]],
    ["203.0.113.7", ["[::ffff:203.0.113.7]:443", "[64:ff9b::cb00:7107]", "203.0.113.7:65535"]],
    ["2001:db8::1", ["[2001:db8::1]", "[2001:db8::2]:443", '"[2001:DB8::3]"', '"[2001:db8:0:0::4]:80"']],
  ] as const)("with trustedProxies, %s is charged also when written with a port: %j", async ([plain, written]) => {
    const requests = [plain, ...written].map((each) => forwarded(each, "192.0.2.1"));
    const statuses = await statusesOf({ trustedProxies: 2, onMissingKey: "skip" }, requests);
    expect(statuses).toEqual([200, ...written.map(() => 429)]);
  });

  it("with trustedProxies, two different addresses with ports are two visitors", async () => {
    const requests = ["203.0.113.7:1000", "203.0.113.8:1000", "203.0.113.7:2000"];
    const visitors = requests.map((each) => forwarded(each));
    expect(await statusesOf({ trustedProxies: 1 }, visitors)).toEqual([200, 200, 429]);
  });

  it("with trustedProxies, IPv6 is grouped by prefix and CF-Worker is ignored", async () => {
    const requests = [
      forwarded("2001:db8::1"),
      forwarded("2001:db8::2"),
      { ...forwarded("2a06:98c0:3600::103"), "CF-Worker": "one.example" },
      { ...forwarded("2a06:98c0:3600::103"), "CF-Worker": "two.example" },
    ];
    expect(await statusesOf({ trustedProxies: 1 }, requests)).toEqual([200, 429, 200, 429]);
  });
});
