/** The local Worker, which runs in a process of its own: starts it, gives it plans, and ends it with this process. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { CommandError } from "./command.ts";
import type { Plan } from "./plan.ts";

export interface Place {
  readonly port: number;
  /** A named environment; empty for the top level. */
  readonly environment: string;
  /** Where counters are kept; null for wrangler's own folder beside its configuration. */
  readonly persistTo: string | null;
}

/** What this process sends: a plan that replaces the one before. */
export interface Assignment extends Place, Pick<Plan, "wrangler" | "variables" | "secretNames"> {
  readonly id: number;
}

/** What the other process sends: the Worker of an assignment runs, or why it cannot. */
export interface Report {
  readonly id: number;
  readonly failure: string | null;
}

const processFile = fileURLToPath(new URL("local-worker-process.ts", import.meta.url));
const patienceMs = 60_000;
const graceMs = 5_000;

export class LocalWorker {
  readonly #place: Place;
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  #id = 0;

  constructor(place: Place) {
    this.#place = place;
    this.#child = fork(processFile, {
      // A group of its own: its own children are ended with it, however it ends.
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
    if (stdout !== null) passOn(stdout, process.stdout);
    if (stderr !== null) passOn(stderr, process.stderr);
    this.#ended = once(this.#child, "exit");
    // What it left behind, or itself when it would not go, or when this process fails.
    process.on("exit", () => this.#signal("SIGKILL"));
  }

  /** Calls back with the exit code when the process ends. */
  onEnd(callback: (exitCode: number) => void): void {
    this.#child.once("exit", (code) => callback(code ?? 1));
  }

  /**
   * Resolves when the Worker runs this plan, which other requests wait for.
   *
   * @throws CommandError when the Worker cannot run it, or does not within a minute
   */
  async run({ wrangler, variables, secretNames }: Plan): Promise<void> {
    this.#id += 1;
    const id = this.#id;
    const assignment: Assignment = { ...this.#place, id, wrangler, variables, secretNames };
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const listen = (report: Report): void => {
      if (report.id !== id) return;
      if (report.failure === null) resolve();
      else reject(new CommandError(report.failure));
    };
    const late = `The Worker did not start within ${patienceMs / 1000} s.`;
    const timeout = globalThis.setTimeout(() => reject(new CommandError(late)), patienceMs);
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
    await Promise.race([this.#ended, setTimeout(graceMs)]);
  }

  #signal(signal: NodeJS.Signals): void {
    try {
      if (this.#child.pid !== undefined) process.kill(-this.#child.pid, signal);
    } catch {
      // The group is gone: what was wanted.
    }
  }
}

/** Whole lines, so that they do not mix with those of this process. */
function passOn(from: Readable, to: Writable): void {
  createInterface({ input: from }).on("line", (line) => to.write(`${line}\n`));
}
