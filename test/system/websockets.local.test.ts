import { once } from "node:events";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { beforeAll, describe, expect, it } from "vitest";
import { randomFrom } from "../random.ts";
import { accepted, closing, type Frames, invalidOpcode, opcodes, upgrade, upgraded } from "./frames.ts";
import { type Proxied, startProxied } from "./proxied.ts";

const slots = { limit: 3, window: "1h", strategy: "concurrency" };

const policies = [
  { name: "slots", key: "query:key", limits: [slots] },
  { name: "brief", key: "query:key", limits: [{ ...slots, window: "1s" }] },
  { name: "many", key: "query:key", limits: [{ ...slots, limit: 500 }] },
  { name: "plain", key: "query:key", limits: "100/hour" },
];

let proxied: Proxied;
/** Callbacks that wait for the next upgrade at a path. */
const awaited = new Map<string, (origin: Frames) => void>();
/** Additional fields of the origin's upgrade response, by path. */
const fields = new Map<string, readonly string[]>();

beforeAll(async () => {
  proxied = await startProxied(policies);
  const { server } = proxied.origin;
  const streams: Duplex[] = [];
  server.on("upgrade", (request, stream, unread) => {
    streams.push(stream);
    const origin = accepted(request, stream, unread, fields.get(request.url ?? ""));
    awaited.get(request.url ?? "")?.(origin);
  });
  return () => {
    // An upgraded connection no longer belongs to the server, so the server's close() would leave it open.
    for (const stream of streams) stream.destroy();
    return proxied.close();
  };
});

let keys = 0;
const own = (policy: string): { key: string; path: string } => {
  const key = `key-${(keys += 1)}`;
  return { key, path: `/${policy}/?key=${key}` };
};

interface Both {
  readonly client: Frames;
  readonly origin: Frames;
}

async function opened(path: string): Promise<Both> {
  const { promise, resolve } = Promise.withResolvers<Frames>();
  awaited.set(path, resolve);
  const [client, origin] = await Promise.all([upgraded(new URL(path, proxied.workerd.url)), promise]);
  return { client, origin };
}

const socketOf = ({ stream }: Frames): Socket => stream as Socket;

const bye = closing(4001, "bye");
/** The close code for a side that ended without a close frame or broke the protocol. */
const gone = { opcode: opcodes.close };

describe("a WebSocket with a slot", () => {
  it.each([["slots"], ["plain"]])(
    "a WebSocket with a slot forwards what both sides send, as one without a slot does: %s",
    async (policy) => {
      const { path } = own(policy);
      const { promise: upgradedOrigin, resolve } = Promise.withResolvers<Frames>();
      awaited.set(path, resolve);
      const url = new URL(path, proxied.workerd.url);
      const client = new WebSocket(url.href.replace("http", "ws"), ["chat"]);
      client.binaryType = "arraybuffer";
      const [origin] = await Promise.all([upgradedOrigin, once(client, "open")]);
      expect(client.protocol).toBe("chat");
      client.send("to the origin");
      client.send(new Uint8Array([1, 2, 3]));
      client.send("");
      expect([await origin.next(), await origin.next(), await origin.next()]).toEqual([
        { opcode: opcodes.text, data: Buffer.from("to the origin") },
        { opcode: opcodes.binary, data: Buffer.from([1, 2, 3]) },
        { opcode: opcodes.text, data: Buffer.alloc(0) },
      ]);
      const heard: unknown[] = [];
      client.addEventListener("message", ({ data }) => heard.push(data));
      const closed = once(client, "close");
      origin.send(opcodes.text, "to the client");
      origin.send(opcodes.binary, Buffer.from([4, 5]));
      origin.close(4002, "done");
      expect((await origin.next()).data.readUInt16BE()).toBe(4002);
      origin.stream.end();
      expect((await closed)[0]).toMatchObject({ code: 4002, reason: "done", wasClean: true });
      expect(heard).toEqual(["to the client", new Uint8Array([4, 5]).buffer]);
    },
  );

  it.each([["slots"], ["plain"]])(
    "G01, G02: an upgrade response has the origin's own fields and no hop-by-hop fields: %s",
    async (policy) => {
      const { path } = own(policy);
      const ofOneHop = ["Connection: X-Private", "X-Private: 1", "Proxy-Authenticate: Basic"];
      const theirs = ["Access-Control-Allow-Origin: *", 'RateLimit: "o";r=1', "Set-Cookie: a=1"];
      fields.set(path, [...ofOneHop, ...theirs]);
      const { answer, frames } = await upgrade(new URL(path, proxied.workerd.url));
      frames.stream.destroy();
      const names = ["x-private", "proxy-authenticate", "ratelimit", "set-cookie"];
      expect(names.map((name) => answer.headers[name])).toEqual([undefined, undefined, '"o";r=1', ["a=1"]]);
    },
  );

  it("a WebSocket upgrade is denied when no slot is free", async () => {
    const { key, path } = own("slots");
    const three = [await opened(path), await opened(path), await opened(path)];
    expect(await proxied.remaining("slots", key)).toEqual([0]);
    const refused = fetch(new URL(path, proxied.workerd.url));
    expect((await refused).status).toBe(429);
    three[0]?.origin.stream.destroy();
    await proxied.untilRemaining("slots", key, 1);
    await opened(path);
  });

  it("a WebSocket keeps its slot for longer than the limit's window", async () => {
    const { key, path } = own("brief");
    const { client, origin } = await opened(path);
    const untilMs = Date.now() + 2_500;
    const seen = new Set<number | undefined>();
    // oxlint-disable-next-line no-await-in-loop
    while (Date.now() < untilMs) seen.add((await proxied.remaining("brief", key))[0]);
    expect([...seen]).toEqual([2]);
    client.send(opcodes.text, "still there");
    expect(String((await origin.next()).data)).toBe("still there");
    origin.close(1000, "");
    await proxied.untilRemaining("brief", key, 3);
  });

  it("a WebSocket keeps its slot until the origin has answered the client's close frame", async () => {
    const { key, path } = own("slots");
    const { client, origin } = await opened(path);
    client.close(4001, "bye");
    expect(await origin.next()).toEqual(bye);
    expect(await proxied.remaining("slots", key)).toEqual([2]);
    origin.send(opcodes.text, "one more thing");
    origin.close(4002, "well then");
    expect(String((await client.next()).data)).toBe("one more thing");
    expect(await client.next()).toEqual(closing(4002, "well then"));
    await proxied.untilRemaining("slots", key, 3);
  });
});

describe("the slot of a WebSocket is freed and the other side is closed", () => {
  it.each<[string, (both: Both) => unknown, keyof Both, object]>([
    ["the origin sends a close frame", ({ origin }) => origin.close(4001, "bye"), "client", bye],
    ["the origin resets the connection", ({ origin }) => socketOf(origin).resetAndDestroy(), "client", gone],
    ["the origin closes the connection", ({ origin }) => socketOf(origin).destroy(), "client", gone],
    ["the origin sends an invalid frame", ({ origin }) => origin.send(invalidOpcode, "?"), "client", gone],
    ["the client resets the connection", ({ client }) => socketOf(client).resetAndDestroy(), "origin", gone],
    ["the client closes the connection", ({ client }) => socketOf(client).destroy(), "origin", gone],
    ["the client sends an invalid frame", ({ client }) => client.send(invalidOpcode, "?"), "origin", gone],
  ])("the slot is freed and the other side is closed after %s", async (_, end, other, expected) => {
    const { key, path } = own("slots");
    const both = await opened(path);
    expect(await proxied.remaining("slots", key)).toEqual([2]);
    end(both);
    await proxied.untilRemaining("slots", key, 3);
    expect(await both[other].next()).toMatchObject(expected);
  });

  it("each of a hundred WebSockets frees its slot, however it ends while both sides send", async () => {
    const { key, path } = own("many");
    const next = randomFrom(11);
    const ends: ((frames: Frames) => unknown)[] = [
      (frames) => frames.close(1000, ""),
      (frames) => frames.send(invalidOpcode, "?"),
      (frames) => socketOf(frames).destroy(),
      (frames) => socketOf(frames).resetAndDestroy(),
    ];
    const session = async (number: number): Promise<void> => {
      const { client, origin } = await opened(`${path}&n=${number}`);
      const isClient = next() < 0.5;
      const end = ends[Math.floor(next() * ends.length)];
      for (let message = 0; message < next() * 5; message++) {
        client.send(opcodes.text, "from the client");
        origin.send(opcodes.text, "from the origin");
      }
      end?.(isClient ? client : origin);
      origin.send(opcodes.text, "too late");
      client.send(opcodes.text, "too late");
      // A server closes the connection after both close frames.
      if (isClient) origin.close(1000, "");
    };
    await Promise.all(Array.from({ length: 100 }, (_, number) => session(number)));
    await proxied.untilRemaining("many", key, 500);
  });
});
