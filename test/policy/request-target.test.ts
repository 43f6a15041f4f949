import * as fc from "fast-check";
import { expect, it } from "vitest";
import { forAll } from "../for-all.ts";
import { RequestTarget } from "../../src/policy/request.ts";

const piece = fc.oneof(
  fc.constantFrom("/", "//", ".", "..", ":", "@", "?", "#", "%2e", "%", ";", "\\", "[", "]", "'", "xn--", "0x1", "é"),
  fc.constantFrom(
    "a",
    "B",
    "api",
    "example.com",
    "10",
    "127.0.0.1",
    "256",
    "1.2",
    "80",
    "443",
    "8080",
    "64999",
    "65536",
  ),
  fc.string({ maxLength: 3 }),
);
const written = fc
  .tuple(fc.constantFrom("http://", "https://", "HTTP://", "ftp://"), fc.array(piece, { minLength: 1, maxLength: 8 }))
  .map(([scheme, pieces]) => scheme + pieces.join(""));
const usual = fc
  .tuple(fc.webAuthority({ withPort: true, withIPv4: true }), fc.webPath(), fc.webQueryParameters())
  .map(([authority, path, query]) => `https://${authority}${path}?${query}`);

it(
  "a target in plain form has the host, path and query of its parsed URL",
  forAll(
    [fc.oneof(written, usual)],
    (text) => {
      const plain = RequestTarget.plain(text);
      fc.pre(plain !== null);
      const url = new URL(text);
      expect(url.href).toBe(text);
      const { protocol, host, hostname } = plain;
      expect({ protocol, host, hostname }).toEqual({
        protocol: url.protocol,
        host: url.host,
        hostname: url.hostname,
      });
      expect(plain.plainPathAndQuery).toBe(text.slice(url.origin.length));
      const parsed = RequestTarget.of(url);
      expect(plain.path.all).toEqual(parsed.path.all);
      expect(plain.path.canonical).toBe(parsed.path.canonical);
      expect(plain.path.received).toBe(parsed.path.received);
      expect(parsed.path.all).toHaveLength(1);
    },
    500,
  ),
);

it.for([
  "http://localhost:8787/",
  "https://api.example.com/v1/items/42?page=2&sort=-name",
  "http://127.0.0.1:41234/a_b/~c/d-e.f/",
  "https://a.example/files/report(1).pdf?ids[]=1&q=a%20b",
])("%s is in plain form", (text) => {
  expect(RequestTarget.plain(text)?.text).toBe(text);
});

it.for([
  "https://a.example",
  "https://A.example/",
  "https://a.example./",
  "https://a.example:443/",
  "http://a.example:80/",
  "http://1.2.3/",
  "http://0x7f.1/",
  "https://xn--a.example/",
  "https://user@a.example/",
  "https://[::1]/",
  "https://a.example//b",
  "https://a.example/b/../c",
  "https://a.example/.well-known/x",
  "https://a.example/a;b",
  "https://a.example/a%20b",
  "https://a.example/a\\b",
  "https://a.example/#a",
  "https://a.example/?a'b",
  "http://h*/",
])("%s is not in plain form", (text) => {
  expect(RequestTarget.plain(text)).toBeNull();
});
