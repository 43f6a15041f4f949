/**
 * Runs several isolates of Headgate in one workerd process. All of them call the same objects, as the isolates of one
 * deployment do. On request, the control plane object runs in its own process, which can be killed, paused and
 * restarted like a machine.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../heap.ts";
import { configurationOf, type WorkerService } from "../http/services.ts";
import { bundle, type RunningWorkerd, runWorkerd } from "../workerd-process.ts";
import { adminToken, checkToken } from "./admin-client.ts";

export interface IsolatesOptions {
  readonly policies: readonly object[];
  /** The names of the isolates with a control plane. */
  readonly names: readonly string[];
  /** The names of additional isolates without a control plane. */
  readonly plain?: readonly string[];
  /** Whether the control plane object runs in its own process. */
  readonly isRemote?: boolean;
  /** Receives everything that the processes print. */
  readonly print?: (text: string) => void;
}

export interface Isolates {
  /** The URL of an isolate. */
  readonly url: (name: string) => URL;
  /** Present when the control plane runs in its own process. */
  readonly control: ControlProcess | null;
  /** The number of calls to each class of objects since the start. Counted when the control plane is remote. */
  readonly calls: () => Promise<Readonly<Record<"RateLimiter" | "ControlPlane", number>>>;
  readonly close: () => Promise<void>;
}

export interface ControlProcess {
  /** Kills the process without warning, as a crash would. */
  readonly kill: () => Promise<void>;
  /** Restarts the process with the same storage. */
  readonly restart: () => Promise<void>;
  /** Pauses the process: connections stay open, but nothing answers. */
  readonly pause: () => void;
  readonly resume: () => void;
}

const compatibilityDate = "2026-11-01";
const worker = { compatibilityDate, flags: ["enable_request_signal"] };

const origin = `export default { fetch: () => new Response("served") };`;

const remoteCall = `
async function call(service, body) {
  const response = await service.fetch("http://remote/", { method: "POST", body: JSON.stringify(body) });
  if (!response.ok) throw new Error("the other process answered " + response.status);
  return (await response.json()).value;
}`;

/** The objects in the process of the isolates. Its control plane object passes each call to the other process. */
const objectsEntry = `
import { DurableObject } from "cloudflare:workers";
import { ControlPlane as Original, RateLimiter as Limiter } from "./index.js";
${remoteCall}
const calls = { RateLimiter: 0, ControlPlane: 0 };
export class ControlPlane extends DurableObject {}
for (const method of Object.getOwnPropertyNames(Original.prototype)) {
  if (method === "constructor" || method === "alarm" || method === "fetch" || method.startsWith("webSocket")) continue;
  ControlPlane.prototype[method] = function (...parameters) {
    calls.ControlPlane++;
    return call(this.env.REMOTE, { method, parameters });
  };
}
export class RateLimiter extends Limiter {
  decide(...parameters) {
    calls.RateLimiter++;
    return super.decide(...parameters);
  }
}
export default {
  async fetch(request, env) {
    if (request.method === "GET") return Response.json(calls);
    const { name, parameters } = await request.json();
    return Response.json({ value: await env.RATE_LIMITER.getByName(name).setRules(...parameters) });
  },
};`;

/** The process of the control plane, which sends pushes of key rules to the objects in the process of the isolates. */
const controlEntry = `
import { DurableObject } from "cloudflare:workers";
export { ControlPlane } from "./index.js";
${remoteCall}
export class RateLimiter extends DurableObject {
  setRules(...parameters) {
    return call(this.env.REMOTE, { name: this.ctx.id.name, parameters });
  }
}
export default {
  async fetch(request, env) {
    const { method, parameters } = await request.json();
    return Response.json({ value: await env.CONTROL_PLANE.getByName("control-plane")[method](...parameters) });
  },
};`;

/** @param folder the caller's folder for the bundle and the objects' storage */
export async function startIsolates(folder: string, options: IsolatesOptions): Promise<Isolates> {
  const { names, plain = [], isRemote = false } = options;
  mkdirSync(join(folder, "storage"), { recursive: true });
  mkdirSync(join(folder, "control-storage"), { recursive: true });
  bundle(folder);
  writeFileSync(join(folder, "origin.js"), origin);
  writeFileSync(join(folder, "objects.js"), objectsEntry);
  writeFileSync(join(folder, "control.js"), controlEntry);
  const ports = isRemote ? { objects: await freePort(), control: await freePort() } : null;
  writeFileSync(join(folder, "workerd.capnp"), isolatesConfiguration(options, ports?.control));
  if (ports !== null) {
    writeFileSync(join(folder, "control.capnp"), controlConfiguration(ports.objects));
  }
  const control = ports === null ? null : await startControl(folder, ports.control, options.print);
  const sockets: Record<string, number> = {
    ...zeroes([...names, ...plain]),
    objects: ports?.objects ?? 0,
  };
  const running = await runWorkerd(folder, sockets, printing(options.print));
  const urlOf = (name: string): URL => new URL(`http://127.0.0.1:${String(running.ports[name])}`);
  return {
    url: urlOf,
    control,
    calls: async () => (await fetch(urlOf("objects"))).json(),
    close: async () => {
      await control?.kill();
      await running.kill();
    },
  };
}

const printing = (print: IsolatesOptions["print"]) => (print === undefined ? {} : { print });

const zeroes = (names: readonly string[]): Record<string, number> => Object.fromEntries(names.map((name) => [name, 0]));

async function startControl(folder: string, port: number, print: IsolatesOptions["print"]): Promise<ControlProcess> {
  const start = (): Promise<RunningWorkerd<"control">> =>
    runWorkerd(folder, { control: port }, { configuration: "control.capnp", ...printing(print) });
  let running = await start();
  return {
    kill: () => running.kill(),
    restart: async () => {
      running = await start();
    },
    pause: () => void process.kill(running.pid, "SIGSTOP"),
    resume: () => void process.kill(running.pid, "SIGCONT"),
  };
}

const namespace = (binding: string, className: string): string =>
  `(name = "${binding}", durableObjectNamespace = (className = "${className}", serviceName = "objects"))`;

const remote = `(name = "REMOTE", service = "remote")`;
const classes = { RATE_LIMITER: "RateLimiter", CONTROL_PLANE: "ControlPlane" };

function isolatesConfiguration(options: IsolatesOptions, remotePort: number | undefined): string {
  const { names, plain = [] } = options;
  const texts = {
    POLICIES: JSON.stringify(options.policies),
    KEY_SECRET: "a secret that is the same for all isolates",
    CHECK_TOKENS: checkToken,
    ORIGIN: "http://origin.example",
  };
  const ADMIN_TOKENS = JSON.stringify([{ name: "operator", token: adminToken }]);
  const isolate = (name: string, own: Readonly<Record<string, string>>): WorkerService => ({
    ...worker,
    name,
    modules: { "index.js": "index.js" },
    texts: { ...texts, ...own },
    bindings: [namespace("RATE_LIMITER", "RateLimiter"), namespace("CONTROL_PLANE", "ControlPlane")],
    outbound: "origin",
  });
  const objects: WorkerService = {
    ...worker,
    name: "objects",
    modules:
      remotePort === undefined ? { "index.js": "index.js" } : { "objects.js": "objects.js", "index.js": "index.js" },
    texts,
    objects: classes,
    bindings: remotePort === undefined ? [] : [remote],
    outbound: "origin",
  };
  const services = [
    ...names.map((name) => isolate(name, { ADMIN_TOKENS })),
    ...plain.map((name) => isolate(name, {})),
    objects,
    { name: "origin", modules: { "origin.js": "origin.js" }, compatibilityDate },
  ];
  const sockets = [...names, ...plain, "objects"].map((name) => ({ name, service: name }));
  const externals = remotePort === undefined ? [] : [{ name: "remote", address: `127.0.0.1:${remotePort}` }];
  return configurationOf(services, sockets, [], "storage", externals);
}

function controlConfiguration(remotePort: number): string {
  const control: WorkerService = {
    ...worker,
    name: "control",
    modules: { "control.js": "control.js", "index.js": "index.js" },
    objects: classes,
    bindings: [remote],
  };
  const externals = [{ name: "remote", address: `127.0.0.1:${remotePort}` }];
  const sockets = [{ name: "control", service: "control" }];
  return configurationOf([control], sockets, [], "control-storage", externals);
}
