/** Starts everything to measure: Workers in one workerd, and Node with Redis in processes of their own. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { bundle, runWorkerd } from "../workerd-process.ts";
import { headgates } from "./headgates.ts";
import { redisVersion, startNodeAndRedis } from "./node-and-redis.ts";
import {
  bindingExtensions,
  bindingServices,
  copyBinding,
  rateLimitBinding,
} from "./rate-limit-binding.ts";
import { configurationOf, type WorkerSocket, type WorkerService } from "./services.ts";

const compatibilityDate = "2026-11-01";

/** Answers for every host, so that no forwarded request leaves the process. */
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
];

export interface BenchPlatform {
  /** The URL of each socket that could be started. */
  readonly urls: ReadonlyMap<string, URL>;
  /** The reason why a socket is missing. */
  readonly missing: ReadonlyMap<string, string>;
  /** Starts a process for one socket, with storage that lasts from one start to the next. */
  readonly startApart: (name: string) => Promise<Apart>;
  readonly close: () => Promise<void>;
}

export interface Apart {
  readonly url: URL;
  readonly close: () => Promise<void>;
}

// The services of the emulated binding need this experimental flag.
const flags = ["--experimental"];

/** @param names the sockets to start; Redis is started for `node` only */
export async function startPlatform(
  folder: string,
  names: ReadonlySet<string>,
): Promise<BenchPlatform> {
  prepare(folder);
  const ports = Object.fromEntries(sockets.map(({ name }) => [name, 0]));
  const workerd = await runWorkerd(folder, ports, { flags });
  const urls = new Map(
    Object.entries(workerd.ports).map(([name, port]) => [
      name,
      new URL(`http://127.0.0.1:${String(port)}`),
    ]),
  );
  const missing = new Map<string, string>();
  const startApart = (name: string): Promise<Apart> => apart(folder, name);
  const platform = { urls, missing, startApart, close: workerd.kill };
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
    return { ...platform, close };
  } catch (error) {
    await workerd.kill();
    throw error;
  }
}

async function apart(folder: string, name: string): Promise<Apart> {
  const [configuration, storage] = [`${name}.capnp`, `storage-${name}`];
  const socket = sockets.find((of) => of.name === name);
  if (socket === undefined) throw new Error(`${name} is not in workerd`);
  const isAsked = (service: string): boolean => sockets.some((of) => of.service === service);
  // Services without a socket are started too.
  const needed = services.filter((of) => of.name === socket.service || !isAsked(of.name));
  mkdirSync(join(folder, storage), { recursive: true });
  writeFileSync(
    join(folder, configuration),
    configurationOf(needed, [socket], bindingExtensions, storage),
  );
  const { ports, kill } = await runWorkerd(folder, { [name]: 0 }, { flags, configuration });
  return { url: new URL(`http://127.0.0.1:${String(ports[name])}`), close: kill };
}

function prepare(folder: string): void {
  mkdirSync(join(folder, "storage"), { recursive: true });
  bundle(join(folder, "headgate"));
  bundleWorker(folder, "floor");
  bundleWorker(folder, "peers");
  copyBinding(folder);
  writeFileSync(join(folder, "origin.js"), origin);
  writeFileSync(
    join(folder, "workerd.capnp"),
    configurationOf(services, sockets, bindingExtensions, "storage"),
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
    }),
  );
  bundle(join(folder, name), file);
}
