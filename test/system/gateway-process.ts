/**
 * Real nginx, Caddy and HAProxy, each in its own process, configured as docs/how-to shows except for ports, hosts and
 * the token.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { killWithParent } from "../tools/workerd-process.ts";
import { freePort } from "./checkout.ts";
import { pageBlock } from "../docs/page-block.ts";

export interface GatewayProcess {
  readonly url: string;
  readonly close: () => Promise<void>;
}

/** Where a gateway finds Headgate and the origin. */
export interface Upstreams {
  readonly headgate: URL;
  readonly origin: string;
  readonly token: string;
  /** Edits nginx's configuration, or HAProxy's Lua script, before the gateway starts. */
  readonly edit?: (configuration: string) => string;
  /** Whether the gateway takes the visitor's address from a load balancer on the loopback address. */
  readonly isBehindLoadBalancer?: boolean;
}

/** A program that can run as a gateway. */
export interface GatewayProgram {
  /** Whether the program is installed, with the modules that the documented configuration uses. */
  readonly isInstalled: boolean;
  /** @throws Error with the program's error output if it does not start */
  readonly start: (upstreams: Upstreams) => Promise<GatewayProcess>;
}

interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly files: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
}

/** Debian installs servers in folders that are not in every user's PATH. */
const env = {
  ...process.env,
  PATH: `${process.env["PATH"] ?? ""}:/usr/sbin:/usr/local/sbin`,
};

const outputOf = (program: string, ...args: string[]): string => {
  const { stdout, stderr } = spawnSync(program, args, { env, encoding: "utf8" });
  return `${stdout}${stderr}`;
};

export const nginx: GatewayProgram = {
  isInstalled: outputOf("nginx", "-V").includes("--with-http_auth_request_module"),
  start: ({ headgate, origin, token, edit = (text) => text, isBehindLoadBalancer = false }) =>
    startNginx((port) =>
      edit(
        replaced(pageBlock("how-to/behind-nginx", "nginx", "upstream headgate"), {
          "listen 80;": `listen 127.0.0.1:${port};`,
          "server headgate.example.com:443;": `server ${headgate.host};`,
          "https://headgate/": "http://headgate/",
          "http://127.0.0.1:3000": origin,
          "the token": token,
          ...(isBehindLoadBalancer && {
            "server_name app.example.com;": `server_name app.example.com;\n${onLoopback(
              pageBlock("how-to/behind-nginx", "nginx", "set_real_ip_from"),
            )}`,
          }),
        }),
      ),
    ),
};

export const caddy: GatewayProgram = {
  isInstalled: /^v?2\./.test(outputOf("caddy", "version")),
  start: ({ headgate, origin, token, isBehindLoadBalancer = false }) =>
    startGateway((port, folder) => ({
      program: "caddy",
      args: ["run", "--config", "Caddyfile", "--adapter", "caddyfile"],
      files: {
        Caddyfile: `{
	admin off
	auto_https off
}
${replaced(pageBlock("how-to/behind-caddy", "caddyfile", "app.example.com"), {
  ...(isBehindLoadBalancer && {
    "method GET": `method GET\n${onLoopback(pageBlock("how-to/behind-caddy", "caddyfile", "trusted_proxies"))}`,
  }),
  "app.example.com": `http://127.0.0.1:${port}`,
  "https://headgate.example.com": headgate.origin,
  "127.0.0.1:3000": new URL(origin).host,
})}`,
      },
      env: { HEADGATE_TOKEN: token, HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder },
    })),
};

const loadBalancerPage = "how-to/behind-a-load-balancer";

export const haproxy: GatewayProgram = {
  isInstalled: outputOf("haproxy", "-vv").includes("Built with Lua"),
  start: ({ headgate, origin, token, edit = (text) => text, isBehindLoadBalancer = false }) =>
    startGateway((port) => ({
      program: "haproxy",
      // With -db, HAProxy runs as one process in the foreground, without a master process that would outlive it.
      args: ["-db", "-f", "haproxy.cfg"],
      files: {
        "haproxy.cfg": replaced(pageBlock(loadBalancerPage, "haproxy", "lua-load"), {
          ...(isBehindLoadBalancer && {
            "    http-request lua.headgate": `${onLoopback(
              pageBlock(loadBalancerPage, "haproxy", "set-src"),
            )}    http-request lua.headgate`,
          }),
          "/etc/haproxy/headgate.lua": "headgate.lua",
          "bind :80": `bind 127.0.0.1:${port}`,
          "127.0.0.1:3000": new URL(origin).host,
        }),
        "headgate.lua": edit(
          replaced(pageBlock(loadBalancerPage, "lua"), {
            "https://headgate.example.com": headgate.origin,
          }),
        ),
      },
      env: { HEADGATE_TOKEN: token },
    })),
};

/** Starts nginx with these contents of its `http` block. */
export const startNginx = (contentsFor: (port: number) => string): Promise<GatewayProcess> =>
  startGateway((port, folder) => ({
    program: "nginx",
    // A single process leaves no workers behind when it is killed.
    args: `-p ${folder}/ -e stderr -c nginx.conf -g`.split(" ").concat("daemon off; master_process off;"),
    files: {
      "nginx.conf": `pid nginx.pid;
events {}
http {
access_log off;
${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${name};`).join("\n")}
${contentsFor(port)}
}
`,
    },
  }));

/** The configuration of a load balancer's address range, in which the test's own address replaces the range. */
const onLoopback = (block: string): string => replaced(block, { "10.0.0.0/8": "127.0.0.0/8" });

/** @throws Error if a text that must be replaced is missing in the documented configuration */
function replaced(block: string, replacements: Readonly<Record<string, string>>): string {
  return Object.entries(replacements).reduce((text, [shown, used]) => {
    if (!text.includes(shown)) throw new Error(`expected "${shown}" in the documented configuration`);
    return text.replaceAll(shown, () => used);
  }, block);
}

async function startGateway(commandFor: (port: number, folder: string) => Command): Promise<GatewayProcess> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-gateway-"));
  const port = await freePort();
  const { program, args, files, env: extraEnv } = commandFor(port, folder);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const gateway = spawn(program, args, {
    cwd: folder,
    env: { ...env, ...extraEnv },
    stdio: ["ignore", "ignore", "pipe"],
  });
  killWithParent(gateway);
  let errorOutput = "";
  gateway.stderr.setEncoding("utf8").on("data", (text: string) => {
    errorOutput += text;
  });
  const ended = once(gateway, "close");
  const close = async (): Promise<void> => {
    gateway.kill("SIGKILL");
    await ended;
    rmSync(folder, { recursive: true });
  };
  try {
    await untilConnected(port, () => gateway.exitCode === null);
  } catch (error) {
    await close();
    throw new Error(`${program} did not start: ${errorOutput}`, { cause: error });
  }
  return { url: `http://127.0.0.1:${port}`, close };
}

/** Resolves when the port accepts a connection. */
async function untilConnected(port: number, isRunning: () => boolean): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
  } catch (error) {
    if (!isRunning()) throw error;
    await setTimeout(20);
    await untilConnected(port, isRunning);
  } finally {
    socket.destroy();
  }
}
