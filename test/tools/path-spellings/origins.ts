/** Express and nginx with default routing. Their responses name the handler that a request has reached. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import { startNginx } from "../../system/gateway-process.ts";

export interface PathOrigin {
  readonly url: string;
  readonly close: () => Promise<void>;
}

/** The handlers. Each has the path pattern of the policy that protects it, and a path that reaches it. */
export const handlers = [
  { name: "literal", pattern: "/login", path: "/login" },
  { name: "nested", pattern: "/account/password", path: "/account/password" },
  { name: "segment", pattern: "/files/:name", path: "/files/report" },
  { name: "rest", pattern: "/api/*", path: "/api/users" },
] as const;

export const handlerField = "x-handler";

export async function startExpress(): Promise<PathOrigin> {
  const app = express();
  for (const [name, path] of [
    ["literal", "/login"],
    ["nested", "/account/password"],
    ["segment", "/files/:name"],
    ["rest", "/api/*rest"],
  ] as const) {
    app.all(path, (_request, response) => void response.set(handlerField, name).end());
  }
  app.use((_request, response) => void response.status(404).end());
  const server = createServer(app).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.closeAllConnections();
      await once(server.close(), "close");
    },
  };
}

export const startNginxOrigin = (): Promise<PathOrigin> =>
  startNginx(
    (port) => `keepalive_requests 1000000;
server {
listen 127.0.0.1:${port};
location = /login { add_header ${handlerField} literal; return 200; }
location = /account/password { add_header ${handlerField} nested; return 200; }
location ~ ^/files/[^/]+$ { add_header ${handlerField} segment; return 200; }
location /api/ { add_header ${handlerField} rest; return 200; }
location / { return 404; }
}`,
  );
