/** The code of docs/how-to/from-typescript.md, compiled, and run by Node against a real Headgate. */
import { execFile, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startWorkerd, type Workerd } from "../tools/workerd.ts";
import { freePort } from "./checkout.ts";
import { startUselessServers, type UselessServers } from "./useless-servers.ts";
import { pageBlock } from "../docs/page-block.ts";

const page = "how-to/from-typescript";
/** The code imports the source instead of the installed package. */
const source = JSON.stringify(resolve("src/sdk/package/client.ts"));
const installed = (code: string): string => code.replaceAll('"headgate/client"', source);
const brief = installed(pageBlock(page, "ts", 'await limiter.check({ policy: "api", key: "203'));
const client = installed(pageBlock(page, "ts", "export async function isAllowed("));
const waiting = pageBlock(page, "ts", "export async function checkAndWait(");
const metered = pageBlock(page, "ts", "export async function metered");
const retrying = pageBlock(page, "ts", "export async function fetchWithRetry");

const token = "the-tests-token";
const folder = mkdtempSync(join(tmpdir(), "headgate-fetch-"));
let workerd: Workerd;
let useless: UselessServers;

beforeAll(async () => {
  mkdirSync(join(folder, "src"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  writeFileSync(join(folder, "src/client.ts"), `${client}\n${waiting}\n${metered}`);
  writeFileSync(join(folder, "src/closed.ts"), client.replace("failOpen = true", "failOpen = false"));
  writeFileSync(join(folder, "src/retry.ts"), retrying);
  writeFileSync(join(folder, "src/plain.ts"), `const token: string = "t";\n${brief}`);
  const policies = [
    { name: "api", key: "ip", match: { path: "/none" }, limits: "2/hour" },
    { name: "soon", key: "ip", match: { path: "/soon" }, limits: "1/second" },
    { name: "never", key: "ip", match: { path: "/none" }, limits: "1/second" },
    { name: "tokens", key: "ip", match: { path: "/none" }, limits: "100/hour" },
  ];
  workerd = await startWorkerd(join(folder, "workerd"), {
    CHECK_TOKENS: token,
    POLICIES: JSON.stringify(
      policies.map((policy) => ({ strategy: "fixed-window", onMissingKey: "shared", ...policy })),
    ),
  });
  useless = await startUselessServers();
});

afterAll(async () => {
  useless.close();
  await workerd.close();
  rmSync(folder, { recursive: true });
});

interface Output {
  readonly json: unknown;
  readonly errors: string;
}

/** Runs code that prints JSON, and returns the parsed JSON. */
async function run(code: string, variables: Record<string, string> = {}): Promise<Output> {
  const HEADGATE_URL = workerd.url.href;
  const env = { ...process.env, HEADGATE_URL, HEADGATE_TOKEN: token, ...variables };
  const words = ["--input-type=module-typescript", "-e", code];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, words, {
    cwd: folder,
    env,
  });
  return { json: JSON.parse(stdout), errors: stderr };
}

const importing = (names: string, file = "client"): string =>
  `import { ${names} } from "./src/${file}.ts";\nconst print = (value) => console.log(JSON.stringify(value));\n`;

describe("the documented client", () => {
  it.each([
    { platform: "Node.js", lib: ["es2024"], types: ["node"], files: ["src/client.ts"] },
    // The examples read process.env, which is available in Workers with `nodejs_compat`.
    {
      platform: "Workers",
      lib: ["es2024"],
      types: ["@cloudflare/workers-types", "node"],
      files: ["src/client.ts", "src/retry.ts"],
    },
    { platform: "browsers", lib: ["es2024", "dom"], types: [], files: ["src/plain.ts"] },
    {
      platform: "Workers without Node.js",
      lib: ["es2024"],
      types: ["@cloudflare/workers-types"],
      files: ["src/plain.ts"],
    },
  ])("the client compiles in strict mode for $platform", ({ lib, types, files }) => {
    const compilerOptions = {
      target: "es2024",
      lib,
      types,
      strict: true,
      exactOptionalPropertyTypes: true,
      noEmit: true,
      skipLibCheck: true,
      allowImportingTsExtensions: true,
      module: "nodenext",
    };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
    const words = [resolve("node_modules/typescript/bin/tsc"), "-p", "."];
    const options = { cwd: folder, encoding: "utf8" } as const;
    const { status, stdout } = spawnSync(process.execPath, words, options);
    expect([stdout, status]).toEqual(["", 0]);
  });

  it("the first example for TypeScript prints a decision", async () => {
    const code = brief.replace("https://headgate.example.com", workerd.url.origin);
    expect(code).toContain(workerd.url.origin);
    const { json } = await run(
      `const token = "${token}";\n${code}\nconsole.log(JSON.stringify({ allowed, retryAfterMs }));`,
    );
    expect(json).toEqual({ allowed: true, retryAfterMs: 0 });
  });

  it("the TypeScript client is allowed up to the limit, and denied above it", async () => {
    const { json, errors } = await run(`${importing("isAllowed")}
      const outcomes = [];
      for (const cost of [1, 1, 1, 3]) outcomes.push(await isAllowed("api", "192.0.2.1", cost));
      print(outcomes);`);
    expect(json).toEqual([true, true, false, false]);
    expect(errors).toBe("");
  });

  it("the TypeScript client waits as long as the denial says, and gives up when the wait is too long", async () => {
    const { json } = await run(`${importing("checkAndWait")}
      const outcomes = [];
      for (const policy of ["soon", "soon"]) outcomes.push(await checkAndWait(policy, "192.0.2.2"));
      for (const policy of ["api", "api", "api"]) outcomes.push(await checkAndWait(policy, "192.0.2.2"));
      print(outcomes);`);
    expect(json).toEqual([true, true, true, true, false]);
  });

  it.for([
    { name: "its token is wrong", used: { bearer: "wrong" }, reason: /Unauthorized: The bearer/ },
    { name: "the policy is unknown", used: { policy: "none" }, reason: /Not Found: There is no/ },
    { name: "Headgate is stopped", used: { isStopped: true }, reason: /ECONNREFUSED/ },
    { name: "Headgate does not answer", used: { isSilent: true }, reason: /within 2000 ms/ },
    { name: "another server answers", used: { isOther: true }, reason: /status 200 .*"check"/ },
  ])(
    "the client fails open or, when so configured, closed, and logs the reason, while $name",
    async ({ used, reason }) => {
      const { policy = "api", bearer = token, isStopped, isSilent, isOther } = used;
      const { silentPort, otherPort } = useless;
      const ports = [isStopped && (await freePort()), isSilent && silentPort, isOther && otherPort];
      const port = ports.find(Boolean);
      const environment = {
        HEADGATE_TOKEN: bearer,
        ...(port !== undefined && { HEADGATE_URL: `http://127.0.0.1:${port}` }),
      };
      const code = `print(await isAllowed("${policy}", "192.0.2.3"));`;
      const open = await run(importing("isAllowed") + code, environment);
      expect([open.json, open.errors]).toEqual([true, expect.stringMatching(reason)]);
      const closed = await run(importing("isAllowed", "closed") + code, environment);
      expect([closed.json, closed.errors]).toEqual([false, expect.stringMatching(reason)]);
    },
  );

  it("a metered call is charged its actual cost, nothing when it fails, and is not made when its reservation is denied", async () => {
    const { json } = await run(`${importing("metered")}
      import { createClient } from ${source};
      const { url, token } = ${JSON.stringify({ url: workerd.url.href, token })};
      const limiter = createClient({ url, token });
      const key = "192.0.2.4";
      const left = async () => (await limiter.look({ policy: "tokens", key })).limits[0].remaining;
      const result = await metered(key, 60, async () => ({ result: "done", cost: 7 }));
      const afterSuccess = await left();
      const failure = await metered(key, 60, async () => { throw new Error("broken"); }).catch(String);
      const afterFailure = await left();
      const denied = await metered(key, 101, async () => print("called"));
      print([result, afterSuccess, failure, afterFailure, denied]);`);
    expect(json).toEqual(["done", 93, "Error: broken", 93, null]);
  });
});

describe("the documented retry of requests to an API behind Headgate", () => {
  it("a denied request is sent again with its body after Retry-After, and the denial is returned when no retry is left", async () => {
    const { json } = await run(`${importing("fetchWithRetry", "retry")}
      const url = ${JSON.stringify(new URL("/soon", workerd.url).href)};
      const statusOf = async (retries) => {
        const request = new Request(url, { method: "POST", body: "b" });
        return (await fetchWithRetry(request, retries)).status;
      };
      print([await statusOf(), await statusOf(), await statusOf(0)]);`);
    expect(json).toEqual([200, 200, 429]);
  });

  it("a denial whose wait is too long is returned at once", async () => {
    const { json } = await run(`${importing("fetchWithRetry", "retry")}
      const url = ${JSON.stringify(new URL("/none", workerd.url).href)};
      const statuses = [];
      for (let count = 0; count < 3; count++) {
        statuses.push((await fetchWithRetry(new Request(url))).status);
      }
      print(statuses);`);
    expect(json).toEqual([200, 200, 429]);
  });
});
