/** A small origin for the demo. Its response describes the request that it received. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

export interface DemoOrigin {
  readonly url: string;
  close(): void;
}

export async function startDemoOrigin(): Promise<DemoOrigin> {
  let served = 0;
  const server = createServer((request, response) => {
    served += 1;
    respond(request, response, served);
  });
  const { promise: listening, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject);
  server.listen(0, "127.0.0.1", resolve);
  await listening;
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port to listen on");
  return {
    url: `http://127.0.0.1:${address.port}`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

const maxEchoedBytes = 1_024;

function respond(request: IncomingMessage, response: ServerResponse, served: number): void {
  const bodyChunks: Buffer[] = [];
  let sizeBytes = 0;
  request.on("data", (chunk: Buffer) => {
    if (sizeBytes < maxEchoedBytes) bodyChunks.push(chunk.subarray(0, maxEchoedBytes - sizeBytes));
    sizeBytes += chunk.length;
  });
  request.on("end", () => {
    response.writeHead(200, { "Content-Type": "application/json" });
    const received = {
      origin: "Hello from the demo origin.",
      served,
      method: request.method,
      path: request.url,
      ...(sizeBytes > 0 && { sizeBytes, body: Buffer.concat(bodyChunks).toString("utf8") }),
    };
    response.end(`${JSON.stringify(received, null, 2)}\n`);
  });
}
