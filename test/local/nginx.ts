/** nginx by the configuration that the README shows, but for ports, hosts and the token. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { guard } from "../bench/workerd-process.ts";
import { freePort } from "./checkout.ts";

const [, shown = ""] = /^```nginx\n([^]*?)^```$/m.exec(readFileSync("README.md", "utf8")) ?? [];

export interface Nginx {
  readonly url: string;
  readonly close: () => Promise<void>;
}

export interface Behind {
  readonly headgate: URL;
  readonly origin: string;
  readonly token: string;
  /** What a reader may change besides. */
  readonly change?: (block: string) => string;
}

/** Debian's is not on the path of everyone. */
const env = { ...process.env, PATH: `${process.env["PATH"] ?? ""}:/usr/sbin:/usr/local/sbin` };

/** Whether there is one that has what the README uses. */
export const hasNginx = String(spawnSync("nginx", ["-V"], { env }).stderr).includes(
  "--with-http_auth_request_module",
);

/** @throws with what nginx says, if it does not start */
export async function startNginx(behind: Behind): Promise<Nginx> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-nginx-"));
  const port = await freePort();
  writeFileSync(join(folder, "nginx.conf"), configOf(behind, port));
  // One process: killed, it leaves no workers behind, and none of them is of another user.
  const alone = "daemon off; master_process off;";
  const words = ["-p", `${folder}/`, "-e", "stderr", "-c", "nginx.conf", "-g", alone];
  const nginx = spawn("nginx", words, { env, stdio: ["ignore", "ignore", "pipe"] });
  guard(nginx);
  let complaint = "";
  nginx.stderr.setEncoding("utf8").on("data", (text: string) => {
    complaint += text;
  });
  const ended = once(nginx, "close");
  const url = `http://127.0.0.1:${port}`;
  const close = async (): Promise<void> => {
    nginx.kill("SIGKILL");
    await ended;
    rmSync(folder, { recursive: true });
  };
  try {
    await answers(`${url}/.headgate`, () => nginx.exitCode === null);
  } catch (error) {
    await close();
    throw new Error(`nginx did not start: ${complaint}`, { cause: error });
  }
  return { url, close };
}

function configOf({ headgate, origin, token, change }: Behind, port: number): string {
  const block = replaced(shown, {
    "listen 80;": `listen 127.0.0.1:${port};`,
    "server headgate.example.com:443;": `server ${headgate.host};`,
    "https://headgate/": "http://headgate/",
    "http://127.0.0.1:3000": origin,
    "the token": token,
  });
  const folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${name};`,
  );
  return `pid nginx.pid;
events {}
http {
access_log off;
${folders.join("\n")}
${change === undefined ? block : change(block)}
}
`;
}

function replaced(block: string, words: Readonly<Record<string, string>>): string {
  return Object.entries(words).reduce((text, [theirs, ours]) => {
    if (!text.includes(theirs)) throw new Error(`the README's nginx has no ${theirs}`);
    return text.replaceAll(theirs, ours);
  }, block);
}

/** Resolves when something answers there, whatever it is. */
async function answers(url: string, mayAnswer: () => boolean): Promise<void> {
  try {
    const response = await fetch(url);
    await response.text();
  } catch (error) {
    if (!mayAnswer()) throw error;
    await setTimeout(20);
    await answers(url, mayAnswer);
  }
}
