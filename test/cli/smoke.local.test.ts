/** `npm run smoke` against `npm start`, and against servers on which the command must fail. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageVersion } from "../../src/http/wire/version.ts";
import { checkout, freePort, printed, type Run, runNpm, started, stopped } from "../system/checkout.ts";
import { startUselessServers, type UselessServers } from "../system/useless-servers.ts";

interface Smoke {
  readonly exitCode: number | null;
  readonly output: string;
  /** The outcome and the detail of each step, by its name. */
  readonly steps: ReadonlyMap<string, string>;
}

const script = resolve("src/cli/smoke.ts");

const stepsIn = (output: string): Map<string, string> =>
  new Map(
    [...output.matchAll(/^ {2}(pass|fail|skipped) +(.+?) {2,}(.*)$/gm)].map(
      ([, outcome = "", name = "", detail = ""]) => [name, `${outcome}: ${detail}`],
    ),
  );

/** Runs the command in a folder, with these CHECK_TOKENS in the environment. */
async function smoke(folder: string, words: readonly string[], tokens = ""): Promise<Smoke> {
  const child = spawn(process.execPath, [script, ...words], {
    cwd: folder,
    env: { ...process.env, CHECK_TOKENS: tokens },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const chunks: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => chunks.push(chunk));
  }
  await once(child, "close");
  const output = chunks.join("");
  return { exitCode: child.exitCode, output, steps: stepsIn(output) };
}

describe("npm run smoke against npm start", () => {
  const { folder, configure, checkToken, remove } = checkout();
  let url = "";
  let run: Run;

  beforeAll(async () => {
    const port = await freePort();
    url = `http://localhost:${port}`;
    run = await started(folder, port);
  });
  afterAll(async () => {
    await stopped(run);
    remove();
  });

  it("npm run smoke passes with the local token and does not print it", async () => {
    const npm = runNpm(folder, "run", "--silent", "smoke", "--", url);
    expect([await npm.ended, npm.output()]).toEqual([0, expect.stringContaining("9 passed, 0 failed, 3 skipped")]);
    expect(npm.output()).not.toContain(checkToken());
    expect(stepsIn(npm.output()).get("OpenAPI and version")).toBe(`pass: Headgate ${packageVersion}`);
  });

  it("npm run smoke passes every step when the console's host and a number of requests are given", async () => {
    const words = [url, "--admin-host", "admin.localhost", "--path", "/hello"];
    const { exitCode, output, steps } = await smoke(folder, [...words, "--until-denied", "10"]);
    expect([exitCode, output]).toEqual([0, expect.stringContaining("12 passed, 0 failed, 0 skipped")]);
    expect(steps.get("denial by the proxy")).toMatch(/^pass: request \d got 429 \("default" 0 of 5/);
  });

  it("npm run smoke uses a token of CHECK_TOKENS in the environment, and reports a wrong token without printing it", async () => {
    const wrong = "a-wrong-token-of-the-tests";
    const rejected = await smoke(folder, [url], wrong);
    expect(rejected.exitCode).toBe(1);
    expect(rejected.steps.get("unknown policy")).toBe("fail: the deployment does not accept the token");
    expect(rejected.output).not.toContain(wrong);
    const tokens = JSON.stringify([{ token: wrong, may: ["look"] }, checkToken()]);
    expect(await smoke(folder, [url], tokens)).toMatchObject({ exitCode: 0 });
    expect(await smoke(folder, [url, "--token", checkToken()], wrong)).toMatchObject({
      exitCode: 0,
    });
  });

  it("npm run smoke fails on another version than the expected one", async () => {
    const { exitCode, steps } = await smoke(folder, [url, "--expect-version", "9.9.9"]);
    expect(exitCode).toBe(1);
    expect(steps.get("OpenAPI and version")).toContain(`fail: expected the version 9.9.9, got ${packageVersion}`);
  });

  it("npm run smoke charges policies with several key parts with --policy and --key", async () => {
    const policies = [
      ["api", 'key = ["header:X-Api-Key", "path"]', 'match = { path = "/api/*" }'],
      ["login", 'key = ["ip"]', 'match = { path = "/login" }'],
    ];
    configure(
      policies.flatMap(([name, ...lines]) => [
        "[[vars.POLICIES]]",
        `name = "${name}"`,
        'limits = "50/hour"',
        ...lines.map(String),
      ]),
    );
    await printed(run, "In effect now: api 50 per 1h; login 50 per 1h");
    const unnamed = await smoke(folder, [url]);
    expect(unnamed.exitCode).toBe(0);
    expect(unnamed.steps.get("look, charge and reset")).toMatch(
      /^skipped: policy: expected .*; name a key that nobody uses with --policy and --key$/,
    );
    expect(unnamed.steps.get("RateLimit fields")).toMatch(/^skipped: GET \/ has no RateLimit/);
    const words = ["--policy", "api", "--key", "smoke-test", "--key", "/api/x", "--path", "/login"];
    const named = await smoke(folder, [url, ...words]);
    expect(named.exitCode).toBe(0);
    expect(named.steps.get("look, charge and reset")).toBe("pass: 50 units, 49 after a charge, 50 after the reset");
    const mistaken = await smoke(folder, [url, "--policy", "apj", "--key", "a"]);
    expect(mistaken).toMatchObject({ exitCode: 1 });
  });

  it("npm run smoke fails at once on a deployment with an invalid configuration, and prints its problems", async () => {
    const restarted = await freePort();
    configure(['LIMITS = "0/hour"']);
    await stopped(run);
    run = await started(folder, restarted);
    const { exitCode, output, steps } = await smoke(folder, [`http://localhost:${restarted}`]);
    expect(exitCode).toBe(1);
    expect(steps.get("health")).toMatch(/^fail: the configuration is invalid: LIMITS.limit: expec/);
    expect(output).toContain("0 passed, 1 failed, 0 skipped, 11 not run");
  });
});

describe("npm run smoke against servers that are not Headgate", () => {
  let servers: UselessServers;
  beforeAll(async () => {
    servers = await startUselessServers();
  });
  afterAll(() => servers.close());

  it("npm run smoke fails at the first step on a web server that is not Headgate", async () => {
    const { exitCode, output, steps } = await smoke(".", [`http://127.0.0.1:${servers.otherPort}`]);
    expect(exitCode).toBe(1);
    expect(steps.get("health")).toContain("fail: expected the health of Headgate at /check/health");
    expect(output).toContain("11 not run");
  });

  it("npm run smoke ends after --timeout when a host does not respond", async () => {
    const words = [`http://127.0.0.1:${servers.silentPort}`, "--timeout", "1"];
    const { exitCode, steps } = await smoke(".", words);
    expect(exitCode).toBe(1);
    expect(steps.get("health")).toBe("fail: no answer: the 1 s of --timeout are over");
  });

  it("npm run smoke fails with the reason on a closed port, an unknown host and a server without HTTP", async () => {
    const raw = createServer((socket: Socket) => socket.end("220 smtp.example\r\n"));
    raw.listen(0, "127.0.0.1");
    await once(raw, "listening");
    const address = raw.address();
    const rawPort = typeof address === "object" && address !== null ? address.port : 0;
    const reasons = {
      [`http://127.0.0.1:${await freePort()}`]: "ECONNREFUSED",
      "https://limits.invalid": "E",
      [`http://127.0.0.1:${rawPort}`]: "HPE_",
    };
    for (const [url, reason] of Object.entries(reasons)) {
      // oxlint-disable-next-line no-await-in-loop
      const { exitCode, steps } = await smoke(".", [url]);
      expect([exitCode, steps.get("health")]).toEqual([1, expect.stringContaining(`fail: no answer: ${reason}`)]);
    }
    raw.close();
  });
});

describe("the arguments of npm run smoke", () => {
  it.each([
    [[], 'Expected the URL of a deployment without a path, such as https://limits.example.com, got "".'],
    [["limits.example.com"], 'without a path, such as https://limits.example.com, got "limits'],
    [["ftp://limits.example.com"], 'got "ftp://limits.example.com"'],
    [["https://limits.example.com/check"], 'got "https://limits.example.com/check"'],
    [["http://limits.example.com"], "Expected https, or http on this machine"],
    [["https://a:b@limits.example.com"], "Expected a URL without a user name"],
    [["https://a.example", "https://b.example"], "Expected one <url>"],
    [["https://a.example", "--until-denied", "many"], "--until-denied: expected an integer from 0"],
    [["https://a.example", "--timeout", "0"], "--timeout: expected an integer from 1 to 3600"],
    [["https://a.example", "--check-path", "check"], "--check-path: expected a path such as"],
    [["https://a.example", "--admin-host", "b/c"], "--admin-host: expected a host such as"],
  ])("npm run smoke rejects the arguments %j", async (words, message) => {
    const { exitCode, output } = await smoke(".", words);
    expect([exitCode, output]).toEqual([1, expect.stringContaining(message)]);
    expect(output).not.toContain("    at ");
  });

  it("npm run smoke reports tokens in CHECK_TOKENS that cannot be read, without their text", async () => {
    const { exitCode, output } = await smoke(".", ["https://a.example"], '[{"tokn": "secret"}]');
    expect([exitCode, output]).toEqual([1, expect.stringMatching(/^CHECK_TOKENS: expected a bearer/)]);
    expect(output).not.toContain("secret");
  });
});
