/** A copy of the project without `.dev.vars`, for tests that run its npm scripts. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Readable } from "node:stream";

export interface Checkout {
  readonly folder: string;
  /** Writes lines under `[vars]` of the copy's wrangler.toml. */
  readonly configure: (lines: readonly string[]) => void;
  /** The token of `/check` in the copy's `.dev.vars`. */
  readonly checkToken: () => string;
  readonly remove: () => void;
}

/** The console that the global setup built, which `[build]` then takes instead of building it again. */
const built = ["package-lock.json", "dist/console", "dist/console.sources"];

/** @param isBuilt false copies what `npm ci` leaves, without a build of the console */
export function checkout({ isBuilt = true } = {}): Checkout {
  const folder = mkdtempSync(join(tmpdir(), "headgate-"));
  for (const part of ["src", "package.json", "tsconfig.json", "wrangler.toml", ...(isBuilt ? built : [])]) {
    cpSync(part, join(folder, part), { recursive: true });
  }
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  const shipped = readFileSync("wrangler.toml", "utf8");
  return {
    folder,
    configure: (lines) =>
      writeFileSync(
        join(folder, "wrangler.toml"),
        shipped.replace("[vars]\n", () => `[vars]\n${lines.join("\n")}\n`),
      ),
    checkToken: () => /^CHECK_TOKENS="(.+)"$/m.exec(readFileSync(join(folder, ".dev.vars"), "utf8"))?.[1] ?? "",
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

export interface Run {
  readonly npm: ChildProcessByStdio<null, Readable, Readable>;
  /** Everything printed so far. */
  readonly output: () => string;
  readonly ended: Promise<number | null>;
}

/** Runs npm in a folder, without the npm variables and secrets of this process. */
export function runNpm(folder: string, ...words: string[]): Run {
  const env = { ...process.env };
  for (const name of Object.keys(env))
    if (/^(?:npm_|KEY_SECRET|CHECK_TOKENS|ADMIN_TOKENS)/i.test(name)) delete env[name];
  // Runs in its own process group, so that a test can interrupt it as Ctrl-C does.
  const npm = spawn("npm", words, {
    cwd: folder,
    env,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const chunks: string[] = [];
  for (const stream of [npm.stdout, npm.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => chunks.push(chunk));
  }
  const ended = once(npm, "close").then(() => npm.exitCode);
  return { npm, output: () => chunks.join(""), ended };
}

/**
 * Resolves when the text has been printed.
 * @param from the number of characters of earlier output to skip
 * @throws Error with everything printed if the run ends first
 */
export async function printed(run: Run, text: string, from = 0): Promise<void> {
  const { promise, resolve: found, reject } = Promise.withResolvers<void>();
  const look = (): void => {
    if (run.output().includes(text, from)) found();
  };
  run.npm.stdout.on("data", look);
  run.npm.stderr.on("data", look);
  look();
  void run.ended.then(() => reject(new Error(`ended without "${text}":\n${run.output()}`)));
  await promise;
}

/** Runs `npm start` until it has printed how to stop it. */
export async function started(folder: string, port: number): Promise<Run> {
  const run = runNpm(folder, "start", "--", "--port", String(port));
  await printed(run, "Stop with Ctrl-C.");
  return run;
}

export async function stopped(run: Run): Promise<void> {
  run.npm.kill("SIGTERM");
  await run.ended;
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}
