/** A local Worker, started by `npm start` in a copy of the project, with two operators and with policies for tests. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { checkout, freePort, printed, started, stopped } from "../../system/checkout.ts";
import { type AdminAnswer, type AdminCallOptions, callAdmin } from "../../tools/control-plane/admin-client.ts";

/** The tokens of an operator with all rights and of an operator who may only read. */
export const tokens = {
  operator: "the-token-of-the-operator",
  reader: "the-token-of-the-reader",
} as const;

export interface ConsoleWorkerOptions {
  readonly policies?: readonly object[];
  /** Default: `/_headgate`. */
  readonly adminPath?: string;
  /** The value of `SAMPLE`. Default: that of `npm start`, which samples every key. */
  readonly sample?: string;
}

export interface ConsoleWorker {
  /** The URL of the console, which ends with a slash. */
  readonly consoleUrl: string;
  /** The sign-in link to the console that `npm start` prints. */
  readonly printedLink: string;
  /** The URL of the site that Headgate limits. */
  readonly siteUrl: URL;
  /** Calls the admin API. The path is relative to `/api`. The default token is that of the operator with all rights. */
  readonly api: (method: string, path: string, options?: AdminCallOptions) => Promise<AdminAnswer>;
  /** Sends a request to the site as a client with this address, and returns the status. */
  readonly request: (address: string, path: string, method?: string) => Promise<number>;
  /** Replaces the tokens of the operators, and resolves when the Worker accepts only the new ones. */
  readonly setTokens: (list: readonly AdminTokenEntry[]) => Promise<void>;
  readonly close: () => Promise<void>;
}

export interface AdminTokenEntry {
  readonly name: string;
  readonly token: string;
  readonly may: readonly ("read" | "write" | "reveal")[];
}

export const allOperators: readonly AdminTokenEntry[] = [
  { name: "operator", token: tokens.operator, may: ["read", "write", "reveal"] },
  { name: "reader", token: tokens.reader, may: ["read"] },
];

/**
 * `api` allows each address 5 requests in 10 minutes, `login` 3 an hour. `search` is a dry run of 2 requests an hour.
 */
const fewPolicies: readonly object[] = [
  { name: "api", match: { path: "/api/*" }, key: ["ip"], limits: "5/10m" },
  { name: "login", match: { path: "/login" }, key: ["ip"], limits: ["3/hour", "20/day"] },
  { name: "search", match: { path: "/search" }, key: ["ip"], limits: "2/hour", dryRun: true },
];

const adminHost = "admin.localhost";

export async function startConsoleWorker({
  policies = fewPolicies,
  adminPath = "/_headgate",
  sample,
}: ConsoleWorkerOptions = {}): Promise<ConsoleWorker> {
  const { folder, configure, remove } = checkout();
  const values = {
    POLICIES: policies,
    ADMIN_HOST: adminHost,
    ADMIN_PATH: adminPath,
    REVEAL: "admins",
    ...(sample !== undefined && { SAMPLE: sample }),
  };
  configure(Object.entries(values).map(([name, value]) => `${name} = ${toml(value)}`));
  const secretsFile = join(folder, ".dev.vars");
  const adminLine = (list: readonly AdminTokenEntry[]): string => `ADMIN_TOKENS='${JSON.stringify(list)}'\n`;
  writeFileSync(secretsFile, adminLine(allOperators));
  const port = await freePort();
  const run = await started(folder, port);
  const siteUrl = new URL(`http://localhost:${port}`);
  return {
    consoleUrl: `http://${adminHost}:${port}${adminPath}/`,
    printedLink: /^ {2}console +(\S+)$/m.exec(run.output())?.[1] ?? "",
    siteUrl,
    api: (method, path, options) => callAdmin(siteUrl, method, path, { token: tokens.operator, adminPath, ...options }),
    request: async (address, path, method = "GET") => {
      const headers = { "cf-connecting-ip": address };
      const response = await fetch(new URL(path, siteUrl), { method, headers });
      await response.arrayBuffer();
      return response.status;
    },
    setTokens: async (list) => {
      const before = run.output().length;
      const other = readFileSync(secretsFile, "utf8").replace(/^ADMIN_TOKENS=.*\n/m, "");
      writeFileSync(secretsFile, adminLine(list) + other);
      await printed(run, "In effect now:", before);
    },
    close: async () => {
      await stopped(run);
      remove();
    },
  };
}

/** JSON is valid TOML except for the colons of objects. */
function toml(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(toml).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(([name, each]) => `${name} = ${toml(each)}`);
  return `{ ${members.join(", ")} }`;
}
