/** Starts everything that is measured: Workers in one workerd process, and Node and Redis in separate processes. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Counts } from "./counts.ts";
import { cpuMsOf } from "./cpu.ts";
import { bundle, runWorkerd } from "../workerd-process.ts";
import { headgates } from "./headgates.ts";
import { redisVersion, startNodeAndRedis } from "./node-and-redis.ts";
import { bindingExtensions, bindingServices, copyBinding, rateLimitBinding } from "./rate-limit-binding.ts";
import { configurationOf, type WorkerSocket, type WorkerService } from "./services.ts";

const compatibilityDate = "2026-11-01";

/** A Worker that answers requests for every host, so that no forwarded request leaves the process. */
const origin = `export default { fetch: () => Response.json({ answered: true }) };`;

const services: readonly WorkerService[] = [
  {
    name: "floor",
    modules: { "floor.js": "floor/floor.js" },
    compatibilityDate,
    texts: { ORIGIN: "http://origin.example" },
    objects: { NOOP: "Noop" },
    outbound: "origin",
  },
  ...headgates,
  {
    name: "peers",
    modules: { "peers.js": "peers/peers.js" },
    compatibilityDate,
    objects: { STORE: "DurableObjectRateLimiter" },
    bindings: [rateLimitBinding("MANY", 1_000_000_000), rateLimitBinding("ONE", 1)],
  },
  ...bindingServices,
  { name: "origin", modules: { "origin.js": "origin.js" }, compatibilityDate },
];

const sockets: readonly WorkerSocket[] = [
  { name: "floor", service: "floor" },
  { name: "pass", service: "floor", entrypoint: "bare" },
  { name: "pass-noop", service: "floor", entrypoint: "bareNoop" },
  { name: "peers", service: "peers" },
  ...headgates.map(({ name }) => ({ name, service: name })),
  { name: "unjoined", service: "strict", entrypoint: "unjoined" },
];

/** For each service that counts, the socket that returns its counts. */
const countsSockets: readonly WorkerSocket[] = [...new Set(sockets.map(({ service }) => service))].map((service) => ({
  name: `${service} counts`,
  service,
  entrypoint: "counts",
}));

export interface BenchPlatform {
  /** The URL of each socket that could be started. */
  readonly urls: ReadonlyMap<string, URL>;
  /** The reason why a socket is missing. */
  readonly missing: ReadonlyMap<string, string>;
  /** The processor time that the processes behind a socket have used. */
  readonly cpuMs: (socket: string) => number | null;
  /** The requests and calls of objects that the Worker behind a socket has counted. */
  readonly counts: (socket: string) => Promise<Counts | null>;
  readonly close: () => Promise<void>;
}

// The emulated binding's services need this experimental flag.
const flags = ["--experimental"];

/** @param names the sockets to start; Redis is started only for `node` */
export async function startPlatform(folder: string, names: ReadonlySet<string>): Promise<BenchPlatform> {
  prepare(folder);
  const ports = Object.fromEntries([...sockets, ...countsSockets].map(({ name }) => [name, 0]));
  const workerd = await runWorkerd(folder, ports, { flags });
  const urls = new Map(
    Object.entries(workerd.ports).map(([name, port]) => [name, new URL(`http://127.0.0.1:${String(port)}`)]),
  );
  const missing = new Map<string, string>();
  const counts = (socket: string): Promise<Counts | null> => countsOf(socket, urls);
  const cpuMs = (): number | null => cpuMsOf([workerd.pid]);
  const platform = { urls, missing, cpuMs, counts, close: workerd.kill };
  if (!names.has("node")) return platform;
  if (redisVersion() === undefined) {
    missing.set("node", "redis-server is not installed");
    return platform;
  }
  try {
    const node = await startNodeAndRedis(folder);
    urls.set("node", node.url);
    const close = async (): Promise<void> => {
      await Promise.all([workerd.kill(), node.close()]);
    };
    return {
      ...platform,
      cpuMs: (socket) => cpuMsOf(socket === "node" ? node.pids : [workerd.pid]),
      close,
    };
  } catch (error) {
    await workerd.kill();
    throw error;
  }
}

async function countsOf(socket: string, urls: ReadonlyMap<string, URL>): Promise<Counts | null> {
  const service = sockets.find(({ name }) => name === socket)?.service;
  const url = urls.get(`${service} counts`);
  if (url === undefined) return null;
  const response = await fetch(url);
  return await response.json<Counts>();
}

function prepare(folder: string): void {
  mkdirSync(join(folder, "storage"), { recursive: true });
  bundleWorker(folder, "headgate");
  bundleWorker(folder, "floor");
  bundleWorker(folder, "peers");
  copyBinding(folder);
  writeFileSync(join(folder, "origin.js"), origin);
  writeFileSync(
    join(folder, "workerd.capnp"),
    configurationOf(services, [...sockets, ...countsSockets], bindingExtensions, "storage"),
  );
}

/** Bundles a Worker as Headgate is bundled. */
function bundleWorker(folder: string, name: string): void {
  const file = join(folder, `${name}.json`);
  writeFileSync(
    file,
    JSON.stringify({
      name,
      main: resolve(import.meta.dirname, "workers", `${name}.ts`),
      compatibility_date: compatibilityDate,
      minify: true,
      keep_names: false,
    }),
  );
  bundle(join(folder, name), file);
}
