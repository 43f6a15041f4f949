/** A server that gives the answers to calls of `/check` that a test prescribes. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { onTestFinished } from "vitest";

export interface FaultyServer {
  readonly url: string;
  /** The method and path of each request that arrived. */
  readonly requests: string[];
}

export type Answer = (response: ServerResponse, request: IncomingMessage) => void;

/** An allowed check as JSON. */
export const allowed = JSON.stringify({
  allowed: true,
  cost: 1,
  delayMs: 0,
  retryAfterMs: 0,
  bannedForMs: 0,
  limits: [],
  policy: "api",
  reason: "limit",
  violated: [],
  headers: {},
});

type Fields = Readonly<Record<string, string>>;

export const text =
  (status: number, fields: Fields, body: string): Answer =>
  (response) => {
    response.writeHead(status, fields).end(body);
  };

export const allow = (fields: Fields = {}): Answer =>
  text(200, { "Content-Type": "application/json", ...fields }, allowed);

export const problem = (status: number, fields: Fields = {}, members: object = {}): Answer =>
  text(
    status,
    { "Content-Type": "application/problem+json", ...fields },
    JSON.stringify({ type: "about:blank", title: "Title", status, detail: "Detail.", ...members }),
  );

/** Closes the connection without an answer. */
export const drop: Answer = (response) => void response.destroy();

/** Closes the connection in the middle of the body. */
export const dropInBody: Answer = (response) => {
  response.writeHead(200, { "Content-Type": "application/json", "Content-Length": "9999" });
  response.write(allowed.slice(0, 40), () => response.destroy());
};

/** Never answers. */
export const silence: Answer = () => undefined;

/** Starts a server that gives these answers one after the other, and then repeats the last. */
export async function startFaultyServer(...answers: readonly Answer[]): Promise<FaultyServer> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const answer = answers[Math.min(requests.length, answers.length - 1)];
    requests.push(`${request.method} ${request.url}`);
    // Reads the body, because the connection cannot be used again before.
    request.resume().once("end", () => answer?.(response, request));
  });
  const url = await listening(server);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url, requests };
}

/** A URL at which no server listens. */
export async function closedUrl(): Promise<string> {
  const server = createServer();
  const url = await listening(server);
  server.close();
  await once(server, "close");
  return url;
}

async function listening(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return `http://127.0.0.1:${address.port}`;
}
