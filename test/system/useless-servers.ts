/** Servers from which a client of `/check` gets no decision. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";

export interface UselessServers {
  /** The port of a server that accepts requests and never answers. */
  readonly silentPort: number;
  /** The port of a server that answers every request with 200 and the text of the request's path. */
  readonly otherPort: number;
  readonly close: () => void;
}

export async function startUselessServers(): Promise<UselessServers> {
  const silent = createServer(() => undefined);
  const other = createServer(({ url = "" }, response) => response.end(decodeURIComponent(url.slice(1))));
  const [silentPort, otherPort] = [await portOf(silent), await portOf(other)];
  return {
    silentPort,
    otherPort,
    close: () => {
      for (const server of [silent, other]) {
        server.closeAllConnections();
        server.close();
      }
    },
  };
}

async function portOf(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}
