/** Runs the bundle of this version and of the previous version in one workerd. */
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bundle, runWorkerd, type RunningWorkerd } from "../tools/workerd-process.ts";

export type Version = "current" | "previous";
export const versions: readonly Version[] = ["current", "previous"];

/** An isolate of one version that calls objects of the same or of the other version. */
export interface Pair {
  readonly isolates: Version;
  readonly objects: Version;
}

const compatibilityDate = "2026-11-01";

const origin = `export default { fetch: () => new Response("served") };`;

export const token = "a-token-of-the-rolling-deploys";

/**
 * Writes both versions into a folder, with a configuration for each pair of versions. The storage of the objects in
 * this folder persists between starts.
 * @param variables further variables; the control plane is used only with `ADMIN_TOKENS`
 */
export function prepare(
  folder: string,
  policies: readonly object[],
  variables: Readonly<Record<string, string>> = {},
): void {
  bundle(join(folder, "current"));
  mkdirSync(join(folder, "previous"), { recursive: true });
  mkdirSync(join(folder, "storage"), { recursive: true });
  copyFileSync("test/previous-version/worker.js", join(folder, "previous", "index.js"));
  writeFileSync(join(folder, "origin.js"), origin);
  const vars = {
    ORIGIN: "http://origin.example",
    KEY_SECRET: "a secret of more than thirty-two characters",
    CHECK_TOKENS: token,
    POLICIES: JSON.stringify(policies),
    ...variables,
  };
  const bindings = Object.entries(vars).map(
    ([name, text]) => `(name = ${JSON.stringify(name)}, text = ${JSON.stringify(text)}),`,
  );
  for (const objects of versions) {
    const isolates = versions.map((version) => workerOf({ isolates: version, objects }, bindings));
    writeFileSync(join(folder, `${objects}.capnp`), configOf(isolates));
  }
}

const classes = { RATE_LIMITER: "RateLimiter", CONTROL_PLANE: "ControlPlane" };

/** Only the worker of the version whose objects run has their storage. */
const workerOf = ({ isolates, objects }: Pair, bindings: readonly string[]): string => `
    (name = "${isolates}", worker = (
      modules = [(name = "index.js", esModule = embed "${isolates}/index.js")],
      compatibilityDate = "${compatibilityDate}",
      compatibilityFlags = ["enable_request_signal"],
      bindings = [
        ${bindings.join("\n        ")}
        ${Object.entries(classes)
          .map(
            ([name, className]) =>
              `(name = "${name}", durableObjectNamespace = (className = "${className}", serviceName = "${objects}")),`,
          )
          .join("\n        ")}
      ],
      durableObjectNamespaces = [
        ${Object.values(classes)
          .map((name) => {
            const uniqueKey = isolates === objects ? name : `unused-${name}`;
            return `(className = "${name}", uniqueKey = "${uniqueKey}", enableSql = true),`;
          })
          .join("\n        ")}
      ],
      durableObjectStorage = (localDisk = "storage"),
      globalOutbound = "origin",
    )),`;

const configOf = (workers: readonly string[]): string => `using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [${workers.join("")}
    (name = "origin", worker = (
      modules = [(name = "origin.js", esModule = embed "origin.js")],
      compatibilityDate = "${compatibilityDate}",
    )),
    (name = "storage", disk = (path = "storage", writable = true)),
  ],
  sockets = [
    ${versions.map((name) => `(name = "${name}", http = (), service = "${name}"),`).join("\n    ")}
  ],
);
`;

/** Starts isolates of both versions with objects of one version. */
export const startWith = (folder: string, objects: Version): Promise<RunningWorkerd<Version>> =>
  runWorkerd(folder, { current: 0, previous: 0 }, { configuration: `${objects}.capnp` });

/** A response of `/check`. */
export interface Answer {
  readonly [field: string]: unknown;
  readonly allowed?: boolean;
  readonly bannedForMs?: number;
  readonly settled?: boolean;
  readonly id?: string;
  readonly limits?: readonly { readonly remaining: number }[];
  readonly results?: readonly Answer[];
}

/** Calls `/check` in isolates of one version. */
export class Caller {
  readonly #url: string;

  constructor(running: RunningWorkerd<Version>, isolates: Version) {
    this.#url = `http://127.0.0.1:${running.ports[isolates]}`;
  }

  /**
   * Sends a request for the origin.
   * @returns the status of the response
   */
  async request(path: string, headers: Record<string, string>): Promise<number> {
    const response = await fetch(`${this.#url}${path}`, { headers });
    await response.arrayBuffer();
    return response.status;
  }

  async post(path: string, body: object): Promise<Answer> {
    const response = await fetch(`${this.#url}/check${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    return response.json<Answer>();
  }

  /** The remaining units of the first limit of a policy. */
  async left(policy: string, key: string): Promise<number | undefined> {
    const query = new URLSearchParams({ policy, key }).toString();
    const headers = { authorization: `Bearer ${token}` };
    const response = await fetch(`${this.#url}/check?${query}`, { headers });
    const answer = await response.json<Answer>();
    return answer.limits?.[0]?.remaining;
  }

  async forget(policy: string, key: string): Promise<number> {
    const query = new URLSearchParams({ policy, key }).toString();
    const headers = { authorization: `Bearer ${token}` };
    return (await fetch(`${this.#url}/check?${query}`, { method: "DELETE", headers })).status;
  }
}
