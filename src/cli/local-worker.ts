/** Runs the local Worker in a child process: sends setups to it, and ends it with this process. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { setTimeout } from "node:timers/promises";
import { CommandError } from "./command.ts";
import type { LocalSetup } from "./local-setup.ts";

interface LocalWorkerOptions {
  readonly port: number;
  /** The name of an environment; empty for the top level. */
  readonly environment: string;
  /** The folder that stores the counters; null for wrangler's own folder next to its configuration. */
  readonly persistTo: string | null;
}

/** The part of a setup that the child process needs. */
type WorkerSetup = Pick<LocalSetup, "wrangler" | "variables" | "secretNames">;

/** A message to the child process: run this setup in place of the previous one. */
export interface RunRequest extends LocalWorkerOptions, WorkerSetup {
  readonly id: number;
}

/** A message from the child process: the Worker runs, or the reason why it cannot. */
export interface RunReport {
  readonly id: number;
  readonly failure: string | null;
}

const processFile = join(import.meta.dirname, "local-worker-process.ts");
const startTimeoutMs = 60_000;
const stopTimeoutMs = 5_000;

export class LocalWorker {
  readonly #place: LocalWorkerOptions;
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  #id = 0;

  constructor(place: LocalWorkerOptions) {
    this.#place = place;
    this.#child = fork(processFile, {
      // A process group of its own, so that a signal reaches the child's own children too.
      detached: true,
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      serialization: "advanced",
      env: {
        ...process.env,
        CLOUDFLARE_CF_FETCH_ENABLED: "false",
        WRANGLER_SEND_METRICS: "false",
        WRANGLER_HIDE_BANNER: "true",
        // Only a checked configuration may reach the Worker.
        WRANGLER_CI_DISABLE_CONFIG_WATCHING: "true",
      },
    });
    const { stdout, stderr } = this.#child;
    if (stdout !== null) forwardLines(stdout, process.stdout);
    if (stderr !== null) forwardLines(stderr, process.stderr);
    this.#ended = once(this.#child, "exit");
    // Kills whatever is left of the group, however this process ends.
    process.on("exit", () => this.#signal("SIGKILL"));
  }

  /** Calls back with the exit code when the child process ends. */
  onEnd(callback: (exitCode: number) => void): void {
    this.#child.once("exit", (code) => callback(code ?? 1));
  }

  /**
   * Resolves when the Worker runs this setup. HTTP requests wait until then.
   *
   * @throws CommandError when the Worker cannot run it, or does not start within a minute
   */
  async run({ wrangler, variables, secretNames }: WorkerSetup): Promise<void> {
    this.#id += 1;
    const id = this.#id;
    const assignment: RunRequest = { ...this.#place, id, wrangler, variables, secretNames };
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const listen = (report: RunReport): void => {
      if (report.id !== id) return;
      if (report.failure === null) resolve();
      else reject(new CommandError(report.failure));
    };
    const late = `The Worker did not start within ${startTimeoutMs / 1000} s.`;
    const timeout = globalThis.setTimeout(() => reject(new CommandError(late)), startTimeoutMs);
    this.#child.on("message", listen);
    try {
      this.#child.send(assignment);
      await promise;
    } finally {
      clearTimeout(timeout);
      this.#child.off("message", listen);
    }
  }

  async stop(): Promise<void> {
    this.#signal("SIGTERM");
    await Promise.race([this.#ended, setTimeout(stopTimeoutMs)]);
  }

  #signal(signal: NodeJS.Signals): void {
    try {
      if (this.#child.pid !== undefined) process.kill(-this.#child.pid, signal);
    } catch {
      // The process group has already ended.
    }
  }
}

/** Stops the Worker and the origin on a signal, when the Worker ends, and when the output is closed. */
export function stopTogether(worker: LocalWorker, closeOrigin: () => void): void {
  let isStopping = false;
  const stop = async (exitCode: number): Promise<void> => {
    if (isStopping) return;
    isStopping = true;
    closeOrigin();
    await worker.stop();
    process.exit(exitCode);
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const;
  for (const signal of signals) process.on(signal, () => void stop(0));
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => void stop(1));
  worker.onEnd((exitCode) => void stop(exitCode));
}

/** Forwards whole lines, so that they do not mix with the lines of this process. */
function forwardLines(from: Readable, to: Writable): void {
  createInterface({ input: from }).on("line", (line) => to.write(`${line}\n`));
}

type Environment = Readonly<Record<string, string | undefined>>;

/** The folder in which local Workers find each other, as `wrangler dev` chooses it, so that they can bind to each other. */
export function devRegistryPath(
  env: Environment = process.env,
  home = homedir(),
  platform: NodeJS.Platform = process.platform,
): string {
  const legacy = join(home, ".wrangler");
  const folder = isFolder(legacy) ? legacy : join(configFolder(env, home, platform), ".wrangler");
  return env["WRANGLER_REGISTRY_PATH"] ?? join(folder, "registry");
}

function configFolder(env: Environment, home: string, platform: NodeJS.Platform): string {
  const { XDG_CONFIG_HOME: chosen, APPDATA: appData } = env;
  if (chosen) return chosen;
  if (platform === "darwin") return join(home, "Library", "Preferences");
  if (platform !== "win32") return join(home, ".config");
  return join(appData ?? join(home, "AppData", "Roaming"), "xdg.config");
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

/**
 * Whether a failed build comes from the file watcher of a bundle that wrangler is replacing. wrangler deletes the
 * folder of the old bundle before it stops that watcher. Its failure says nothing about the new bundle.
 */
export const isRebuildFailure = ({ reason }: { readonly reason: string }): boolean =>
  reason === "Failed to rebuild the Worker";
