/** The clients with fetch in docs/how-to/from-typescript.md, compiled, and run by Node against a real Headgate. */
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
const brief = pageBlock(page, "ts", "const { allowed, retryAfterMs } = await response");
const client = pageBlock(page, "ts", "export async function check(");
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
  writeFileSync(join(folder, "src/client.ts"), `${client}\n${metered}`);
  writeFileSync(
    join(folder, "src/closed.ts"),
    client.replace("failOpen = true", "failOpen = false"),
  );
  writeFileSync(join(folder, "src/retry.ts"), retrying);
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

/** Runs code that prints JSON. */
async function run(code: string, variables: Record<string, string> = {}): Promise<Output> {
  const HEADGATE_URL = new URL("/check", workerd.url).href;
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

describe("the documented client with fetch", () => {
  it.each(["@types/node", "@cloudflare/workers-types"])(
    "the client with fetch compiles in strict mode with %s",
    (types) => {
      const strict = ["--strict", "--noEmit", "--skipLibCheck", "--target", "es2024"];
      const found = ["--module", "nodenext", "--ignoreConfig", "--lib", "es2024"];
      // The client reads process.env, which Workers with `nodejs_compat` have.
      const named = ["--types", [...new Set([types, "@types/node"])].join(",")];
      const words = [...strict, ...found, ...named, "src/client.ts", "src/retry.ts"];
      const options = { cwd: folder, encoding: "utf8" } as const;
      const { status, stdout } = spawnSync(resolve("node_modules/.bin/tsc"), words, options);
      expect([stdout, status]).toEqual(["", 0]);
    },
  );

  it("the first example prints a decision", async () => {
    const url = new URL("/check", workerd.url).href;
    const code = brief.replace("https://headgate.example.com/check", url);
    expect(code).toContain(url);
    const { json } = await run(
      `const token = "${token}";\n${code}\nconsole.log(JSON.stringify({ allowed, retryAfterMs }));`,
    );
    expect(json).toEqual({ allowed: true, retryAfterMs: 0 });
  });

  it("the client is allowed up to the limit, and then gets the wait, and null for a cost that never fits", async () => {
    const { json, errors } = await run(`${importing("check")}
      const decisions = [];
      for (const cost of [1, 1, 1, 3]) decisions.push(await check("api", "192.0.2.1", cost));
      print(decisions.map(({ allowed, retryAfterMs }) => [allowed, retryAfterMs]));`);
    const [, , third, fourth] = json as [unknown, unknown, [boolean, number], unknown];
    expect(json).toMatchObject([
      [true, 0],
      [true, 0],
      [false, third[1]],
      [false, null],
    ]);
    expect(fourth).toEqual([false, null]);
    expect(third[1]).toBeGreaterThan(3_500_000);
    expect(errors).toBe("");
  });

  it("the client waits as long as the denial says, and gives up when the wait is too long", async () => {
    const { json } = await run(`${importing("checkAndWait")}
      const outcomes = [];
      for (const policy of ["soon", "soon"]) outcomes.push(await checkAndWait(policy, "192.0.2.2"));
      for (const policy of ["api", "api", "api"]) outcomes.push(await checkAndWait(policy, "192.0.2.2"));
      print(outcomes);`);
    expect(json).toEqual([true, true, true, true, false]);
  });

  it.for([
    { name: "its token is wrong", used: { bearer: "wrong" }, reason: /401 .*The bearer/ },
    { name: "the policy is unknown", used: { policy: "none" }, reason: /404 .*There is no/ },
    { name: "Headgate is stopped", used: { isStopped: true }, reason: /fetch failed/ },
    { name: "Headgate does not answer", used: { isSilent: true }, reason: /TimeoutError/ },
    { name: "a page answers", used: { answer: "<html>" }, reason: /SyntaxError/ },
    { name: "another API answers", used: { answer: '{"status":"ok"}' }, reason: /200 .*"ok"/ },
    { name: "the answer is null", used: { answer: "null" }, reason: /200 null/ },
  ])(
    "the client fails open or, when so configured, closed, and logs the reason, while $name",
    async ({ used, reason }) => {
      const { policy = "api", bearer = token, isStopped = false, isSilent = false, answer } = used;
      const HEADGATE_TOKEN = bearer;
      const port = isStopped ? await freePort() : useless.silentPort;
      const environment = {
        HEADGATE_TOKEN,
        ...((isStopped || isSilent) && { HEADGATE_URL: `http://127.0.0.1:${port}/check` }),
        ...(answer !== undefined && {
          HEADGATE_URL: `http://127.0.0.1:${useless.otherPort}/${encodeURIComponent(answer)}`,
        }),
      };
      const code = `print(await check("${policy}", "192.0.2.3"));`;
      const open = await run(importing("check") + code, environment);
      expect(open.json).toEqual({ allowed: true, retryAfterMs: 0 });
      expect(open.errors).toMatch(reason);
      const closed = await run(importing("check", "closed") + code, environment);
      expect(closed.json).toEqual({ allowed: false, retryAfterMs: 1_000 });
      expect(closed.errors).toMatch(reason);
    },
  );

  it("a metered call is charged its actual cost, nothing when it fails, and is not made when its reserve is denied", async () => {
    const { json } = await run(`${importing("check, metered")}
      const key = "192.0.2.4";
      const left = async () => (await check("tokens", key, 0)).limits[0].remaining;
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
  it("a denied request is sent again after Retry-After, with its body, and returned when no retry is left", async () => {
    const { json } = await run(`${importing("fetchWithRetry", "retry")}
      const url = ${JSON.stringify(new URL("/soon", workerd.url).href)};
      const statusOf = async (retries) => {
        const request = new Request(url, { method: "POST", body: "b" });
        return (await fetchWithRetry(request, retries)).status;
      };
      print([await statusOf(), await statusOf(), await statusOf(0)]);`);
    expect(json).toEqual([200, 200, 429]);
  });

  it("a denied request whose wait is too long is returned at once", async () => {
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
