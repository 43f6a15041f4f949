/** Starts Redis, and a Node server that uses it to limit requests, if Redis is installed. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { killWithParent } from "../workerd-process.ts";

export interface NodeAndRedis {
  readonly url: URL;
  readonly pids: readonly number[];
  readonly close: () => Promise<void>;
}

/** The version of Redis; undefined if Redis is not installed. */
export function redisVersion(): string | undefined {
  const { error, stdout } = spawnSync("redis-server", ["--version"], { encoding: "utf8" });
  return error === undefined ? / v=(\S+)/.exec(stdout)?.[1] : undefined;
}

/** @param folder a folder for Redis, which stores nothing permanently */
export async function startNodeAndRedis(folder: string): Promise<NodeAndRedis> {
  const port = await freePort();
  const options = ["--bind", "127.0.0.1", "--port", String(port), "--save", "", "--dir", folder];
  const redis = start("redis-server", [...options, "--appendonly", "no"]);
  try {
    await lineOf(redis, /Ready to accept connections/);
    const server = join(import.meta.dirname, "node-server.ts");
    const node = start(process.execPath, [server, String(port)]);
    const listening = await lineOf(node, /^\d+$/);
    return {
      url: new URL(`http://127.0.0.1:${listening}`),
      pids: [redis, node].flatMap(({ pid }) => pid ?? []),
      close: async () => {
        await stop(node);
        await stop(redis);
      },
    };
  } catch (error) {
    await stop(redis);
    throw error;
  }
}

function start(command: string, words: readonly string[]): ChildProcess {
  const child = spawn(command, words, { stdio: ["ignore", "pipe", "inherit"] });
  killWithParent(child);
  return child;
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

async function lineOf(child: ChildProcess, pattern: RegExp): Promise<string> {
  for await (const line of createInterface({ input: child.stdout as Readable })) {
    if (pattern.test(line)) {
      child.stdout?.resume();
      return line;
    }
  }
  throw new Error(`${child.spawnargs.join(" ")} has ended`);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
