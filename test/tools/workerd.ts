/**
 * Runs the bundle of Headgate in a workerd process, in front of an origin that counts requests. The process can be
 * killed without warning and restarted with the same storage and ports.
 */
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bundle, type RunningWorkerd, runWorkerd } from "./workerd-process.ts";

export interface Workerd {
  readonly url: URL;
  /** The URL of the other Worker, if there is one. */
  readonly otherUrl: URL;
  /** The URL of the origin itself, which bypasses Headgate. */
  readonly originUrl: URL;
  /** The number of requests that have reached the origin since the last start. */
  readonly served: () => Promise<number>;
  /** The current and the highest memory use of the process; null on systems without `/proc`. */
  readonly memoryBytes: () => { readonly now: number; readonly most: number } | null;
  /** The processor time of the process so far, in milliseconds; null on systems without `/proc`. */
  readonly cpuMs: () => number | null;
  /** Kills the process without warning, as a crash would. */
  readonly kill: () => Promise<void>;
  /** Restarts with the same storage and ports. */
  readonly start: () => Promise<void>;
  readonly close: () => Promise<void>;
}

const compatibilityDate = "2026-11-01";

/** Answers every request with the number of requests so far. Requests of `/count` are not counted. */
const countingOrigin = `
let served = 0;
export default {
  fetch(request) {
    if (new URL(request.url).pathname !== "/count") served += 1;
    return new Response(String(served));
  },
};
`;

/** An entry module that only exports the bundle. */
const plainEntry = `export * from "./index.js";\nexport { default } from "./index.js";\n`;

/** Optional Workers and settings around Headgate. */
export interface WorkerdOptions {
  /** An entry module that replaces the bundle `./index.js`. */
  readonly entry?: string;
  /** The code of an origin that replaces the counting origin. */
  readonly origin?: string;
  /**
   * The code of another Worker, with Headgate's service bound as `HEADGATE`, its HTTP endpoint as `HEADGATE_HTTP` and
   * its objects as `RATE_LIMITER`.
   */
  readonly other?: string;
  /** The request field with Cloudflare's location data in JSON. */
  readonly cfField?: string;
  /** A folder that already contains the bundle. */
  readonly bundledIn?: string;
  /** Whether the bundle has the class of the control plane, and the Worker its binding. Default: false. */
  readonly hasControlPlane?: boolean;
  /** Whether the Durable Object classes have SQLite storage. Default: true. */
  readonly hasSqlite?: boolean;
  /** The port of Headgate. Default: any free port. */
  readonly port?: number;
  /** Receives everything that workerd prints, including Headgate's log. */
  readonly print?: (text: string) => void;
  /** Command-line flags of workerd. */
  readonly flags?: readonly string[];
  /** Flags of V8, for all isolates of the process. */
  readonly v8Flags?: readonly string[];
}

type Socket = "headgate" | "origin" | "other";

/** A Worker that never uses its bindings. */
const idle = "export default { fetch: () => new Response() };";

/**
 * @param folder the caller's folder for the bundle and the objects' storage
 * @param vars variables; without `ORIGIN`, the origin is a Worker in the same process
 */
export async function startWorkerd(
  folder: string,
  vars: Readonly<Record<string, unknown>>,
  surroundings: WorkerdOptions = {},
): Promise<Workerd> {
  mkdirSync(join(folder, "storage"), { recursive: true });
  if (surroundings.bundledIn === undefined) bundle(folder);
  else copyFileSync(join(surroundings.bundledIn, "index.js"), join(folder, "index.js"));
  writeFileSync(join(folder, "origin.js"), surroundings.origin ?? countingOrigin);
  writeFileSync(join(folder, "other.js"), surroundings.other ?? idle);
  writeFileSync(join(folder, "entry.js"), surroundings.entry ?? plainEntry);
  const bindings = { ORIGIN: "http://origin.example", KEY_SECRET: crypto.randomUUID(), ...vars };
  const outbound = vars["ORIGIN"] === undefined ? "origin" : "network";
  writeFileSync(join(folder, "workerd.capnp"), workerdConfig(bindings, outbound, surroundings));
  const { print = (): void => undefined, flags = [] } = surroundings;
  const start = async (ports: Readonly<Record<Socket, number>>): Promise<RunningWorkerd<Socket>> => {
    const started = await runWorkerd(folder, ports, { print, flags });
    // The first response, with any status, shows that workerd is running.
    await fetch(`http://127.0.0.1:${started.ports.headgate}/check/health`);
    return started;
  };
  let running = await start({ headgate: surroundings.port ?? 0, origin: 0, other: 0 });
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
    memoryBytes: () => processMemory(running.pid),
    cpuMs: () => processorTime(running.pid),
    kill,
    start: async () => {
      await kill();
      running = await start(ports);
    },
    close: kill,
  };
}

/**
 * File names are relative to the configuration, and the storage folder to workerd's working folder. Both folders are
 * `folder`.
 */
function workerdConfig(
  bindings: Readonly<Record<string, unknown>>,
  outbound: "origin" | "network",
  { cfField, hasControlPlane = false, hasSqlite = true, v8Flags = [] }: WorkerdOptions,
): string {
  const http = cfField === undefined ? "" : `cfBlobHeader = ${JSON.stringify(cfField)}`;
  const classes = [["RATE_LIMITER", "RateLimiter"], ...(hasControlPlane ? [["CONTROL_PLANE", "ControlPlane"]] : [])];
  // As in wrangler, texts are bound as texts and other values as JSON.
  const values = Object.entries(bindings).map(([name, value]) => {
    const [type, text] = typeof value === "string" ? ["text", value] : ["json", JSON.stringify(value)];
    return `(name = ${JSON.stringify(name)}, ${type} = ${JSON.stringify(text)}),`;
  });
  return `using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  v8Flags = ${JSON.stringify(v8Flags)},
  services = [
    (name = "headgate", worker = (
      modules = [
        (name = "entry.js", esModule = embed "entry.js"),
        (name = "index.js", esModule = embed "index.js"),
      ],
      compatibilityDate = "${compatibilityDate}",
      compatibilityFlags = ["enable_request_signal"],
      bindings = [
        ${values.join("\n        ")}
        ${classes.map(([name, type]) => `(name = "${name}", durableObjectNamespace = "${type}"),`).join("\n        ")}
      ],
      durableObjectNamespaces = [
        ${classes.map(([, type]) => `(className = "${type}", uniqueKey = "${type}", enableSql = ${hasSqlite}),`).join("\n        ")}
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
        (name = "HEADGATE_HTTP", service = "headgate"),
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

/** Reads Linux's `/proc`. */
function processMemory(pid: number): { now: number; most: number } | null {
  const path = `/proc/${pid}/status`;
  if (!existsSync(path)) return null;
  const text = readFileSync(path, "utf8");
  const bytesOf = (name: string): number => 1_024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(text)?.[1]);
  return { now: bytesOf("VmRSS"), most: bytesOf("VmHWM") };
}

/** Reads Linux's `/proc`, whose `schedstat` is more precise than the ticks of `stat`. */
function processorTime(pid: number): number | null {
  const folder = `/proc/${pid}/task`;
  if (!existsSync(folder)) return null;
  const nanoseconds = readdirSync(folder).map((task) =>
    Number(readFileSync(join(folder, task, "schedstat"), "utf8").split(" ")[0]),
  );
  return nanoseconds.reduce((sum, each) => sum + each, 0) / 1_000_000;
}
