/** A small app whose requests the rate limiters of other packages limit. */
import type { AddressInfo } from "node:net";
import express from "express";
import { type Options, rateLimit as expressRateLimit } from "express-rate-limit";
import { type Context, Hono } from "hono";
import { rateLimiter as rateLimiter04 } from "hono-rate-limiter";
import { rateLimiter as rateLimiter05 } from "hono-rate-limiter-0.5";
import { cloudflareRateLimiter } from "../peers/durable-store.ts";
import { answerOf, defaults, headersOf, pathOf, remainingHeader, type Send } from "./requests.ts";

export interface RunningApp {
  readonly send: Send;
  readonly close: () => void;
}

/** The options that a case adds to those of the small app. */
export type PeerOptions = Readonly<Record<string, unknown>>;

function nameIn(options: PeerOptions, option: string): string | undefined {
  const name = options[option];
  return typeof name === "string" ? name : undefined;
}

type Limiter04 = (options: Parameters<typeof rateLimiter04>[0]) => ReturnType<typeof rateLimiter04>;

function honoApp(limiter: Limiter04, options: PeerOptions): RunningApp {
  const app = new Hono();
  const keyGenerator = (c: Context): string => c.req.header("X-Client") ?? "";
  app.use(limiter({ ...defaults, keyGenerator, ...options }));
  const property = nameIn(options, "requestPropertyName") ?? "rateLimit";
  const storeProperty = nameIn(options, "requestStorePropertyName") ?? "rateLimitStore";
  app.all("*", async (c) => {
    const known = c.get(property as never) as { remaining?: number } | undefined;
    c.header(remainingHeader, String(known?.remaining));
    const store = c.get(storeProperty as never) as { resetKey: (key: string) => unknown };
    if (c.req.path === "/reset") await store.resetKey(keyGenerator(c));
    return c.text("handled", Number(c.req.query("status")) as 200);
  });
  return {
    send: async (ask) => answerOf(await app.request(pathOf(ask), { headers: headersOf(ask) })),
    close: () => undefined,
  };
}

async function expressApp(options: PeerOptions): Promise<RunningApp> {
  const app = express();
  app.set("trust proxy", 1);
  const keyGenerator: Options["keyGenerator"] = (request) => request.get("X-Client") ?? "";
  const isByAddress = Object.hasOwn(options, "ipv6Subnet");
  app.use(expressRateLimit({ ...defaults, ...(!isByAddress && { keyGenerator }), ...options }));
  const property = nameIn(options, "requestPropertyName") ?? "rateLimit";
  app.use((request, response) => {
    const known = Reflect.get(request, property) as { remaining?: number } | undefined;
    response.set(remainingHeader, String(known?.remaining));
    response.status(Number(request.query["status"])).send("handled");
  });
  // Without this setting, Express prints each error.
  app.use(((_, __, response, ___) => void response.status(500).end()) as express.ErrorRequestHandler);
  const server = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    send: async (ask) => answerOf(await fetch(origin + pathOf(ask), { headers: headersOf(ask) })),
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** The packages that the migration table translates, by name and version. */
export const packages = {
  "hono-rate-limiter 0.4": (options: PeerOptions) => honoApp(rateLimiter04, options),
  "hono-rate-limiter 0.5": (options: PeerOptions) => honoApp(rateLimiter05 as unknown as Limiter04, options),
  "@hono-rate-limiter/cloudflare 0.2": (options: PeerOptions) =>
    honoApp(cloudflareRateLimiter as unknown as Limiter04, options),
  "express-rate-limit 8": expressApp,
} as const;

export type PackageName = keyof typeof packages;
