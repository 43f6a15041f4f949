/** Caddy and HAProxy with the configurations that the README shows, except for ports, hosts and the token. */
import { spawnSync } from "node:child_process";
import {
  env,
  type Gateway,
  readmeBlock,
  replaced,
  startGateway,
  type Upstreams,
} from "./gateway-process.ts";

const printed = (program: string, ...args: string[]): string =>
  String(spawnSync(program, args, { env }).stdout);

export const hasCaddy = /^v?2\./.test(printed("caddy", "version"));
export const hasHaproxy = printed("haproxy", "-vv").includes("Built with Lua");

export const startCaddy = ({ headgate, origin, token }: Upstreams): Promise<Gateway> =>
  startGateway((port, folder) => ({
    program: "caddy",
    args: ["run", "--config", "Caddyfile", "--adapter", "caddyfile"],
    files: {
      Caddyfile: `{
	admin off
	auto_https off
}
${replaced(readmeBlock("caddyfile"), {
  "app.example.com": `http://127.0.0.1:${port}`,
  "https://headgate.example.com": headgate.origin,
  "127.0.0.1:3000": new URL(origin).host,
})}`,
    },
    env: { HEADGATE_TOKEN: token, HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder },
  }));

export const startHaproxy = ({ headgate, origin, token }: Upstreams): Promise<Gateway> =>
  startGateway((port) => ({
    program: "haproxy",
    // Without a master or a daemon, one process is all there is to end.
    args: ["-db", "-f", "haproxy.cfg"],
    files: {
      "haproxy.cfg": replaced(readmeBlock("haproxy"), {
        "/etc/haproxy/headgate.lua": "headgate.lua",
        "bind :80": `bind 127.0.0.1:${port}`,
        "127.0.0.1:3000": new URL(origin).host,
      }),
      "headgate.lua": replaced(readmeBlock("lua"), {
        "https://headgate.example.com": headgate.origin,
      }),
    },
    env: { HEADGATE_TOKEN: token },
  }));
