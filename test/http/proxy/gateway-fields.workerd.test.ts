/** What the proxy changes in the fields of a request, and what it answers in the origin's place. */
import { afterEach, describe, expect, it, vi } from "vitest";
import { forwardsLeft, hasLooped } from "../../../src/http/proxy/gateway-fields.ts";
import { from, headgate, statusOf } from "../harness.ts";

afterEach(() => void vi.useRealTimers());

const unlimited = { LIMITS: "1000/minute" };
const visitor = from("203.0.113.7");

type Sent = Record<string, string>;

/** The fields that the origin receives. */
async function received(headers: Sent, method = "GET"): Promise<Sent> {
  const { send } = headgate(unlimited);
  const response = await send("/echo", { method, headers });
  return (await response.json<{ headers: Sent }>()).headers;
}

describe("X-Forwarded-*", () => {
  it.for([
    ["none", {}, "203.0.113.7"],
    ["others before", { "X-Forwarded-For": "192.0.2.1, x" }, "192.0.2.1, x, 203.0.113.7"],
    [
      "the visitor already",
      { "X-Forwarded-For": "192.0.2.1,203.0.113.7" },
      "192.0.2.1,203.0.113.7",
    ],
  ] as const)("end in the visitor's address after %s", async ([, sent, expected]) => {
    const headers = await received({ ...visitor.headers, ...sent });
    expect(headers["x-forwarded-for"]).toBe(expected);
  });

  it("end in unknown where nobody tells the address, whatever the client says", async () => {
    const headers = await received({ "X-Forwarded-For": "192.0.2.1" });
    expect(headers["x-forwarded-for"]).toBe("192.0.2.1, unknown");
    expect(headers["forwarded"]).toContain("for=unknown;");
  });

  it("tell the scheme and the host that were asked for, and not those that a client tells", async () => {
    const spoofed = { "X-Forwarded-Proto": "ftp", "X-Forwarded-Host": "evil.example" };
    expect(await received({ ...visitor.headers, ...spoofed })).toMatchObject({
      "x-forwarded-proto": "https",
      "x-forwarded-host": "headgate.example",
    });
  });
});

describe("Forwarded", () => {
  const ours = 'for=203.0.113.7;host="headgate.example";proto=https';

  it.for([
    "for=192.0.2.43",
    'For="[2001:db8:cafe::17]:4711"',
    "for=192.0.2.60;proto=http;by=203.0.113.43",
    'for=192.0.2.43, for="[2001:db8:cafe::17]"',
    'for="a \\" quoted, one"',
    "for=_gazonk;secret=`'!",
  ])("is appended to where it is well-formed: %s", async (before) => {
    const headers = await received({ ...visitor.headers, Forwarded: before });
    expect(headers["forwarded"]).toBe(`${before}, ${ours}`);
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
  ])("is replaced where it would spoil what is added: %s", async (before) => {
    const headers = await received({ ...visitor.headers, Forwarded: before });
    expect(headers["forwarded"]).toBe(ours);
  });
});

it("a Forwarded field of 4,096 characters is appended to, and a longer one is replaced", async () => {
  const [longest, longer] = [4_096, 4_097].map((length) => "for=".padEnd(length, "a"));
  const sent = async (before = ""): Promise<string | undefined> =>
    (await received({ ...visitor.headers, Forwarded: before }))["forwarded"];
  expect(await sent(longest)).toMatch(/^for=a{4092}, for=/);
  expect(await sent(longer)).toMatch(/^for=(?!a)/);
});

describe("Via", () => {
  it.for([
    ["HTTP/1.1", "1.1"],
    ["HTTP/2", "2"],
    ["HTTP/3", "3"],
    ["HTTP/1.0", "1.0"],
    ["nonsense", "1.1"],
    [undefined, "1.1"],
  ] as const)("tells the version that the client speaks: %s", async ([httpProtocol, version]) => {
    const { send } = headgate(unlimited);
    const cf = { httpProtocol } as unknown as IncomingRequestCfProperties;
    const response = await send("/echo", { ...visitor, cf });
    const { headers } = await response.json<{ headers: Sent }>();
    expect(headers["via"]).toMatch(new RegExp(`^${version} headgate-[\\w-]{8}$`));
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
  ] as const)("of %j has passed here: %j", ([via, expected]) => {
    expect(hasLooped(new Headers({ Via: via }), "us")).toBe(expected);
  });

  it("differs between deployments, so that one may stand before another", async () => {
    const first = await received(visitor.headers);
    const second = await received({ ...visitor.headers, Via: first["via"] ?? "" });
    const [before, ours] = (second["via"] ?? "").split(", ");
    expect(before).toBe(first["via"]);
    expect(ours).not.toBe(before);
  });
});

describe("Max-Forwards", () => {
  const left = (method: string, value: string): number | null =>
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
    // More than anybody counts down.
    ["10000000000000000000", 2 ** 31],
  ] as const)("of %j on an OPTIONS leaves %j", ([value, expected]) => {
    expect(left("OPTIONS", value)).toBe(expected);
  });

  it.for(["GET", "POST", "DELETE"])("means nothing on a %s", (method) => {
    expect(left(method, "0")).toBe(null);
  });
});

describe("ORIGIN_TIMEOUT", () => {
  it("answers 504 for an origin that has not begun to answer by then", async () => {
    const { send } = headgate({ ...unlimited, ORIGIN_TIMEOUT: "100ms" });
    const response = await send("/slow", visitor);
    expect(response.status).toBe(504);
    expect(response.headers.get("Proxy-Status")).toMatch(/;error=http_response_timeout$/);
    expect(await response.json()).toMatchObject({ type: "about:blank", title: "Gateway Timeout" });
  });

  it("does not bound how long a body takes that has begun", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { send } = headgate({ ...unlimited, ORIGIN_TIMEOUT: "30s" });
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const answer = send("/upload", { ...visitor, method: "POST", body: readable });
    const writer = writable.getWriter();
    await writer.write(new TextEncoder().encode("first "));
    const response = await answer;
    const text = response.text();
    vi.advanceTimersByTime(60_000);
    await writer.write(new TextEncoder().encode("second"));
    await writer.close();
    expect(await text).toBe("first second");
  });
});

describe("Proxy-Status", () => {
  it.for([
    ["a denial", { LIMITS: "1/minute" }, "/", 429, "http_request_error"],
    ["a visitor on a list", {}, "/listed", 403, "http_request_denied"],
    ["an origin that is down", {}, "/unreachable", 502, "destination_unavailable"],
    ["an origin that is not set", { ORIGIN: "" }, "/", 404, "proxy_configuration_error"],
    ["a loop", { ORIGIN: "https://headgate.example" }, "/", 508, "proxy_loop_detected"],
  ] as const)("marks %s", async ([, variables, path, status, error]) => {
    const listed = { name: "l", match: { path: "/listed" }, limits: "9/s", deny: ["203.0.113.7"] };
    const { send } = headgate({ ...unlimited, POLICIES: [listed], ...variables });
    if (status === 429) await statusOf(send("/", visitor));
    const response = await send(path, visitor);
    expect(response.status).toBe(status);
    expect(response.headers.get("Proxy-Status")).toMatch(
      new RegExp(`^headgate-[\\w-]{8};error=${error}$`),
    );
  });

  it("marks a request that a slot was held for, too", async () => {
    const limits = { limit: 5, window: "1m", strategy: "concurrency" };
    const { send } = headgate({ LIMITS: limits, CORS_ORIGINS: "*" });
    const headers = { ...visitor.headers, Origin: "https://app.example" };
    const response = await send("/unreachable", { headers });
    expect(response.status).toBe(502);
    expect(response.headers.get("Proxy-Status")).toMatch(/;error=destination_unavailable$/);
    expect(response.headers.get("Access-Control-Allow-Origin")).toBe("*");
  });

  it("is not on what the origin answers, nor on what /check does", async () => {
    const { send, check } = headgate(unlimited);
    const answers = [await send("/refusing", visitor), await check("GET", "/check?x=1")];
    expect(answers.map(({ status }) => status)).toEqual([429, 422]);
    for (const { headers } of answers) expect(headers.has("Proxy-Status")).toBe(false);
  });
});
