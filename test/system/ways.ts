/**
 * Runs each kind of warm request on the real Worker in a separate thread, and posts the source files in which any
 * function runs. The clock is frozen: no timer fires and no beat is due, so that each run counts the same files.
 * Objects in memory replace the platform.
 */
import { timingSafeEqual } from "node:crypto";
import { Session } from "node:inspector/promises";
import { registerHooks } from "node:module";
import { parentPort } from "node:worker_threads";
import { MemoryStorage } from "../../src/sdk/testing/memory-storage.ts";
import { MemorySql } from "../fakes/memory-sql.ts";

export type Way = "proxied and strict" | "POST /check" | "cached denial" | "settle" | "creation of a rule";

/** For each kind of request, the paths of its files below `src`. */
export type WarmFiles = Readonly<Record<Way, readonly string[]>>;

/** More requests than any part of the Worker or of its objects needs to become warm. */
const warmingRequests = 20;
const sourceFolder = new URL("../../src/", import.meta.url).href;

const platform = "cloudflare:workers";
registerHooks({
  resolve: (name, context, next) => (name === platform ? { url: platform, shortCircuit: true } : next(name, context)),
  load: (url, context, next) =>
    url === platform
      ? {
          source: "export class DurableObject {} export class WorkerEntrypoint {}",
          format: "module",
          shortCircuit: true,
        }
      : next(url, context),
});
const nowMs = Date.now();
Object.assign(Date, { now: () => nowMs });
Object.assign(globalThis, {
  setTimeout: () => 0,
  fetch: async () => new Response("from the origin"),
  WebSocketRequestResponsePair: Object,
});
Object.assign(crypto.subtle, { timingSafeEqual });

const { default: worker, ControlPlane, RateLimiter } = await import("../../src/index.ts");

/** A binding of objects in memory. It clones values in both directions, as the platform does. */
function namespaceOf(create: () => object): object {
  const objects = new Map<string, object>();
  const getByName = (name: string): object => {
    const object = objects.get(name) ?? create();
    objects.set(name, object);
    const call =
      (method: string) =>
      async (...values: unknown[]): Promise<unknown> =>
        structuredClone(await Reflect.apply(Reflect.get(object, method), object, structuredClone(values)));
    return new Proxy({}, { get: (_, method) => call(String(method)) });
  };
  return { getByName };
}

const keyObject = (): object => new RateLimiter({ storage: new MemoryStorage() } as never, {});
const controlPlane = (): object => {
  const state = {
    storage: new MemorySql(),
    waitUntil: () => undefined,
    getWebSockets: () => [],
    setWebSocketAutoResponse: () => undefined,
  };
  return new ControlPlane(state as never, env as never);
};

const env = {
  KEY_SECRET: "a secret of the tests",
  ORIGIN: "https://origin.example",
  CHECK_TOKENS: "the-tests-token",
  ADMIN_TOKENS: JSON.stringify([{ name: "admin", token: "a".repeat(32), may: ["write"] }]),
  POLICIES: [
    { name: "strict", limits: "1000/minute", key: "ip" },
    { name: "checked", limits: "1000/minute", key: "header:x-key", match: { path: "/checked/*" } },
    { name: "denied", limits: "1/hour", strategy: "fixed-window", key: "header:x-key", match: { path: "/denied/*" } },
  ],
  RATE_LIMITER: namespaceOf(keyObject),
  CONTROL_PLANE: namespaceOf(controlPlane),
};

/** Sends a request, and waits for the work that continues after the response. */
async function send(path: string, init: RequestInit, statuses: readonly number[]): Promise<unknown> {
  const work: Promise<unknown>[] = [];
  const waitUntil = (promise: Promise<unknown>): void => void work.push(promise);
  const request = new Request(`https://headgate.example${path}`, init);
  request.headers.set("CF-Connecting-IP", "203.0.113.7");
  const response = await worker.fetch(request as never, env as never, { waitUntil } as never);
  const text = await response.text();
  for (let done = 0; done < work.length; done++) await work[done];
  if (!statuses.includes(response.status)) throw new Error(`${path}: ${response.status} ${text}`);
  return text.startsWith("{") ? JSON.parse(text) : text;
}

const post = (path: string, token: string, body: object, statuses: readonly number[]): Promise<unknown> => {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  return send(path, { method: "POST", headers, body: JSON.stringify(body) }, statuses);
};

const check = (path: string, body: object, statuses = [200]): Promise<unknown> =>
  post(`/check${path}`, "the-tests-token", body, statuses);

let created = 0;

/** Prepares each kind of request, and returns the one request that is measured. */
const ways: Readonly<Record<Way, () => Promise<() => Promise<unknown>>>> = {
  "proxied and strict": async () => () => send("/a/b", {}, [200]),
  "POST /check": async () => () => check("", { policy: "checked", key: "k" }),
  "cached denial": async () => () => check("", { policy: "denied", key: "k" }, [200, 429]),
  settle: async () => {
    const reserved = await check("/reserve", { policy: "checked", key: "k", cost: 2, ttlMs: 60_000 });
    const { id } = reserved as { readonly id: string };
    return () => check("/settle", { id, cost: 1 });
  },
  "creation of a rule": async () => () => {
    const rule = { policy: "strict", key: `198.51.100.${++created}`, kind: "block", note: "Abuse" };
    return post("/_headgate/api/rules", "a".repeat(32), rule, [201]);
  },
};

const session = new Session();
session.connect();
await session.post("Profiler.enable");

/** The source files in which any function runs during `act`. */
async function filesRunBy(act: () => Promise<unknown>): Promise<readonly string[]> {
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  await act();
  const { result } = await session.post("Profiler.takePreciseCoverage");
  await session.post("Profiler.stopPreciseCoverage");
  return result
    .filter(({ url, functions }) => url.startsWith(sourceFolder) && functions.some(({ ranges }) => ranges[0]?.count))
    .map(({ url }) => url.slice(sourceFolder.length))
    .filter((path) => !path.startsWith("sdk/testing/"))
    .toSorted();
}

async function warmFilesOf(way: Way): Promise<readonly string[]> {
  const prepare = ways[way];
  for (let request = 0; request < warmingRequests; request++) await (await prepare())();
  return filesRunBy(await prepare());
}

const files: Record<string, readonly string[]> = {};
// Runs them one after the other, so that no other request runs during a measurement.
for (const way of Object.keys(ways) as Way[]) files[way] = await warmFilesOf(way);
// oxlint-disable-next-line unicorn/require-post-message-target-origin
parentPort?.postMessage(files);
