/** The formats of logs that servers, load balancers and Cloudflare write. */
import { describe, expect, it } from "vitest";
import { createLineReader, leftOut, type ReadLine } from "../../../src/advisor/log/line-reader.ts";
import { readRequestPattern, requestFilter, statusFilter } from "../../../src/advisor/log/log-filter.ts";
import { type LogAddress, readLogKey } from "../../../src/advisor/log/log-key.ts";
import { fieldName, type LogLine } from "../../../src/advisor/log/log-line.ts";
import { lineParser } from "../../../src/advisor/log/formats.ts";
import { statusFields, timeFields } from "../../../src/advisor/log/fields.ts";
import { pageBlock } from "../../docs/page-block.ts";
import { readLog } from "../../../src/advisor/log/read-log.ts";

const noon = Date.UTC(2026, 0, 5, 12);

function readerOf(key: string, address?: Partial<LogAddress>) {
  const read = readLogKey([key], { field: null, trustedProxies: null, ...address });
  if ("problem" in read) throw new Error(read.problem);
  return createLineReader({ time: null, keyOf: read.value.keyOf, cost: null });
}

/** The values of key parts in the request that the last line logs. The lines before it are headers. */
function valuesOf(lines: readonly string[], parts: readonly string[]) {
  return parts.map((part) => {
    const read = readerOf(part);
    const results = lines.map((line) => read(line));
    for (const header of results.slice(0, -1)) expect(header).toBeNull();
    return shortOf(results.at(-1) ?? null);
  });
}

const shortOf = (read: ReadLine): unknown =>
  typeof read === "object" && read !== null ? [read.atMs - noon, read.key] : read;

const formats: readonly (readonly [name: string, lines: readonly string[], ms: number])[] = [
  [
    "wrangler tail",
    [
      JSON.stringify(
        {
          outcome: "ok",
          scriptName: "shop",
          exceptions: [],
          logs: [{ message: ['a "brace" {'], level: "log", timestamp: noon + 1 }],
          eventTimestamp: noon + 250,
          event: {
            request: {
              url: "https://shop.example.com/cart/7?coupon=x",
              method: "POST",
              headers: { "cf-connecting-ip": "203.0.113.7", "user-agent": "curl/8.5" },
              cf: { country: "DE", asn: 64500, colo: "FRA" },
            },
            response: { status: 201 },
          },
        },
        null,
        2,
      ),
    ],
    250,
  ],
  [
    "Workers Logs",
    [
      JSON.stringify({
        timestamp: noon + 250,
        $workers: {
          eventType: "fetch",
          event: {
            request: {
              url: "https://shop.example.com/cart/7?coupon=x",
              method: "POST",
              headers: { "cf-connecting-ip": "203.0.113.7", "user-agent": "curl/8.5" },
            },
            response: { status: 201 },
          },
        },
        $metadata: { type: "cf-worker-event", service: "shop" },
      }),
    ],
    250,
  ],
  [
    "an Application Load Balancer of AWS",
    [
      'h2 2026-01-05T12:00:01.186641Z app/shop/50dc6c495c0c9188 203.0.113.7:2817 10.0.0.9:80 0.000 0.001 0.000 201 201 34 366 "POST https://shop.example.com:443/cart/7?coupon=x HTTP/2.0" "curl/8.5" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/shop/73e2d6bc24d8a067 "Root=1-58337364-23a8c76965a2ef7629b185e3" "shop.example.com" "session-reused" 1 2026-01-05T12:00:00.250000Z "forward" "-" "-" "10.0.0.9:80" "201" "-" "-"',
    ],
    250,
  ],
  [
    "a Classic Load Balancer of AWS",
    [
      '2026-01-05T12:00:00.250958Z shop 203.0.113.7:2817 10.0.0.9:80 0.000073 0.001048 0.000057 201 201 0 29 "POST https://shop.example.com:443/cart/7?coupon=x HTTP/1.1" "curl/8.5" - -',
    ],
    250,
  ],
  [
    "CloudFront",
    [
      "#Version: 1.0",
      "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-host-header",
      "2026-01-05\t12:00:00\tFRA56-C1\t512\t203.0.113.7\tPOST\td1.cloudfront.net\t/cart/7\t201\t-\tcurl/8.5\tcoupon=x\t-\tMiss\tshop.example.com",
    ],
    0,
  ],
  [
    "IIS",
    [
      "#Software: Microsoft Internet Information Services 10.0",
      "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port c-ip cs(User-Agent) cs(Host) sc-status",
      "2026-01-05 12:00:00 10.0.0.9 POST /cart/7 coupon=x 443 203.0.113.7 curl/8.5 shop.example.com 201",
    ],
    0,
  ],
  [
    "Envoy",
    [
      '[2026-01-05T12:00:00.250Z] "POST /cart/7?coupon=x HTTP/1.1" 201 - 0 154 12 11 "203.0.113.7" "curl/8.5" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "shop.example.com" "tcp://10.0.0.9:80"',
    ],
    250,
  ],
  [
    "Istio",
    [
      '[2026-01-05T12:00:00.250Z] "POST /cart/7?coupon=x HTTP/2" 201 - via_upstream - "-" 0 154 12 11 "203.0.113.7" "curl/8.5" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "shop.example.com" "10.0.0.9:80" outbound|80||shop.svc.cluster.local 10.0.0.8:51234 10.0.0.8:80 10.0.0.7:33210 - default',
    ],
    250,
  ],
  [
    "CSV",
    [
      '"Time",Client IP,method,URL,User-Agent,Status',
      '2026-01-05T12:00:00.25Z,203.0.113.7,POST,https://shop.example.com/cart/7?coupon=x,"curl/8.5",201',
    ],
    250,
  ],
  [
    "CSV with semicolons",
    [
      "date;time;client_ip;method;host;uri;user_agent;status",
      '2026-01-05;12:00:00;203.0.113.7;POST;shop.example.com;"/cart/7?coupon=x";curl/8.5;201',
    ],
    0,
  ],
];

const parts = ["ip", "method", "path", "host", "query:coupon", "header:user-agent"];
const values = ["203.0.113.7", "POST", "/cart/7", "shop.example.com", "x", "curl/8.5"];

/** The fields of the last line. */
function lastLine(lines: readonly string[]): LogLine {
  const parse = lineParser(timeFields, "a log");
  const line = lines.map((each) => parse(each)).at(-1);
  if (line === null || typeof line !== "object") throw new Error(String(line));
  return line;
}

describe("formats of logs", () => {
  it("every log line in the documentation is read as a request of the client at noon", () => {
    const lines = pageBlock("reference/access-logs", "log").trimEnd().split("\n");
    const [arrays, others] = [true, false].map((isArray) => lines.filter((line) => line.startsWith("[{") === isArray));
    const texts = [...(arrays ?? []), (others ?? []).join("\n")];
    const read = texts.map((text) => readLog(text, 100));
    expect(read.flatMap(({ report }) => report.firstUnread)).toEqual([]);
    const requests = read.flatMap((each) => each.requests);
    // The first two lines are headers.
    expect(requests.length).toBe(lines.length - 2);
    for (const request of requests) {
      expect(request).toEqual({ atMs: noon, key: "203.0.113.7", cost: 1 });
    }
  });

  it.each(formats)("the time and all key parts of a line in the format %s are read", (_, lines, ms) => {
    expect(valuesOf(lines, parts)).toEqual(values.map((value) => [ms, value]));
  });

  it.each(formats)("the status and the client of a line in the format %s are read without options", (_, lines, ms) => {
    expect(statusFilter("201")?.(lastLine(lines))).toBe(true);
    expect(statusFilter("4xx,200")?.(lastLine(lines))).toBe(false);
    const { requests } = readLog(lines.join("\n"), 10);
    expect(requests).toEqual([{ atMs: noon + ms, key: "203.0.113.7", cost: 1 }]);
  });

  const haproxy =
    'Jan 15 12:00:01 lb1 haproxy[14389]: 203.0.113.7:33317 [05/Jan/2026:12:00:00.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {shop.example.com|198.51.100.9} {} "GET /cart/7?coupon=x HTTP/1.1"';

  it("a HAProxy line gives the time in milliseconds, the client, the request and captured headers", () => {
    const keys = ["ip", "method", "path", "captured_1", "frontend", "backend", "server", "status"];
    expect(valuesOf([haproxy], keys)).toEqual(
      ["203.0.113.7", "GET", "/cart/7", "shop.example.com", "http-in", "static", "srv1", "200"].map((value) => [
        655,
        value,
      ]),
    );
    const plain = haproxy.slice(haproxy.indexOf("203."));
    const ipv6 = haproxy.replace("203.0.113.7:", "2001:db8:1:2::9:").replace("Jan 15", "Jan  5");
    expect(valuesOf([plain], ["ip"])).toEqual([[655, "203.0.113.7"]]);
    expect(valuesOf([ipv6], ["ip"])).toEqual([[655, "2001:db8:1:2::/64"]]);
    const captured = readerOf("ip", { field: fieldName("captured_2") });
    expect(shortOf(captured(haproxy))).toEqual([655, "198.51.100.9"]);
  });

  it("Workers trace events of Logpush give a time, a method, a path and a host, but no address", () => {
    const line = JSON.stringify({
      Event: {
        RayID: "8a1",
        Request: { URL: "https://shop.example.com/cart/7", Method: "GET" },
        Response: { Status: 200 },
      },
      EventTimestampMs: noon + 250,
      EventType: "fetch",
      Outcome: "ok",
      ScriptName: "shop",
    });
    const read = valuesOf([line], ["path", "method", "host", "scriptname"]);
    expect(read).toEqual(["/cart/7", "GET", "shop.example.com", "shop"].map((key) => [250, key]));
    expect(valuesOf([line], ["ip"])).toEqual([
      "ip is missing; the fields of the line are Event, EventTimestampMs, EventType, Outcome, ScriptName",
    ]);
    expect(statusFilter("2xx")?.(lastLine([line]))).toBe(true);
  });

  it.each([
    ["Traefik", { time: "2026-01-05T12:00:01Z", StartUTC: "2026-01-05T12:00:00.25Z", StartLocal: "-" }],
    ["Traefik", { time: "2026-01-05T12:00:01Z", StartLocal: "2026-01-05T13:00:00.25+01:00" }],
    ["nginx", { time_iso8601: "2026-01-05T12:00:00+00:00", msec: "1767614400.250" }],
    ["nginx", { time_local: "05/Jan/2026:12:00:00 +0000", msec: 1_767_614_400.25 }],
    ["CloudFront", { date: "2026-01-05", time: "12:00:00", "timestamp(ms)": String(noon + 250) }],
    ["Logpush", { EdgeEndTimestamp: noon + 900, EdgeStartTimestamp: noon + 250 }],
    ["Google Cloud", { receiveTimestamp: "2026-01-05T12:00:01.5Z", timestamp: noon + 250 }],
    ["Fluent Bit", { date: 1_767_614_401.5, start_time: "2026-01-05T12:00:00.250Z" }],
  ])("a line of %s with several times is read with the time of the request: %o", (_, times) => {
    const line = JSON.stringify({ ...times, ip: "203.0.113.7" });
    expect(valuesOf([line], ["ip"])).toEqual([[250, "203.0.113.7"]]);
  });

  it("console.log messages in Workers Logs are not read as requests", () => {
    const [, lines] = formats.find(([name]) => name === "Workers Logs") ?? ["", []];
    const message = (lines[0] ?? "").replace('"cf-worker-event"', '"cf-worker"');
    expect(readerOf("ip")(message)).toBe(leftOut);
  });

  it("a table may have a column only for the time, and cells may contain commas, quotation marks and line breaks", () => {
    const text = [
      "id,timestamp,ip,agent",
      '1,2026-01-05 12:00:00,203.0.113.7,"a ""b"", c"',
      '2,2026-01-05 12:00:01,203.0.113.8,"a',
      'line break"',
      "3,2026-01-05 12:00:02,203.0.113.9",
      "id,timestamp,ip,agent",
      "4,2026-01-05 12:00:03,203.0.113.10,",
    ].join("\r\n");
    const { requests, report } = readLog(text, 10);
    expect(requests.map(({ atMs, key }) => [atMs - noon, key])).toEqual([
      [0, "203.0.113.7"],
      [1_000, "203.0.113.8"],
      [3_000, "203.0.113.10"],
    ]);
    expect(report.firstUnread).toEqual([{ line: 5, reason: "expected 4 columns as in the header, got 3" }]);
  });

  it("lines of other formats above the header of a table are skipped, and the rows below it are read", () => {
    const text = [
      "time,ip",
      "2026-01-05T12:00:00Z,a",
      'b - - [05/Jan/2026:12:00:01 +0000] "GET / HTTP/1.1" 200 5',
      '{"time":"2026-01-05T12:00:02Z","ip":"c"}',
      "2026-01-05T12:00:03Z,d",
    ].join("\n");
    expect(readLog(text, 10).requests.map(({ key }) => key)).toEqual(["a", "b", "c", "d"]);
  });
});

describe("lists of addresses", () => {
  const line = (list: unknown): string =>
    JSON.stringify({ time: noon, remote_addr: "10.0.0.1", x_forwarded_for: list });
  const list = "198.51.100.66, 203.0.113.7, 192.0.2.1";

  it.each([
    [null, list, "192.0.2.1"],
    [1, list, "192.0.2.1"],
    [2, list, "203.0.113.7"],
    [3, "198.51.100.66:4711, [2001:db8:1:2::9]:443, 192.0.2.1", "198.51.100.66"],
    [2, ["198.51.100.66, 203.0.113.7", "192.0.2.1"], "203.0.113.7"],
    [2, "198.51.100.66,%20203.0.113.7,%20192.0.2.1", "203.0.113.7"],
    [1, [7], "ip: expected a list of at least 1 address, got [7]"],
    [2, "192.0.2.1", 'ip: expected a list of at least 2 addresses, got "192.0.2.1"'],
    [2, "nonsense, 192.0.2.1", 'ip: expected an IP address, got "nonsense"; the name'],
  ])("with %s trusted proxies, the client of %o is %s", (trustedProxies, forwarded, client) => {
    const read = readerOf("ip", { trustedProxies, field: fieldName("x_forwarded_for") });
    const result = shortOf(read(line(forwarded)));
    expect(JSON.stringify(result)).toContain(JSON.stringify(client).slice(1, -1));
  });

  it("with trusted proxies, the client comes from X-Forwarded-For, and is missing without this header", () => {
    const read = readerOf("ip", { trustedProxies: 2 });
    expect(shortOf(read(line(list)))).toEqual([0, "203.0.113.7"]);
    expect(read(line("-"))).toMatch(/^ip is missing/);
    expect(shortOf(readerOf("ip")(line(list)))).toEqual([0, "10.0.0.1"]);
  });

  it("a hyphen in the column X-Forwarded-For means that the address is missing", () => {
    const read = readerOf("ip", { trustedProxies: 1 });
    expect(read("#Fields: date time c-ip x-forwarded-for")).toBeNull();
    expect(read("2026-01-05\t12:00:00\t10.0.0.1\t-")).toMatch(/^ip is missing/);
    expect(shortOf(read("2026-01-05\t12:00:00\t10.0.0.1\t203.0.113.7"))).toEqual([0, "203.0.113.7"]);
  });

  it("lines in nginx's format main and in Envoy's default format contain X-Forwarded-For", () => {
    const nginx = `10.0.0.1 - - [05/Jan/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl/8.5" "${list}"`;
    const envoy = `[2026-01-05T12:00:00.000Z] "GET / HTTP/1.1" 200 - 0 154 12 11 "${list}" "curl/8.5" "id" "example.com" "10.0.0.9:80"`;
    const read = readerOf("ip", { trustedProxies: 2 });
    expect([nginx, envoy].map((each) => shortOf(read(each)))).toEqual([
      [0, "203.0.113.7"],
      [0, "203.0.113.7"],
    ]);
  });
});

describe("filters of requests", () => {
  const line = (request: string, status = 200): LogLine =>
    lastLine([`203.0.113.7 - - [05/Jan/2026:12:00:00 +0000] "${request} HTTP/1.1" ${status} 5`]);

  function isKept(texts: readonly string[], request: string): unknown {
    const patterns = texts.map((text) => {
      const pattern = readRequestPattern(text);
      if ("accepted" in pattern) throw new Error(pattern.accepted);
      return pattern;
    });
    return requestFilter(patterns)(line(request));
  }

  it.each([
    ["POST /login", "POST /login", true],
    ["POST /login", "POST /Login/?a=b", true],
    ["POST /login", "POST //log%69n", true],
    ["POST /login", "GET /login", false],
    ["POST /login", "POST /login/reset", false],
    ["/api/*", "DELETE /api/users/7", true],
    ["/api/*", "DELETE /api", true],
    ["/users/:id", "GET /users/7/posts", false],
    ["get,HEAD", "HEAD /", true],
    ["* /login", "PUT /login", true],
  ])("--match %j of the request %j is %s, as in a policy", (text, request, isMatch) => {
    expect(isKept([text], request)).toBe(isMatch);
  });

  it("a request is kept when at least one of several patterns matches", () => {
    const texts = ["POST /login", "/signup"];
    expect(isKept(texts, "GET /signup")).toBe(true);
    expect(isKept(texts, "GET /login")).toBe(false);
  });

  it("a line without a request has a reason, so that the report counts it as skipped", () => {
    const [pattern] = ["POST /login"].map(readRequestPattern);
    if (pattern === undefined || "accepted" in pattern) throw new Error("no pattern");
    const other = lastLine(['{"time":1767614400,"ip":"203.0.113.7"}']);
    expect(requestFilter([pattern])(other)).toMatch(/^method is missing; the fields of the line/);
    expect(statusFilter("2xx")?.(other)).toMatch(/^status is missing/);
    expect(statusFields.length).toBeGreaterThan(5);
  });

  it.each(["", "POST /a /b", "/a{b}", "PO ST", "(POST)"])("--match %j is rejected", (text) => {
    expect(readRequestPattern(text)).toHaveProperty("accepted");
  });

  it.each(["", "2x", "600", "2xx;401", "20"])("--status %j is rejected", (text) => {
    expect(statusFilter(text)).toBeNull();
  });
});
