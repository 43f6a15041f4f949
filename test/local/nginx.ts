/** nginx with the configuration that the README shows, except for ports, hosts and the token. */
import { spawnSync } from "node:child_process";
import {
  env,
  type Gateway,
  readmeBlock,
  replaced,
  startGateway,
  type Upstreams,
} from "./gateway-process.ts";

export type Nginx = Gateway;

export interface Behind extends Upstreams {
  /** A change that the README leaves to its reader. */
  readonly change?: (block: string) => string;
}

/** Whether an nginx is installed that has the module which the README uses. */
export const hasNginx = String(spawnSync("nginx", ["-V"], { env }).stderr).includes(
  "--with-http_auth_request_module",
);

/** @throws with what nginx prints, if it does not start */
export const startNginx = (behind: Behind): Promise<Nginx> =>
  startGateway((port, folder) => ({
    program: "nginx",
    // A single process leaves no workers behind when it is killed.
    args: `-p ${folder}/ -e stderr -c nginx.conf -g`
      .split(" ")
      .concat("daemon off; master_process off;"),
    files: { "nginx.conf": configOf(behind, port) },
  }));

function configOf({ headgate, origin, token, change }: Behind, port: number): string {
  const block = replaced(readmeBlock("nginx"), {
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
