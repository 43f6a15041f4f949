/** Runs workerd with the configuration in a folder, and builds the bundles that workerd serves. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

const { default: workerd } = createRequire(import.meta.url)("workerd") as { default: string };

/** The bundle of Headgate. A worker of Vitest runs many files that need it, and building it takes seconds. */
let ofHeadgate: string | null = null;

/** Writes the bundle of Headgate, or of another wrangler configuration, into a folder as `index.js`. */
export function bundle(folder: string, configuration?: string): void {
  if (configuration !== undefined) return build(folder, configuration);
  const file = join(folder, "index.js");
  if (ofHeadgate === null) {
    build(folder);
    ofHeadgate = readFileSync(file, "utf8");
  } else {
    mkdirSync(folder, { recursive: true });
    writeFileSync(file, ofHeadgate);
  }
}

function build(folder: string, configuration?: string): void {
  const wrangler = ["node_modules/wrangler/bin/wrangler.js", "deploy", "--dry-run"];
  const config = configuration === undefined ? [] : ["--config", configuration];
  execFileSync(process.execPath, [...wrangler, ...config, "--outdir", folder], {
    encoding: "utf8",
    stdio: "pipe",
  });
}

export interface RunningWorkerd<Socket extends string> {
  readonly pid: number;
  readonly ports: Readonly<Record<Socket, number>>;
  /** Kills the process without warning, as a crash would. */
  readonly kill: () => Promise<void>;
}

export interface WorkerdProcessOptions {
  /** Receives everything that workerd prints. */
  readonly print?: (text: string) => void;
  /** Command-line flags of workerd. */
  readonly flags?: readonly string[];
  /** The file name of the configuration in the folder. */
  readonly configuration?: string;
}

/** @param ports the port of each socket; 0 for any free port */
export async function runWorkerd<Socket extends string>(
  folder: string,
  ports: Readonly<Record<Socket, number>>,
  { print = (): void => undefined, flags = [], configuration = "workerd.capnp" }: WorkerdProcessOptions = {},
): Promise<RunningWorkerd<Socket>> {
  const sockets = Object.entries(ports).flatMap(([name, port]) => [
    "--socket-addr",
    `${name}=127.0.0.1:${String(port)}`,
  ]);
  const words = ["serve", configuration, "--control-fd=3", ...flags, ...sockets];
  const child = spawn(workerd, words, {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe", "pipe"],
  });
  const ended = once(child, "exit");
  killWithParent(child);
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding("utf8").on("data", print);
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await ended;
  };
  try {
    const listening = await reportedPorts(child, Object.keys(ports) as Socket[]);
    return { pid: child.pid ?? 0, ports: listening, kill };
  } catch (error) {
    await kill();
    throw error;
  }
}

/**
 * Kills the child process when this process ends in any way: a shell waits for the end of its standard input and then
 * kills the child.
 */
export function killWithParent(child: ChildProcess): void {
  const shell = spawn("sh", ["-c", 'read -r line; kill -9 "$0"', String(child.pid)], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  child.once("exit", () => shell.kill("SIGKILL"));
}

/** The ports that workerd reports, one line for each. */
async function reportedPorts<Socket extends string>(
  child: ChildProcess,
  names: readonly Socket[],
): Promise<Record<Socket, number>> {
  let errorOutput = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    errorOutput = (errorOutput + text).slice(-2_000);
  });
  const portBySocket = new Map<unknown, number>();
  for await (const line of createInterface({ input: child.stdio[3] as Readable })) {
    const { socket, port } = JSON.parse(line) as { socket: unknown; port: number };
    portBySocket.set(socket, port);
    if (names.every((name) => portBySocket.has(name))) {
      return Object.fromEntries(portBySocket) as Record<Socket, number>;
    }
  }
  throw new Error(`workerd did not start: ${errorOutput}`);
}
