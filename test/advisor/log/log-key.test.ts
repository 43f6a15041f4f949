/** Keys of log lines, made of the parts that a policy's key names. */
import { describe, expect, it } from "vitest";
import { type LogKey, readLogKey } from "../../../src/advisor/log/log-key.ts";
import { parseLine } from "../../../src/advisor/log/formats.ts";

function keyReaderOf(...texts: string[]): LogKey {
  const read = readLogKey(texts);
  if ("problem" in read) throw new Error(read.problem);
  return read.value;
}

/** The key of a line, or the reason why it has none. */
function keyOf(key: string, line: string): string {
  const parsed = parseLine(line);
  if (parsed === null) throw new Error(`no line: ${line}`);
  const read = keyReaderOf(key).keyOf(parsed);
  return "key" in read ? read.key : `no key: ${read.reason}`;
}

const combined =
  'example.com:443 203.0.113.7 - ana [05/Jan/2026:12:00:00 +0000] "POST /Users/%34?page=2 HTTP/1.1" 200 512 "https://example.com/" "curl/8.5"';
const logpush = JSON.stringify({
  ClientIP: "2001:db8:1:2::9",
  ClientRequestMethod: "get",
  ClientRequestHost: "Example.com",
  ClientRequestPath: "/a",
  ClientRequestURI: "/a?page=2",
  ClientRequestUserAgent: "curl/8.5",
  ClientCountry: "de",
  ClientASN: 64500,
  EdgeColoCode: "fra",
  EdgeStartTimestamp: "2026-01-05T12:00:00Z",
  RequestHeaders: { "x-api-key": "acme" },
  Cookies: { session: "s1" },
});
const caddy = JSON.stringify({
  ts: 1_767_614_400,
  request: {
    client_ip: "203.0.113.7",
    method: "GET",
    host: "example.com:8443",
    uri: "/a?page=2",
    headers: { "X-Api-Key": ["acme"], Accept: ["a", "b"], Authorization: ["REDACTED"] },
  },
});
const nginx = JSON.stringify({
  time_iso8601: "2026-01-05T12:00:00+00:00",
  remote_addr: "::ffff:203.0.113.7",
  request: "GET /a?page=2 HTTP/2.0",
  http_host: "example.com",
  http_x_api_key: "acme",
  http_cookie: "a=1; session=s1",
  http_x_list: "a, b",
  http_x_empty: "-",
});

describe("the key of a log line by the parts of a policy's key", () => {
  it.each([
    ["ip", combined, "203.0.113.7"],
    ["host", combined, "example.com"],
    ["method", combined, "POST"],
    ["path", combined, "/Users/4"],
    ["query:page", combined, "2"],
    ["header:user-agent", combined, "curl/8.5"],
    ["header:referer", combined, "https://example.com/"],
    ["global", combined, "global"],
    ["remote_user", combined, "ana"],
    ["ip", logpush, "2001:db8:1:2::/64"],
    ["method", logpush, "GET"],
    ["host", logpush, "example.com"],
    ["path", logpush, "/a"],
    ["query:page", logpush, "2"],
    ["country", logpush, "DE"],
    ["asn", logpush, "64500"],
    ["colo", logpush, "FRA"],
    ["header:x-api-key", logpush, "acme"],
    ["header:user-agent", logpush, "curl/8.5"],
    ["cookie:session", logpush, "s1"],
    ["ip", caddy, "203.0.113.7"],
    ["host", caddy, "example.com"],
    ["path", caddy, "/a"],
    ["query:page", caddy, "2"],
    ["header:X-API-Key", caddy, "acme"],
    ["request.client_ip", caddy, "203.0.113.7"],
    ["ip", nginx, "203.0.113.7"],
    ["method", nginx, "GET"],
    ["path", nginx, "/a"],
    ["query:page", nginx, "2"],
    ["header:x-api-key", nginx, "acme"],
    ["cookie:session", nginx, "s1"],
    ["header:x-api-key", '{"request_X-Api-Key":"acme"}', "acme"],
    ["user.id", '{"user":{"id":42}}', "42"],
    ["user.id", '{"user.id":"a"}', "a"],
    ["query:page", '{"args":"page=2&x=1"}', "2"],
    ["ip", '{"http_cf_connecting_ip":"203.0.113.7","remote_addr":"198.51.100.1"}', "203.0.113.7"],
    ["method, path", nginx, "GET, /a"],
    ["user, path", '{"user":"a, b","path":"/"}', '"a, b", /'],
  ])("the key part %s of %s is %s", (part, line, key) => {
    expect(keyOf(part, line)).toBe(key);
  });

  it.each([
    ["country", combined, "country is missing; the fields of the line are host, remote_addr,"],
    ["user", caddy, "user is missing; the fields of the line are ts, request"],
    ["header:x-list", nginx, "header:x-list: expected one value without a comma"],
    ["header:x-empty", nginx, "header:x-empty is missing"],
    ["header:accept", caddy, "header:accept: expected one value without a comma"],
    ["header:authorization", caddy, "header:authorization is missing"],
    ["query:size", nginx, "query:size is missing"],
    ["cookie:other", nginx, "cookie:other is missing"],
    ["ip", '{"ip":"host.example"}', 'ip: expected an IP address, got "host.example"'],
    ["request", caddy, "request: expected a text or a number, got"],
  ])("the key part %s of %s is reported: %s", (part, line, reason) => {
    expect(keyOf(part, line)).toContain(`no key: ${reason}`);
  });

  it("key parts have the names of the configuration, and log fields that are not key parts are listed", () => {
    expect(keyReaderOf("ip,header:X-Api-Key", "user_id")).toMatchObject({
      parts: ["ip", "header:x-api-key", "user_id"],
      fields: ["user_id"],
    });
  });

  it.each([
    ["jwt:sub", "jwt:sub: a log has no verified tokens"],
    ["", "expected ip, path, method, host, country, continent, asn, colo, global, header:<name>"],
    ["header:", 'or the name of a field, got "header:"'],
    ["ip,IP,ip", 'expected 1 to 8 different parts, got "ip, IP, ip"'],
  ])("the key %j is rejected: %s", (text, problem) => {
    expect(readLogKey([text])).toEqual({ problem: expect.stringContaining(problem) });
  });
});
