/** A real gateway in a process of its own, configured as the README shows. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { guard } from "../tools/workerd-process.ts";
import { freePort } from "./checkout.ts";

export interface Gateway {
  readonly url: string;
  readonly close: () => Promise<void>;
}

/** Where a gateway finds Headgate and the origin. */
export interface Upstreams {
  readonly headgate: URL;
  readonly origin: string;
  readonly token: string;
}

/** How to run a gateway that listens on `port`, with its files in `folder`. */
export interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly files: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
}

/** Debian installs servers in folders that are not on every user's path. */
export const env = {
  ...process.env,
  PATH: `${process.env["PATH"] ?? ""}:/usr/sbin:/usr/local/sbin`,
};

/** The README's only code block in this language. */
export function readmeBlock(language: string): string {
  const blocks = readFileSync("README.md", "utf8").matchAll(
    new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, "gm"),
  );
  const [block, ...others] = [...blocks].map(([, text = ""]) => text);
  if (block === undefined || others.length > 0) {
    throw new Error(`expected one block of ${language} in the README`);
  }
  return block;
}

/** Replaces texts of the README's block, and fails where one of them is missing. */
export function replaced(block: string, replacements: Readonly<Record<string, string>>): string {
  return Object.entries(replacements).reduce((text, [shown, used]) => {
    if (!text.includes(shown)) throw new Error(`the README's configuration lacks ${shown}`);
    return text.replaceAll(shown, () => used);
  }, block);
}

/** @throws with what the gateway printed, if it does not start */
export async function startGateway(
  commandOf: (port: number, folder: string) => Command,
): Promise<Gateway> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-gateway-"));
  const port = await freePort();
  const { program, args, files, env: added } = commandOf(port, folder);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const gateway = spawn(program, args, {
    cwd: folder,
    env: { ...env, ...added },
    stdio: ["ignore", "ignore", "pipe"],
  });
  guard(gateway);
  let complaint = "";
  gateway.stderr.setEncoding("utf8").on("data", (text: string) => {
    complaint += text;
  });
  const ended = once(gateway, "close");
  const close = async (): Promise<void> => {
    gateway.kill("SIGKILL");
    await ended;
    rmSync(folder, { recursive: true });
  };
  try {
    await accepts(port, () => gateway.exitCode === null);
  } catch (error) {
    await close();
    throw new Error(`${program} did not start: ${complaint}`, { cause: error });
  }
  return { url: `http://127.0.0.1:${port}`, close };
}

/** Resolves when a connection is accepted. */
async function accepts(port: number, isRunning: () => boolean): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
  } catch (error) {
    if (!isRunning()) throw error;
    await setTimeout(20);
    await accepts(port, isRunning);
  } finally {
    socket.destroy();
  }
}
