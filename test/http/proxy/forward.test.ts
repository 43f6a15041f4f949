import { describe, expect, it } from "vitest";
import { addForwardingFields, forwardsLeft, hasLooped } from "../../../src/http/proxy/forward.ts";

type Sent = Record<string, string>;

/** The header fields that the origin would receive. */
function forwarded(headers: Sent, cf?: object): Headers {
  const url = new URL("https://headgate.example/");
  const received = Object.assign(new Request(url, { headers }), { cf }) as unknown as Request;
  const copy = new Headers(headers);
  addForwardingFields(copy, received, url, "us");
  return copy;
}

const visitor = { "CF-Connecting-IP": "203.0.113.7" };

describe("X-Forwarded-*", () => {
  it.for([
    ["no addresses", {}, "203.0.113.7"],
    ["other addresses", { "X-Forwarded-For": "192.0.2.1, x" }, "192.0.2.1, x, 203.0.113.7"],
    ["the visitor's address", { "X-Forwarded-For": "192.0.2.1,203.0.113.7" }, "192.0.2.1,203.0.113.7"],
  ] as const)("X-Forwarded-For ends in the visitor's address after %s", ([, sent, expected]) => {
    expect(forwarded({ ...visitor, ...sent }).get("X-Forwarded-For")).toBe(expected);
  });

  it('X-Forwarded-For ends with "unknown" when Cloudflare has sent no client address', () => {
    const headers = forwarded({ "X-Forwarded-For": "192.0.2.1" });
    expect(headers.get("X-Forwarded-For")).toBe("192.0.2.1, unknown");
    expect(headers.get("Forwarded")).toContain("for=unknown;");
  });

  it("X-Forwarded-Proto and X-Forwarded-Host come from the request's URL, not from the fields that the client has sent", () => {
    const spoofed = { "X-Forwarded-Proto": "ftp", "X-Forwarded-Host": "evil.example" };
    const headers = forwarded({ ...visitor, ...spoofed });
    expect(headers.get("X-Forwarded-Proto")).toBe("https");
    expect(headers.get("X-Forwarded-Host")).toBe("headgate.example");
  });
});

describe("Forwarded", () => {
  const element = 'for=203.0.113.7;host="headgate.example";proto=https';

  it.for([
    "for=192.0.2.43",
    'For="[2001:db8:cafe::17]:4711"',
    "for=192.0.2.60;proto=http;by=203.0.113.43",
    'for=192.0.2.43, for="[2001:db8:cafe::17]"',
    'for="a \\" quoted, one"',
    "for=_gazonk;secret=`'!",
  ])("a valid Forwarded list is appended to: %s", (before) => {
    const headers = forwarded({ ...visitor, Forwarded: before });
    expect(headers.get("Forwarded")).toBe(`${before}, ${element}`);
  });

  it.for([
    "for",
    "for=",
    "for=[2001:db8::1]",
    'for="unclosed',
    "for=a; proto=http",
    "for=a b",
    ";",
    ",",
    "for=a,",
    `for=${"a".repeat(4_096)}`,
  ])("an invalid Forwarded list is replaced: %s", (before) => {
    const headers = forwarded({ ...visitor, Forwarded: before });
    expect(headers.get("Forwarded")).toBe(element);
  });
});

it("a Forwarded field of up to 4,096 characters is extended, and a longer one is replaced", () => {
  const [longest, longer] = [4_096, 4_097].map((length) => "for=".padEnd(length, "a"));
  const sent = (before = ""): string | null => forwarded({ ...visitor, Forwarded: before }).get("Forwarded");
  expect(sent(longest)).toMatch(/^for=a{4092}, for=/);
  expect(sent(longer)).toMatch(/^for=(?!a)/);
});

describe("Via", () => {
  it.for([
    ["HTTP/1.1", "1.1"],
    ["HTTP/2", "2"],
    ["HTTP/3", "3"],
    ["HTTP/1.0", "1.0"],
    ["nonsense", "1.1"],
    [undefined, "1.1"],
  ] as const)("Via has the HTTP version that the client speaks: %s", ([httpProtocol, version]) => {
    expect(forwarded(visitor, { httpProtocol }).get("Via")).toBe(`${version} us`);
  });

  it.for([
    ["1.1 us", true],
    ["1.0 fred, 1.1 us (comment)", true],
    ["HTTP/1.1   us", true],
    ["2 a,3 us,1.1 b", true],
    ["1.1 us-too", false],
    ["1.1 not-us", false],
    ["us", false],
    ["1.1 fred (us)", false],
    ["", false],
  ] as const)("a Via of %j names the deployment 'us': %j", ([via, expected]) => {
    expect(hasLooped(new Headers({ Via: via }), "us")).toBe(expected);
  });
});

describe("Max-Forwards", () => {
  const forwardsLeftAt = (method: string, value: string): number | null =>
    forwardsLeft(new Request("https://a.example", { method, headers: { "Max-Forwards": value } }));

  it.for([
    ["0", 0],
    ["7", 7],
    ["007", 7],
    ["999999999", 999_999_999],
    ["", null],
    ["-1", null],
    ["1.5", null],
    ["5, 6", null],
    ["1e3", null],
    ["0000000000", 0],
    // Greater values are reduced to this one.
    ["10000000000000000000", 2 ** 31],
  ] as const)("an OPTIONS request with Max-Forwards %j may pass %j more gateways", ([value, expected]) => {
    expect(forwardsLeftAt("OPTIONS", value)).toBe(expected);
  });

  it.for(["GET", "POST", "DELETE"])("Max-Forwards has no effect on a %s request", (method) => {
    expect(forwardsLeftAt(method, "0")).toBe(null);
  });
});
