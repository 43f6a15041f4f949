/** G: how a gateway changes messages (RFC 9110, section 7.6), as bytes between a client, workerd and an origin server. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { parseList, Token } from "structured-headers";
import { beforeAll, expect, it } from "vitest";
import { compareBytes } from "../differential/from-bytes.ts";
import { type Proxied, startProxied } from "../system/proxied.ts";
import { ask, sentBytes, type WireResponse } from "./wire.ts";

const policies = [
  { name: "g", limits: "1000000/hour" },
  { name: "few", limits: "3/hour", strategy: "fixed-window" },
  { name: "by-address", key: "ip", limits: "3/hour", strategy: "fixed-window" },
];
const visitor = "CF-Connecting-IP: 203.0.113.7";

let proxied: Proxied;
beforeAll(async () => {
  proxied = await startProxied(policies, () => ({ cfField: "X-Cf" }));
  return proxied.close;
});

let paths = 0;
/** A path that matches a policy and that no other test uses. */
const ownPath = (policy: string): string => `/${policy}/${(paths += 1)}/`;

interface Exchanged extends WireResponse {
  /** The request that the origin received; null if it received none. */
  readonly request: IncomingMessage | null;
  /** The values of a field that the origin received, one per line. */
  readonly received: (name: string) => readonly string[];
}

type Respond = (response: ServerResponse) => unknown;

/** @param fields field lines without `Host` */
async function exchange(
  path: string,
  fields: readonly string[],
  respond: Respond = (response) => response.end("answered"),
  { method = "GET", body = "", target = path } = {},
): Promise<Exchanged> {
  let request: IncomingMessage | null = null;
  proxied.origin.answers.set(path, (exchanged) => {
    ({ request } = exchanged);
    exchanged.request.resume();
    respond(exchanged.response);
  });
  const wireResponse = await ask(proxied.workerd.url, [`${method} ${target} HTTP/1.1`, ...fields], body);
  const raw: string[] = (request as IncomingMessage | null)?.rawHeaders ?? [];
  const received = (name: string): string[] =>
    raw.filter((_, at) => at % 2 === 1 && raw[at - 1]?.toLowerCase() === name.toLowerCase());
  return { ...wireResponse, request, received };
}

it.for([
  ["in any case", ["connection: x-one, X-TWO"]],
  ["with any space", ["Connection:  \tX-One ,,X-Two\t,  "]],
  ["in several lines", ["Connection: X-One", "Connection: keep-alive", "CONNECTION: x-two"]],
] as const)("G01: request fields that Connection names are not forwarded to the origin: %s", async ([, lines]) => {
  const fields = ["X-One: 1", "x-two: 2", "X-Two: 3", "X-Kept: 4"];
  const { received, status } = await exchange(ownPath("g"), [...lines, ...fields]);
  expect(status).toBe(200);
  expect(["X-One", "X-Two", "X-Kept"].map(received)).toEqual([[], [], ["4"]]);
});

it("G01: response fields that Connection names are not forwarded to the client", async () => {
  const { lines } = await exchange(ownPath("g"), [], (response) => {
    const fields = ["Connection", " x-ONE ,close", "X-One", "1", "X-One", "2", "X-Kept", "3"];
    response.writeHead(200, [...fields]).end();
  });
  expect([lines("X-One"), lines("X-Kept")]).toEqual([[], ["3"]]);
});

it("G02: hop-by-hop fields are not forwarded, whether or not Connection names them", async () => {
  const fields = [
    ["Proxy-Connection: keep-alive", "Keep-Alive: timeout=5", "TE: trailers", "Trailer: X-T"],
    ["Upgrade: h2c", "HTTP2-Settings: AAMAAABk", "Proxy-Authorization: Basic c2VjcmV0"],
  ].flat();
  const names = fields.map((field) => field.split(":")[0] ?? "");
  const path = ownPath("g");
  const { received, request } = await exchange(path, fields);
  expect(request?.url).toBe(path);
  expect(names.flatMap(received)).toEqual([]);
});

it("G02: the transfer coding of a request is removed, and its content is forwarded", async () => {
  const path = ownPath("g");
  const bodies: Promise<Buffer>[] = [];
  proxied.origin.answers.set(path, ({ request, response }) => {
    bodies.push(request.toArray().then((chunks) => Buffer.concat(chunks)));
    request.once("end", () => response.end());
  });
  const lines = [`POST ${path} HTTP/1.1`, "Transfer-Encoding: chunked", "Trailer: X-T"];
  const answer = await ask(proxied.workerd.url, lines, "3\r\nabc\r\n2\r\nde\r\n0\r\nX-T: 1\r\n\r\n");
  expect(answer.status).toBe(200);
  expect(String(await bodies[0])).toBe("abcde");
});

it("G02: hop-by-hop fields of a response are not forwarded", async () => {
  const names = ["Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Connection"];
  const fields = [...names, "Keep-Alive"].flatMap((name) => [name, "x"]);
  const { lines, status } = await exchange(ownPath("g"), [], (response) => {
    response.writeHead(407, fields).end();
  });
  expect([status, ...[...names, "Keep-Alive"].flatMap(lines)]).toEqual([407]);
});

it("G03: Connection removes neither the field of the key nor the fields that Headgate adds", async () => {
  const path = ownPath("by-address");
  const named = "CF-Connecting-IP, X-Key, RateLimit, RateLimit-Policy, Via, Forwarded, X-Forwarded-For";
  const fields = [visitor, `Connection: ${named}`];
  const first = await exchange(path, fields);
  const second = await exchange(path, fields, (response) => {
    response.writeHead(200, ["Connection", "RateLimit, RateLimit-Policy"]).end();
  });
  expect([first, second].map(({ lines }) => lines("RateLimit"))).toEqual([
    ['"by-address";r=2;t=3600'],
    ['"by-address";r=1;t=3600'],
  ]);
  expect(first.received("Via")).toHaveLength(1);
  expect(first.received("X-Forwarded-For")).toEqual(["203.0.113.7"]);
  expect(first.received("Forwarded")).toHaveLength(1);
});

it.for([
  ["HTTP/1.1", "1.1"],
  ["HTTP/2", "2"],
  ["HTTP/3", "3"],
] as const)(
  "G04: Via ends in Headgate's own entry with the client's protocol version: %s",
  async ([protocol, version]) => {
    const fields = [`X-Cf: {"httpProtocol":"${protocol}"}`, "Via: 1.0 fred", "Via: 1.1 p (a, b)"];
    const { received } = await exchange(ownPath("g"), fields);
    const via = received("Via").join(", ");
    expect(via).toMatch(new RegExp(`^1\\.0 fred, 1\\.1 p \\(a, b\\), ${version} headgate-[\\w-]{8}$`));
  },
);

it("G05: a request that has already passed through Headgate is neither forwarded nor charged", async () => {
  const path = ownPath("few");
  const key = "X-Key: looping";
  const first = await exchange(path, [key]);
  const [via = ""] = first.received("Via");
  for (const again of [via, `1.1 other, ${via}`, `${via}, 2 other`]) {
    // oxlint-disable-next-line no-await-in-loop
    const { status, request, lines } = await exchange(path, [key, `Via: ${again}`]);
    expect([status, request]).toEqual([508, null]);
    expect(lines("Proxy-Status")[0]).toMatch(/;error=proxy_loop_detected$/);
  }
  expect(await proxied.remaining("few", "looping")).toEqual([2]);
});

it("G06: Max-Forwards of an OPTIONS request is decremented, and at 0 Headgate answers the request itself", async () => {
  const options = { method: "OPTIONS" };
  const passed = await exchange(ownPath("g"), ["Max-Forwards: 3"], undefined, options);
  expect([passed.status, passed.received("Max-Forwards")]).toEqual([200, ["2"]]);
  const last = await exchange(ownPath("g"), ["Max-Forwards: 1"], undefined, options);
  expect(last.received("Max-Forwards")).toEqual(["0"]);
  const here = await exchange(ownPath("g"), ["Max-Forwards: 0"], undefined, options);
  expect([here.status, here.request, here.body]).toEqual([204, null, ""]);
  expect(here.lines("Allow")).toEqual(["GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"]);
});

it.for([
  ["0000000000", null],
  ["12345678901234", ["2147483647"]],
] as const)(
  "G06: a Max-Forwards of many digits is read as a number, and capped at 2^31 - 1: %s",
  async ([value, left]) => {
    const options = { method: "OPTIONS" };
    const answer = await exchange(ownPath("g"), [`Max-Forwards: ${value}`], undefined, options);
    expect(answer.request && answer.received("Max-Forwards")).toEqual(left);
  },
);

it.for(["0", "3"])("G06: Max-Forwards of a GET is forwarded unchanged: %s", async (value) => {
  const { status, received } = await exchange(ownPath("g"), [`Max-Forwards: ${value}`]);
  expect([status, received("Max-Forwards")]).toEqual([200, [value]]);
});

it("G07: TRACE is answered with 405 and the allowed methods", async () => {
  const fields = ["Cookie: secret"];
  const trace = await exchange(ownPath("g"), fields, undefined, { method: "TRACE" });
  expect([trace.status, trace.request]).toEqual([405, null]);
  expect(trace.lines("Allow")).toEqual(["GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"]);
  expect(trace.body).not.toContain("secret");
});

it.for(["CONNECT", "get"])("G07: %s reaches no origin", async (method) => {
  const { status, request } = await exchange(ownPath("g"), [], undefined, { method });
  expect(status).toBeGreaterThanOrEqual(500);
  expect(request).toBe(null);
});

it.for([
  ["in one line", ["RateLimit", '"edge";r=1;t=9, t;r=2', "RateLimit-Policy", '"edge";q=5;w=9']],
  ["in several", ["RateLimit", '"edge";r=1;t=9', "RateLimit", "t;r=2", "RateLimit-Policy", '"edge";q=5;w=9']],
] as const)("G08: valid RateLimit items of the origin stay, and Headgate's follow: %s", async ([, fields]) => {
  const { lines } = await exchange(ownPath("g"), [], (response) => {
    response.writeHead(200, [...fields]).end();
  });
  const names = (name: string): unknown[] =>
    parseList(lines(name).join(", ")).map(([item]) => (item instanceof Token ? item.toString() : item));
  expect(names("RateLimit")).toEqual(["edge", "t", "g"]);
  expect(names("RateLimit-Policy")).toEqual(["edge", "g"]);
  expect(lines("RateLimit").join(", ")).toMatch(/^"edge";r=1;t=9, t;r=2, "g";r=\d+;t=\d+$/);
});

it.for([
  ["draft 7", ["RateLimit", "limit=100, remaining=5, reset=3", "RateLimit-Policy", "100;w=60"]],
  ["draft 6", ["RateLimit-Limit", "100", "RateLimit-Policy", "100;w=60", "RateLimit-Reset", "9"]],
  ["an unknown form", ["RateLimit", '"unclosed;r=1']],
] as const)(
  "G09: RateLimit fields of the origin that are no lists of names are unchanged, and nothing is added to them: %s",
  async ([, fields]) => {
    const { lines, status } = await exchange(ownPath("g"), [], (response) => {
      response.writeHead(200, [...fields]).end();
    });
    const sent = new Map<string, string[]>();
    for (let at = 0; at < fields.length; at += 2) sent.set(fields[at] ?? "", [fields[at + 1] ?? ""]);
    expect(status).toBe(200);
    for (const name of ["RateLimit", "RateLimit-Policy", ...sent.keys()]) {
      expect([name, lines(name)]).toEqual([name, sent.get(name) ?? []]);
    }
  },
);

it("G10: a response keeps its cookies, status, content coding, validators and bytes", async () => {
  const zipped = gzipSync("All of it, to the last byte. ".repeat(50));
  const cookies = ["a=1; Path=/; Expires=Wed, 21 Oct 2099 07:28:00 GMT", "b=2; HttpOnly", "c="];
  const { status, lines, body } = await exchange(ownPath("g"), ["Accept-Encoding: gzip"], (response) => {
    const set = cookies.flatMap((cookie) => ["Set-Cookie", cookie]);
    const about = ["Content-Encoding", "gzip", "ETag", 'W/"e"', "Cache-Control", "max-age=5", "Vary", "A"];
    response.writeHead(203, [...set, ...about, "Content-Length", String(zipped.length)]).end(zipped);
  });
  expect([status, lines("Set-Cookie")]).toEqual([203, cookies]);
  const names = ["Content-Encoding", "ETag", "Cache-Control", "Vary", "Content-Length"];
  expect(names.map((name) => lines(name)[0])).toEqual(["gzip", 'W/"e"', "max-age=5", "A", String(zipped.length)]);
  expect(Buffer.from(body, "latin1").equals(zipped)).toBe(true);
});

it.for([301, 302, 303, 307, 308])("G10: a redirect of status %i is forwarded, not followed", async (status) => {
  const path = ownPath("g");
  const answer = await exchange(path, [], (response) => {
    response.writeHead(status, ["Location", "../elsewhere?a#b"]).end();
  });
  expect([answer.status, answer.lines("Location")]).toEqual([status, ["../elsewhere?a#b"]]);
  expect(proxied.origin.requestCount(path)).toBe(1);
});

it.for([200, 304])(
  "G10: a response to HEAD keeps the Content-Length of the origin and has no body: %i",
  async (status) => {
    const answer = await exchange(
      ownPath("g"),
      [],
      (response) => response.writeHead(status, ["Content-Length", "1234", "ETag", '"e"']).end(),
      { method: "HEAD" },
    );
    expect([answer.status, answer.lines("ETag"), answer.body]).toEqual([status, ['"e"'], ""]);
    expect(answer.lines("Content-Length")).toEqual(["1234"]);
  },
);

it("G10: a response whose status is not valid in HTTP is answered with 502", async () => {
  const { status, lines } = await exchange(ownPath("g"), [], (response) => {
    response.socket?.end("HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n");
  });
  expect(status).toBe(502);
  expect(lines("Proxy-Status")[0]).toMatch(/;error=http_protocol_error$/);
});

it.for([
  ["a%2Fb/%41;x=1,!$&()*+~@:/?q=%20&&a=b+c/?@:&[]=1&e=%zz", null],
  ["a//b///", null],
  ["?", null],
  ["é%C3%A9", "%C3%A9%C3%A9"],
  ["a/./b/../c/%2e%2E/d", "a/d"],
  ["?q='", "?q=%27"],
] as const)("G11: path and query reach the origin as the URL parser leaves them: %s", async ([rest, parsed]) => {
  const path = ownPath("g");
  const target = path + Buffer.from(rest).toString("latin1");
  const { request } = await exchange(path, [], undefined, { target });
  expect(request?.url).toBe(path + (parsed ?? rest));
});

it.for([
  ["203.0.113.7", "203.0.113.7"],
  ["2001:DB8::1", '"[2001:db8::1]"'],
  ["::ffff:203.0.113.7", "203.0.113.7"],
] as const)("G12: the client address is the last one in X-Forwarded-For and Forwarded: %s", async ([address, node]) => {
  const spoofed = ["X-Forwarded-For: 192.0.2.1", 'Forwarded: for="[2001:db8::bad]";proto=http'];
  const fields = [`CF-Connecting-IP: ${address}`, ...spoofed];
  const { received } = await exchange(ownPath("g"), fields);
  const last = node.replaceAll(/["[\]]/g, "");
  expect(received("X-Forwarded-For").join(", ")).toBe(`192.0.2.1, ${last}`);
  expect(received("Forwarded").join(", ")).toBe(
    `for="[2001:db8::bad]";proto=http, for=${node};host="headgate.example";proto=http`,
  );
});

it.for(['a",for=10.0.0.1;host="b', "a,b", "a;b=c", "a*"])(
  "G12: a request with an invalid Host is answered with 400 and not forwarded: %s",
  async (host) => {
    const path = ownPath("g");
    const { status } = await ask(proxied.workerd.url, [`GET ${path} HTTP/1.1`], "", host);
    expect([status, proxied.origin.requestCount(path)]).toEqual([400, 0]);
  },
);

it("G13: trace context is forwarded byte for byte", async () => {
  const sent = {
    traceparent: "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    tracestate: "congo=t61rcWkgMzE,,rojo=00f067aa0ba902b7 , x=",
    baggage: 'userId=alice%20a;p=1,isProduction=false , k="v"',
  };
  const { received } = await exchange(
    ownPath("g"),
    Object.entries(sent).map(([name, value]) => `${name}: ${value}`),
  );
  expect(Object.keys(sent).map((name) => received(name)[0])).toEqual(Object.values(sent));
});

it("H14: a response has no trailers, which could contain RateLimit fields", async () => {
  const { body, lines } = await exchange(ownPath("g"), ["TE: trailers"], (response) => {
    response.writeHead(200, ["Trailer", "RateLimit, X-T"]).write("in ");
    response.addTrailers([
      ["RateLimit", '"edge";r=1'],
      ["X-T", "1"],
    ]);
    response.end("chunks");
  });
  expect([body, lines("Transfer-Encoding"), lines("Trailer")]).toEqual(["in chunks", ["chunked"], []]);
  expect(lines("RateLimit").join()).toMatch(/^"g";r=\d+;t=\d+$/);
});

it("the previous version gives the same responses and forwards the same requests for this suite", async () => {
  const { answers, differences } = await compareBytes(sentBytes, proxied.vars);
  expect(differences.slice(0, 3).join("\n\n")).toBe("");
  expect(answers.filter(({ forwarded }) => forwarded.length > 0).length).toBeGreaterThan(40);
});
