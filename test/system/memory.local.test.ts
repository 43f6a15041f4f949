/** Sends bodies of 100 MB through a Worker and checks that it never buffers them. */
import { once } from "node:events";
import { createServer, request as requestOf } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startWorkerd, type Workerd } from "../tools/workerd.ts";

const megabyte = 1_048_576;
const sizeBytes = 100 * megabyte;

const mostGrowthBytes = 32 * megabyte;
const piece = Buffer.alloc(65_536, "headgate");

/** A body that is generated while it is read. */
function* pieces(size: number): Generator<Buffer> {
  for (let bytes = 0; bytes < size; bytes += piece.length) yield piece;
}

/** Reads the size at the end of a path, in megabytes. */
const sizeOf = (path = ""): number => Number(path.split("/").at(-1)) * megabyte;

const countOf = async (body: Readable): Promise<number> => {
  let bytes = 0;
  for await (const chunk of body) bytes += (chunk as Buffer).length;
  return bytes;
};

const server = createServer((request, response) => {
  if (request.method === "GET") {
    response.setHeader("Content-Length", sizeOf(request.url));
    void pipeline(Readable.from(pieces(sizeOf(request.url))), response);
  } else void countOf(request).then((bytes) => response.end(String(bytes)));
});

const folder = mkdtempSync(join(tmpdir(), "headgate-memory-"));
let workerd: Workerd;

beforeAll(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const policies = [
    { name: "plain", match: { path: "/plain/*" }, limits: "1000/hour" },
    {
      name: "slots",
      match: { path: "/slots/*" },
      limits: { limit: 5, window: "1h", strategy: "concurrency" },
    },
  ];
  workerd = await startWorkerd(folder, {
    ORIGIN: `http://127.0.0.1:${port}`,
    POLICIES: JSON.stringify(policies),
  });
});

afterAll(async () => {
  await workerd.close();
  server.close();
  rmSync(folder, { recursive: true });
});

async function answerOf(path: string, method: string): Promise<Readable> {
  const request = requestOf(new URL(path, workerd.url).href, { method });
  const answered = once(request, "response") as Promise<[Readable]>;
  if (method === "GET") request.end();
  else await pipeline(Readable.from(pieces(sizeOf(path))), request);
  const [answer] = await answered;
  return answer;
}

const hasMemory = process.platform === "linux";

describe.each(["plain", "slots"] as const)("a body of 100 MB through a policy called %s", (policy) => {
  it.runIf(hasMemory)(
    "the Worker streams a request body and a response body of 100 MB without buffering them",
    async () => {
      await countOf(await answerOf(`/${policy}/1`, "GET"));
      await countOf(await answerOf(`/${policy}/1`, "POST"));
      const before = workerd.memoryBytes()?.most ?? 0;
      expect(await countOf(await answerOf(`/${policy}/100`, "GET"))).toBe(sizeBytes);
      const receivedSize = await (await answerOf(`/${policy}/100`, "POST")).toArray();
      expect(Number(Buffer.concat(receivedSize as Buffer[]))).toBe(sizeBytes);
      // The highest memory use of the process so far.
      const growth = (workerd.memoryBytes()?.most ?? 0) - before;
      expect(growth).toBeLessThan(mostGrowthBytes);
    },
  );
});
