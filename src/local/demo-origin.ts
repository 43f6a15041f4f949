/** A small origin to put the limiter in front of while there is no other: it tells what reached it. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

export interface DemoOrigin {
  readonly url: string;
  close(): void;
}

export async function startDemoOrigin(): Promise<DemoOrigin> {
  let served = 0;
  const server = createServer((request, response) => {
    served += 1;
    answer(request, response, served);
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

/** As much of a body as is worth telling. */
const mostToldBytes = 1_024;

function answer(request: IncomingMessage, response: ServerResponse, served: number): void {
  const told: Buffer[] = [];
  let sizeBytes = 0;
  request.on("data", (chunk: Buffer) => {
    if (sizeBytes < mostToldBytes) told.push(chunk.subarray(0, mostToldBytes - sizeBytes));
    sizeBytes += chunk.length;
  });
  request.on("end", () => {
    response.writeHead(200, { "Content-Type": "application/json" });
    const received = {
      origin: "Hello from the demo origin.",
      served,
      method: request.method,
      path: request.url,
      ...(sizeBytes > 0 && { sizeBytes, body: Buffer.concat(told).toString("utf8") }),
    };
    response.end(`${JSON.stringify(received, null, 2)}\n`);
  });
}
