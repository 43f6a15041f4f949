/** Malformed HTTP: requests written by hand, and valid requests in which some bytes are changed. */
import { invalidCall } from "./checks.ts";
import type { Draw } from "./draw.ts";
import { secretTag } from "./people.ts";

const host = "Host: fuzz.example\r\n";
const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
const post = (head: string, body = ""): string => `POST /raw HTTP/1.1\r\n${host}${head}\r\n${body}`;
const get = (target: string, head = host): string => `GET ${target} HTTP/1.1\r\n${head}\r\n`;

const hosts = [
  "",
  "a b",
  "[::1",
  "[::1]",
  "a:99999",
  "a:b",
  "u:p@h",
  "h/check/health",
  "h?",
  "h#",
  "h\\",
  "%00",
  "*",
  "a, b",
  "..",
  "xn--",
  "-",
  "h:",
  ":80",
  "1.2.3.4.5",
  "999.1.1.1",
  "0x7f.1",
  "\xc3\xa9",
  "\xff",
  "[v1.a]",
  "a".repeat(300),
  "h/../check",
  "h\t",
];

const targets = [
  "*",
  "?",
  "/?",
  "a",
  "http://other.example/raw",
  "http://[::1/raw",
  "https://",
  "//",
  "///raw",
  "/../../raw",
  "/check/../raw",
  "/raw/../check/health",
  "/%2e%2e/check",
  "/\\..\\check",
  "/raw#?",
  "/raw?%",
  "/%zz",
  "/%00",
  "/\xff",
  "/\xc3",
  `/${"a".repeat(20_000)}`,
  `/raw?${"q=1&".repeat(5_000)}`,
  "/\t",
  "/ raw",
  "http://origin.example@fuzz.example/raw",
  "/@evil.example/",
  "/raw;p=1?x",
  "/raw?__proto__=1",
];

/** The whole head of a request with all or part of its body, or a part of a head. */
const templates: readonly ((draw: Draw) => string)[] = [
  (draw) => get("/raw", `Host: ${draw.one(hosts)}\r\n`),
  (draw) => get("/check", `Host: ${draw.one(hosts)}\r\n`),
  (draw) => get(draw.one(targets)),
  (draw) => get("/raw", `${host}Host: ${draw.one(["fuzz.example", "b"])}\r\n`),
  () => get("/raw", ""),
  (draw) => `${draw.one(["FOO", "get", "M-SEARCH", "", "G\0T", "GET\t", "PRI"])} /raw HTTP/1.1\r\n${host}\r\n`,
  (draw) => `${draw.one(["CONNECT fuzz.example:80", "CONNECT /raw", "OPTIONS *"])} HTTP/1.1\r\n${host}\r\n`,
  (draw) => `GET /raw ${draw.one(["HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "http/1.1", "", "HTTP/9"])}\r\n${host}\r\n`,
  () => `GET /raw HTTP/1.1\n${host.trim()}\n\n`,
  () => `\r\n\r\n${get("/raw")}`,
  () => get("/raw") + get("/raw") + get("/raw"),
  (draw) => get("/raw", `${host}X-Key: ${draw.one(["a\0b", "a\r\n b", "a\rb", "\x7f", "\x01"])}\r\n`),
  (draw) => get("/raw", `${host}${draw.one(["X Key: a", ": a", "X-Key", "X\0: a", "\xff: a", "(x): a"])}\r\n`),
  () => get("/raw", `${host}X-Key: ${"k".repeat(100_000)}\r\n`),
  () => get("/raw", `${host}${Array.from({ length: 400 }, (_, at) => `X-${at}: v\r\n`).join("")}`),
  () => get("/raw", `${host}X-Key: ${secretTag}\r\n`).slice(0, -20),
  (draw) => post(`Content-Length: ${draw.one(["-3", "3x", "", "1e3", "99999999999999999999", "3, 3"])}\r\n`, "abc"),
  () => post("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"),
  () => post("Content-Length: 30\r\n", "abc"),
  (draw) =>
    post(
      "Transfer-Encoding: chunked\r\n",
      draw.one(["zz\r\n", "3\r\nabcde\r\n", "-1\r\n", "ffffffffffffffffff\r\n", "3\r\nabc"]),
    ),
  () => post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
  (draw) =>
    post(`Transfer-Encoding: ${draw.one(["gzip, chunked", "chunked, gzip", "x", "chunked\x0b"])}\r\n`, "0\r\n\r\n"),
  () => post("Transfer-Encoding: chunked\r\n", `0\r\nX-Key: ${secretTag}\r\n\r\n`),
  () => post("Expect: 100-continue\r\nContent-Length: 3\r\n", "abc"),
  (draw) => `${draw.one(["GET", "POST", "DELETE"])} /raw HTTP/1.1\r\n${host}${upgrade}\r\n`,
  () => get("/raw", `${host}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n`),
  (draw) => get("/raw", `${host}Connection: ${draw.one(["", ",", "\xff", "close, X", "a,".repeat(500)])}\r\n`),
  (draw) => draw.bytes(draw.below(200)),
  () => "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
];

export interface Raw {
  readonly bytes: string;
  /** A CONNECT request, which neither Headgate nor workerd answers. */
  readonly isConnect: boolean;
}

export async function rawOf(draw: Draw): Promise<Raw> {
  const bytes = draw.chance(0.6) ? draw.one(templates)(draw) : mutated(draw, await validRequest(draw));
  return { bytes, isConnect: /^\s*CONNECT /.test(bytes) };
}

/** A valid request with keys that no check verifies. */
async function validRequest(draw: Draw): Promise<string> {
  if (draw.chance(0.4)) return (await invalidCall(draw)).bytes;
  const lines = [
    "X-Key: stranger",
    "Cookie: sid=stranger; a=b",
    "CF-Connecting-IP: 198.18.0.1",
    "X-Forwarded-For: 198.18.0.1, 198.18.0.2",
    "X-Cost: 3",
  ];
  const head = lines.map((line) => `${line}\r\n`).join("");
  const method = draw.one(["GET", "HEAD", "POST", "PUT"]);
  const body = method.startsWith("P") ? draw.bytes(20) : "";
  const length = body === "" ? "" : `Content-Length: ${body.length}\r\n`;
  return `${method} /raw/a?user=stranger&cost=2 HTTP/1.1\r\n${host}${head}${length}\r\n${body}`;
}

function mutated(draw: Draw, bytes: string): string {
  let changed = bytes;
  for (let change = draw.below(4); change >= 0; change--) {
    const at = draw.below(changed.length + 1);
    const before = changed.slice(0, at);
    const count = draw.one([1, 1, 2, 20]);
    changed = draw.one([
      before + draw.bytes(count) + changed.slice(at + count),
      before + changed.slice(at + count),
      before + draw.one(["\r\n", "\0", ":", " ", ",", "%", ";", "\r\n\r\n", "\t"]) + changed.slice(at),
      before + changed.slice(at, at + count * 5).repeat(2) + changed.slice(at + count * 5),
      before,
    ]);
  }
  return changed;
}
