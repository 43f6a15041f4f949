/**
 * Headgate as it is deployed: the bundle, in a workerd of its own, in front of an origin that counts. It can be killed
 * without warning and started again where it was.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bundle, type Running, runWorkerd } from "./workerd-process.ts";

export interface Workerd {
  readonly url: URL;
  /** Where the other Worker is, if there is one. */
  readonly otherUrl: URL;
  /** Where the origin is asked past Headgate. */
  readonly originUrl: URL;
  /** How many requests have reached the origin since the last start. */
  readonly served: () => Promise<number>;
  /** The memory that the process has in use, and the most that it had; null where the system does not tell. */
  readonly memoryBytes: () => { readonly now: number; readonly most: number } | null;
  /** Ends the process as a crash would: nothing is told to it, nothing is waited for. */
  readonly kill: () => Promise<void>;
  /** After `kill`: the same storage, the same port. */
  readonly start: () => Promise<void>;
  readonly close: () => Promise<void>;
}

const compatibilityDate = "2026-11-01";

/** Answers every request with how many it has seen; `/count` without counting. */
const counting = `
let served = 0;
export default {
  fetch(request) {
    if (new URL(request.url).pathname !== "/count") served += 1;
    return new Response(String(served));
  },
};
`;

/** The bundle as it is. */
const itself = `export * from "./index.js";\nexport { default } from "./index.js";\n`;

/** What stands around Headgate, and who hears what is printed. */
export interface Surroundings {
  /** What stands for the bundle, `./index.js`. */
  readonly entry?: string;
  /** The code of the origin, in place of the one that counts. */
  readonly origin?: string;
  /** The code of another Worker, bound to Headgate's service as `HEADGATE` and its objects as `RATE_LIMITER`. */
  readonly other?: string;
  /** The field in which a request says, as JSON, what Cloudflare would know of where it comes from. */
  readonly cfField?: string;
  /** Takes all that workerd prints, Headgate's log included. */
  readonly print?: (text: string) => void;
  /** Of workerd's command line. */
  readonly flags?: readonly string[];
}

type Socket = "headgate" | "origin" | "other";

/** A Worker that has Headgate bound and nothing to do with it. */
const idle = "export default { fetch: () => new Response() };";

/**
 * @param folder the caller's: for the bundle, and for what the objects store
 * @param vars with an `ORIGIN` of the caller's, which is asked over the network; without one it is a Worker beside
 */
export async function startWorkerd(
  folder: string,
  vars: Readonly<Record<string, string>>,
  surroundings: Surroundings = {},
): Promise<Workerd> {
  mkdirSync(join(folder, "storage"), { recursive: true });
  bundle(folder);
  writeFileSync(join(folder, "origin.js"), surroundings.origin ?? counting);
  writeFileSync(join(folder, "other.js"), surroundings.other ?? idle);
  writeFileSync(join(folder, "entry.js"), surroundings.entry ?? itself);
  const bindings = { ORIGIN: "http://origin.example", KEY_SECRET: crypto.randomUUID(), ...vars };
  const outbound = vars["ORIGIN"] === undefined ? "origin" : "network";
  writeFileSync(join(folder, "workerd.capnp"), configOf(bindings, outbound, surroundings.cfField));
  const { print = (): void => undefined, flags = [] } = surroundings;
  const start = async (ports: Readonly<Record<Socket, number>>): Promise<Running<Socket>> => {
    const started = await runWorkerd(folder, ports, { print, flags });
    // Whatever it answers, it is up.
    await fetch(`http://127.0.0.1:${started.ports.headgate}/check/health`);
    return started;
  };
  let running = await start({ headgate: 0, origin: 0, other: 0 });
  const { ports } = running;
  const urlOf = (port: number): URL => new URL(`http://127.0.0.1:${port}`);
  const kill = (): Promise<void> => running.kill();
  return {
    url: urlOf(ports.headgate),
    otherUrl: urlOf(ports.other),
    originUrl: urlOf(ports.origin),
    served: async () => {
      const response = await fetch(new URL("/count", urlOf(ports.origin)));
      return Number(await response.text());
    },
    memoryBytes: () => memoryOf(running.pid),
    kill,
    start: async () => {
      await kill();
      running = await start(ports);
    },
    close: kill,
  };
}

/** Its files are named from where the configuration is, its folder from where workerd is started: there too. */
function configOf(
  bindings: Readonly<Record<string, string>>,
  outbound: "origin" | "network",
  cfField?: string,
): string {
  const http = cfField === undefined ? "" : `cfBlobHeader = ${JSON.stringify(cfField)}`;
  const texts = Object.entries(bindings).map(
    ([name, text]) => `(name = ${JSON.stringify(name)}, text = ${JSON.stringify(text)}),`,
  );
  return `using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "headgate", worker = (
      modules = [
        (name = "entry.js", esModule = embed "entry.js"),
        (name = "index.js", esModule = embed "index.js"),
      ],
      compatibilityDate = "${compatibilityDate}",
      compatibilityFlags = ["enable_request_signal"],
      bindings = [
        ${texts.join("\n        ")}
        (name = "RATE_LIMITER", durableObjectNamespace = "RateLimiter"),
      ],
      durableObjectNamespaces = [
        (className = "RateLimiter", uniqueKey = "RateLimiter", enableSql = true),
      ],
      durableObjectStorage = (localDisk = "storage"),
      globalOutbound = "${outbound}",
    )),
    (name = "origin", worker = (
      modules = [(name = "origin.js", esModule = embed "origin.js")],
      compatibilityDate = "${compatibilityDate}",
      compatibilityFlags = ["enable_request_signal"],
    )),
    (name = "other", worker = (
      modules = [(name = "other.js", esModule = embed "other.js")],
      compatibilityDate = "${compatibilityDate}",
      bindings = [
        (name = "HEADGATE", service = (name = "headgate", entrypoint = "Headgate")),
        (name = "RATE_LIMITER", durableObjectNamespace = (
          className = "RateLimiter", serviceName = "headgate"
        )),
      ],
    )),
    (name = "network", network = (allow = ["private"])),
    (name = "storage", disk = (path = "storage", writable = true)),
  ],
  sockets = [
    (name = "headgate", http = (${http}), service = "headgate"),
    (name = "origin", http = (), service = "origin"),
    (name = "other", http = (), service = "other"),
  ],
);
`;
}

/** As Linux tells it. */
function memoryOf(pid: number): { now: number; most: number } | null {
  const path = `/proc/${pid}/status`;
  if (!existsSync(path)) return null;
  const text = readFileSync(path, "utf8");
  const bytesOf = (name: string): number =>
    1_024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(text)?.[1]);
  return { now: bytesOf("VmRSS"), most: bytesOf("VmHWM") };
}
