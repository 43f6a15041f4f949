/** Statistics, metrics and the tail of the control plane object on the platform, across hibernation and restarts. */
import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { decodeSamples } from "../../../src/control/sample-codec.ts";
import type { TailMessage } from "../../../src/control/protocol.ts";
import { partitionKeys } from "../key-streams.ts";
import { batch, beat, denial } from "./batches.ts";
import { all, arrival, sampleBatch, sampledBatch } from "./sample-batches.ts";

let objects = 0;
const controlPlane = () => env.CONTROL_PLANE.getByName(`statistics ${objects++}`);

const actor = { name: "alice", via: "token" } as const;

const policies = [
  {
    name: "api",
    mode: "enforce",
    objects: { shards: null, locationHint: null, jurisdiction: null },
    limits: [{ name: "api", limit: 100, windowMs: 60_000 }],
  },
] as const;

type Stub = ReturnType<typeof controlPlane>;

const openTail = async (stub: Stub, ticket: string): Promise<Response> =>
  stub.fetch(`https://control-plane/tail?ticket=${ticket}`, { headers: { Upgrade: "websocket" } });

it("counts are stored in rows, which metrics and queries show after a restart", async () => {
  const stub = controlPlane();
  const reply = await stub.beat(beat([batch(1, 5)], { policies }));
  expect(reply).toMatchObject({ storedSeq: 1, isWatched: false, isTailed: false });
  await evictDurableObject(stub);
  const metrics = await stub.metrics();
  expect(metrics).toContain('headgate_decisions_total{policy="api",outcome="allowed"} 5\n');
  expect(metrics).toContain('headgate_limit{policy="api",limit="api"} 100\n');
  const nowMs = Date.now();
  const { points } = await stub.statistics({
    fromMs: nowMs - 120_000,
    toMs: nowMs + 1,
    stepMs: 60_000,
  });
  expect(points).toMatchObject([{ policy: "api", outcomes: { allowed: 5 } }]);
});

it("samples are stored in chunks, which a query reads after a restart", async () => {
  const stub = controlPlane();
  const nowMs = Date.now();
  // A batch of more than 64 KB becomes a chunk at once.
  const keys = Object.fromEntries(partitionKeys(2_000).map((key) => [key, [arrival(nowMs)]]));
  await stub.beat(beat([sampledBatch(1, sampleBatch(keys))]));
  await evictDurableObject(stub);
  const index = await stub.samples(all());
  expect(index).toMatchObject({ chunks: [{ arrivals: 2_000 }], open: [], dropped: 0 });
  const bodies = await stub.sampleChunks("api", [index.chunks[0]?.id ?? 0, 7]);
  expect(bodies.map((body) => decodeSamples(new Uint8Array(body)))).toEqual([new Map(Object.entries(keys))]);
});

it("a ticket opens one WebSocket, which receives the denials of beats after hibernation", async () => {
  const stub = controlPlane();
  const { ticket } = await stub.ticket(actor);
  const { status, webSocket: socket } = await openTail(stub, ticket);
  expect(status).toBe(101);
  const second = await openTail(stub, ticket);
  expect([second.status, await second.text()]).toEqual([403, "the ticket is unknown, used or expired"]);
  const messages: string[] = [];
  const received = (count: number): Promise<void> =>
    new Promise((resolve) => {
      socket?.addEventListener("message", ({ data }) => {
        messages.push(String(data));
        if (messages.length === count) resolve();
      });
    });
  const both = received(2);
  socket?.accept();
  await evictDurableObject(stub);
  expect(await stub.beat(beat([], { tail: [denial()] }))).toMatchObject({
    isWatched: true,
    isTailed: true,
  });
  socket?.send("ping");
  await both;
  const message = JSON.parse(messages.find((text) => text !== "pong") ?? "") as TailMessage;
  expect(message.entries).toMatchObject([{ policy: "api", outcome: "denied", key: "key" }]);
  expect(messages).toContain("pong");
  const closed = new Promise<number>((resolve) => {
    socket?.addEventListener("close", ({ code }) => resolve(code));
  });
  socket?.close(1_000);
  expect(await closed).toBe(1_000);
  expect(await stub.beat(beat([]))).toMatchObject({ isWatched: false, isTailed: false });
});

it.each([
  ["of the statistics", { fromMs: 0, toMs: 60_000, stepMs: 60_000 }],
  ["of the top keys", { policy: "api", by: "denied", limit: 1 }],
] as const)("a read %s makes beats due every second, and a read of the metrics does not", async (_, query) => {
  const stub = controlPlane();
  await stub.metrics();
  expect(await stub.beat(beat([]))).toMatchObject({ isWatched: false, isTailed: false });
  await ("by" in query ? stub.top(query) : stub.statistics(query));
  expect(await stub.beat(beat([]))).toMatchObject({ isWatched: true, isTailed: false });
});
