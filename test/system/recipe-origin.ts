/** An origin that the tests of the recipes control, and the identity provider of the origin's users. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import { exportJWK, generateKeyPair, type GenerateKeyPairResult, SignJWT } from "jose";
import { accepted } from "./frames.ts";

export interface RecipeOrigin {
  readonly url: string;
  readonly keysUrl: string;
  /** The bodies of all logins received so far. */
  readonly logins: readonly string[];
  /** A token that the identity provider signed, valid for longer than a test run. */
  readonly tokenOf: (claims: Claims) => Promise<string>;
  /** A token with another key's signature. */
  readonly forgedTokenOf: (claims: Claims) => Promise<string>;
  /** Sends the rest of a report whose response has begun. */
  readonly finish: (path: string) => void;
  readonly close: () => void;
}

/** The variables of a page, in which this origin and its identity provider replace the page's. */
export const localVariables = (
  vars: Readonly<Record<string, unknown>>,
  { url, keysUrl }: RecipeOrigin,
): Readonly<Record<string, unknown>> => ({
  ...vars,
  ORIGIN: url,
  ...(vars["JWT_JWKS_URL"] !== undefined && { JWT_JWKS_URL: keysUrl }),
});

export type Claims = Readonly<Record<string, string>>;

export async function startRecipeOrigin(): Promise<RecipeOrigin> {
  const provider = await generateKeyPair("ES256");
  const stranger = await generateKeyPair("ES256");
  const keys = [{ ...(await exportJWK(provider.publicKey)), kid: "provider", alg: "ES256" }];
  const logins: string[] = [];
  const reports = new Map<string, ServerResponse>();

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname } = new URL(request.url ?? "", "http://origin.example");
    const [, folder = "", name = ""] = pathname.split("/");
    switch (folder) {
      case "keys":
        response.setHeader("Content-Type", "application/json").end(JSON.stringify({ keys }));
        return;
      case "login": {
        const body = await text(request);
        logins.push(body);
        response.writeHead(body.endsWith("the right password") ? 200 : 401).end();
        return;
      }
      // An API that rejects some API keys as unknown.
      case "api": {
        const isUnknown = String(request.headers["x-api-key"]).startsWith("sk_unknown");
        response.writeHead(isUnknown ? 401 : 200).end();
        return;
      }
      // A model that uses as many tokens as the request asks for, and has this price.
      case "v1":
        if (/^\d+$/.test(name)) response.setHeader("X-Tokens-Used", name).setHeader("X-Price", name);
        response.writeHead(name === "broken" ? 503 : 200).end();
        return;
      // A GraphQL server that states the cost of a list and its items.
      case "graphql": {
        const [, first = "0"] = /first: (\d+)/.exec(await text(request)) ?? [];
        response.setHeader("X-Query-Cost", String(Number(first) + 1)).end('{"data":{}}');
        return;
      }
      case "reports":
        reports.set(pathname, response);
        response.write("The report begins.");
        return;
      default:
        response.setHeader("Content-Type", "text/plain").end("Hello from the origin.\n");
    }
  };

  const server = createServer((request, response) => void answer(request, response));
  const sockets: Duplex[] = [];
  server.on("upgrade", (request, stream, unread) => {
    sockets.push(stream);
    const frames = accepted(request, stream, unread);
    // Answers the close frame of the client, the only frame that a test sends.
    void frames.next().then(({ opcode, data }) => frames.send(opcode, data));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port to listen on");
  const url = `http://127.0.0.1:${address.port}`;
  return {
    url,
    keysUrl: `${url}/keys`,
    logins,
    tokenOf: (claims) => signed(provider, claims),
    forgedTokenOf: (claims) => signed(stranger, claims),
    finish: (path) => void reports.get(path)?.end(),
    close: () => {
      server.close();
      server.closeAllConnections();
      // An upgraded connection no longer belongs to the server.
      for (const socket of sockets) socket.destroy();
    },
  };
}

const signed = ({ privateKey }: GenerateKeyPairResult, claims: Claims): Promise<string> =>
  new SignJWT(claims)
    .setProtectedHeader({ alg: "ES256", kid: "provider" })
    .setIssuer("https://id.example.com/")
    .setAudience(claims["aud"] ?? "https://api.example.com")
    .setExpirationTime("1h")
    .sign(privateKey);
