import { createHash } from "node:crypto";
import type { ServerResponse } from "node:http";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { beforeAll, describe, expect, it } from "vitest";
import { randomFrom } from "../random.ts";
import { bodyOf, type Client, type Exchange, type Proxied, startProxied } from "./proxied.ts";

/** A policy for which Headgate tracks bodies to their end, and a policy for which it does not. */
const policies = [
  { name: "slots", limits: [{ limit: 3, window: "1h", strategy: "concurrency" }] },
  { name: "plain", limits: "1000000/hour" },
];

let proxied: Proxied;
beforeAll(async () => {
  proxied = await startProxied(policies);
  return proxied.close;
});

let keys = 0;
const own = (policy: string): { key: string; path: string } => {
  const key = `key-${(keys += 1)}`;
  return { key, path: `/${policy}/${key}/` };
};

const text = "All of it is passed on as it is, to the last byte. ".repeat(100);
const next = randomFrom(5);
const large = Buffer.from(Array.from({ length: 5_000_000 }, () => next() * 256));

/** Fields of the connection, and fields that Headgate adds. */
const isOwn = (name: string): boolean => /^(?:connection|keep-alive|ratelimit.*)$/.test(name);

async function passedOn({ answer: coming }: Client): Promise<unknown> {
  const answer = await coming;
  const headers = Object.entries(answer.headers).filter(([name]) => !isOwn(name));
  const body = await bodyOf(answer);
  return {
    status: answer.statusCode,
    headers: Object.fromEntries(headers),
    bytes: body.length,
    digest: createHash("sha256").update(body).digest("hex"),
  };
}

type Answering = (response: ServerResponse) => unknown;

const gzipped = gzipSync(text);
const answers: [string, Answering, string?][] = [
  ["with a Content-Length", (response) => response.setHeader("Content-Length", text.length).end(text)],
  ["in chunks", (response) => (response.write(text), response.end(text))],
  [
    "that is gzipped, with a length and an ETag",
    (response) =>
      response
        .writeHead(200, {
          "Content-Encoding": "gzip",
          "Content-Length": gzipped.length,
          ETag: '"a"',
          Vary: "Accept-Encoding",
        })
        .end(gzipped),
  ],
  [
    "that is gzipped, in chunks",
    (response) => {
      response.writeHead(200, { "Content-Encoding": "gzip" }).write(gzipped.subarray(0, 50));
      response.end(gzipped.subarray(50));
    },
  ],
  [
    "in brotli, with a weak ETag",
    (response) => response.writeHead(200, { "Content-Encoding": "br", ETag: 'W/"b"' }).end(brotliCompressSync(text)),
  ],
  [
    "of a range request",
    (response) => response.writeHead(206, { "Content-Range": "bytes 0-4/100", "Content-Length": 5 }).end("bytes"),
  ],
  ["of 5 MB with its length", (response) => response.setHeader("Content-Length", large.length).end(large)],
  ["of 5 MB in chunks", (response) => (response.write(large), response.end())],
  ["of nothing", (response) => response.end()],
  ["of length 0 with a Content-Length", (response) => response.setHeader("Content-Length", 0).end()],
  ["of a 204", (response) => response.writeHead(204, { ETag: '"c"' }).end()],
  ["of a 304", (response) => response.writeHead(304, { ETag: '"d"' }).end()],
  [
    "of a HEAD request with the Content-Length of a GET",
    (response) => response.writeHead(200, { "Content-Length": 1_000, ETag: '"e"' }).end(),
    "HEAD",
  ],
  ["of a failure", (response) => response.writeHead(503, { "Retry-After": "7" }).end(text)],
];

describe.each(["slots", "plain"])("bodies through a policy of %s", (policy) => {
  it.each(answers)("the proxy forwards a body %s unchanged", async (_, answering, method = "GET") => {
    const { key, path } = own(policy);
    // A fixed `Date`: otherwise two responses sent in different seconds would differ.
    const answer = ({ response }: Exchange): unknown =>
      answering(response.setHeader("Date", "Thu, 01 Jan 2026 00:00:00 GMT"));
    proxied.origin.answers.set(path, answer);
    const request = { method, headers: { "Accept-Encoding": "gzip, br" } };
    const straight = await passedOn(proxied.sendToOrigin(path, request));
    expect(await passedOn(proxied.send(path, key, request))).toEqual(straight);
    await proxied.untilRemaining(policy, key, policy === "slots" ? 3 : 999_999);
  });

  it("the proxy forwards server-sent events one by one, as the origin sends them", async () => {
    const { key, path } = own(policy);
    const client = proxied.send(path, key);
    const { response } = await proxied.origin.nextExchange(path);
    response.writeHead(200, { "Content-Type": "text/event-stream" }).flushHeaders();
    // Waits only for the head, before the origin sends any of the body.
    const data = (await client.answer).iterator();
    for (const event of ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"]) {
      response.write(event);
      // oxlint-disable-next-line no-await-in-loop
      expect(String((await data.next()).value)).toBe(event);
    }
    response.end();
    expect(await data.next()).toMatchObject({ done: true });
  });
});
