import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseConfig } from "../../src/policy/vars/config.ts";
import { callerKeyValues } from "../../src/policy/key-text.ts";
import { matchingPolicies } from "../../src/policy/compiled-policy.ts";
import { resolveKey } from "../../src/policy/resolve-key.ts";
import { attributesOf } from "../../src/http/attributes.ts";
import { startMessage } from "../../src/cli/start-messages.ts";

let server: Server;
let url = "";
const received: Request[] = [];

/** A stand-in for local workerd that records what the printed commands send. */
beforeAll(async () => {
  server = createServer(({ method = "", url: target = "", headers }, response) => {
    const fields = Object.entries(headers).map(([name, value]) => [name, String(value)] as const);
    const host = headers.host ?? "";
    const request = new Request(`http://${host}${target}`, { method, headers: [...fields] });
    request.headers.set("CF-Connecting-IP", "127.0.0.1");
    received.push(request);
    response.end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => server.close());

const limits = "5/minute";
const base = { KEY_SECRET: "s".repeat(32), CHECK_TOKENS: "the-tests-token" };
const jwt = { JWT_KEY: "s".repeat(32) };

/** The commands that the banner shows for these policies, and the parsed configuration. */
function shown(policies: readonly object[], more: object = {}) {
  const config = parseConfig({ ...base, ...more, POLICIES: policies });
  const text = startMessage(url, {
    config,
    hasDemoOrigin: false,
    hasDemoLimits: false,
    hasConsole: false,
  });
  const commands = text.split("\n").filter((line) => line.startsWith("  curl "));
  return { config, commands };
}

/** The request that a command sends when a shell runs the command. */
async function sent(command: string): Promise<Request> {
  received.length = 0;
  await promisify(execFile)("sh", ["-c", command.replace(" -i ", " -s -i ")], { timeout: 10_000 });
  const [request] = received;
  if (request === undefined) throw new Error(`nothing was sent by ${command}`);
  return request;
}

describe("the first command of the banner", () => {
  it.for<[object, string]>([
    [{}, "GET http://127.0.0.1"],
    [{ match: { path: "/login", methods: ["POST"] } }, "POST http://127.0.0.1"],
    [{ match: { methods: ["DELETE", "PUT"] } }, "DELETE http://127.0.0.1"],
    [{ match: { methods: ["HEAD"] } }, "HEAD http://127.0.0.1"],
    [{ match: { methods: ["POST", "GET"] } }, "GET http://127.0.0.1"],
    [{ match: { path: "/api/*" } }, "GET http://127.0.0.1"],
    [{ match: { path: "/orgs/:org/repos/:repo" } }, "GET http://127.0.0.1"],
    [{ match: { path: "/*.php" } }, "GET http://127.0.0.1"],
    [{ match: { path: "/caf\u00e9/a b" } }, "GET http://127.0.0.1"],
    [{ match: { host: "api.example.com" } }, "GET http://api.example.com"],
    [{ match: { host: "*.example.com" } }, "GET http://example.example.com"],
    [{ match: { header: { "X-Beta": true, "X-Plan": `"a" $b 'c' \`d\`` } } }, "GET http://127.0.0.1"],
    [{ key: "header:x-api-key" }, "GET http://127.0.0.1"],
    [{ key: ["header:x-plan"], match: { header: { "X-Plan": "free" } } }, "GET http://127.0.0.1"],
    [{ key: ["cookie:sid", "cookie:other", "query:a", "query:b[]"] }, "GET http://127.0.0.1"],
    [{ key: ["ip", "path", "method"], match: { path: "/Login", methods: ["POST"] } }, "POST http://127.0.0.1"],
    [{ key: ["ip", "host"], match: { host: "*.example.com" } }, "GET http://example.example.com"],
    [{ key: "ip", trustedProxies: 3 }, "GET http://127.0.0.1"],
    [{ key: "global" }, "GET http://127.0.0.1"],
  ])(
    "under a policy with %j, the first command charges the key that the other commands name",
    async ([fields, start]) => {
      const { config, commands } = shown([{ name: "p", limits, onMissingKey: "deny", ...fields }]);
      const [command = "", ...others] = commands;
      const request = await sent(command);
      expect(`${request.method} ${request.url}`.startsWith(start)).toBe(true);
      const visit = attributesOf(request);
      const [policy] = matchingPolicies(config.policies, visit);
      if (policy === undefined) throw new Error(`no policy matches ${command}`);
      const ruling = resolveKey(policy, visit, {});
      if (ruling.kind !== "charge") throw new Error(`${ruling.kind}: ${command}`);
      const looked = await sent(others[0] ?? "");
      const keys = new URL(looked.url).searchParams.getAll("key");
      expect(callerKeyValues(policy, keys)).toEqual(ruling.values);
    },
  );

  const keyed = { limits, key: "jwt:sub", onMissingKey: "skip" };
  it.for<[string, readonly object[], string]>([
    [
      "the first policy whose key a command can have",
      [
        { ...keyed, name: "a" },
        { limits, name: "b" },
      ],
      "b",
    ],
    [
      "the first of several such policies",
      [
        { limits, name: "a" },
        { limits, name: "b", key: "global" },
      ],
      "a",
    ],
    [
      "a policy whose key no command can have, if requests without that key share one",
      [
        { limits, name: "a", key: "jwt:sub" },
        { limits, name: "b" },
      ],
      "a",
    ],
    [
      "an enforced policy rather than a dry run",
      [
        { limits, name: "a", dryRun: true },
        { limits, name: "b" },
      ],
      "b",
    ],
    ["a dry run if there is no other policy", [{ limits, name: "a", dryRun: true }], "a"],
    [
      "a policy that does not limit /check itself",
      [
        { limits, name: "a", match: { path: "/check/*" } },
        { limits, name: "b" },
      ],
      "b",
    ],
    ["the only policy, even if no command is charged by it", [{ ...keyed, name: "a" }], "a"],
  ])("the first command of the banner is for %s", async ([, policies, name]) => {
    const { commands } = shown(policies, jwt);
    const looked = await sent(commands[1] ?? "");
    expect(new URL(looked.url).searchParams.get("policy")).toBe(name);
  });
});
