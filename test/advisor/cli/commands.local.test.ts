/** `npm run what-if` and `npm run advise` as processes: files, standard input, samples of a server, and errors. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, describe, expect, it } from "vitest";
import { pageAt } from "../../docs/page-block.ts";
import { checkout, runNpm } from "../../system/checkout.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-what-if-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** One client sends ten requests each second for a minute, and another client sends one. */
const log = Array.from({ length: 60 }, (_, second) =>
  Array.from({ length: 11 }, (__, index) => {
    const client = index === 10 ? "198.51.100.1" : "203.0.113.7";
    return `${client} - - [05/Jan/2026:12:00:${String(second).padStart(2, "0")} +0000] "GET / HTTP/1.1" 200 5\n`;
  }).join(""),
).join("");

const localSecrets = ["KEY_SECRET", "CHECK_TOKENS"]
  .map((name) => `${name}="${name.toLowerCase()}-of-at-least-32-characters"\n`)
  .join("");

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const whatIf = (words: readonly string[], input?: string | Uint8Array): Promise<Ended> =>
  ended("what-if", words, input);

async function ended(command: string, words: readonly string[], input: string | Uint8Array = ""): Promise<Ended> {
  const child = spawn(process.execPath, [`src/advisor/cli/${command}.ts`, ...words]);
  const [stdout, stderr]: [string[], string[]] = [[], []];
  child.stdout.setEncoding("utf8").on("data", (text: string) => stdout.push(text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => stderr.push(text));
  child.stdin.end(input);
  await once(child, "close");
  return { code: child.exitCode, stdout: stdout.join(""), stderr: stderr.join("") };
}

describe("npm run what-if", () => {
  it("npm run what-if compares sets of limits on a log as aligned text", async () => {
    const file = join(folder, "access.log");
    writeFileSync(file, log);
    const limits = ["--limits", "300/minute", "--limits", "1000/minute", "--strategy=sliding-log"];
    const { code, stdout, stderr } = await whatIf(["--log", file, ...limits]);
    expect([code, stderr]).toEqual([0, ""]);
    const lines = stdout.split("\n");
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(100);
    expect(lines).toContain("660 requests of 2 keys by ip");
    expect(lines).toContain("2026-01-05 12:00:00 to 2026-01-05 12:00:59 UTC (59.1 s)");
    expect(stdout).toMatch(/\n {2}none +0 +0 +11 per second\n/);
    expect(stdout).toMatch(/\n {2}A +300 \(45\.5 %\) +1 \(50 %\) +.* +11 per second\n/);
    expect(stdout).toMatch(/\n {2}B +0 \(0 %\) +0 \(0 %\) +11 per second\n/);
    expect(stdout).toMatch(/\n {2}203\.0\.113\.7 +600 +90\.9 % +300 \(50 %\)/);
    expect(stdout).toContain("B denies no key.");
  });

  it("npm run what-if reads gzip from standard input and prints JSON", async () => {
    const words = ["--log", "-", "--key", "ip,path", "--limits", "300/minute", "--json"];
    const { code, stdout } = await whatIf([...words, "--strategy", "sliding-log"], gzipSync(log));
    expect(code).toBe(0);
    const documented = pageAt("reference/advise-and-what-if").tables.find(
      ({ heading }) => heading === "Results as JSON",
    );
    const fields = documented?.rows.flatMap((cells) =>
      Array.from(cells.join().matchAll(/`(\w+)`/g), ([, name]) => name),
    );
    const { sets } = JSON.parse(stdout) as { sets: { withRetries: object }[] };
    for (const field of Object.keys(sets[0]?.withRetries ?? {})) expect(fields).toContain(field);
    expect(JSON.parse(stdout)).toMatchObject({
      traffic: { key: ["ip", "path"], requests: 660, keys: 2, oneKeyIn: 1 },
      sets: [
        {
          label: "A",
          withoutRetries: { denied: 300, deniedKeys: 1 },
          withRetries: {
            denied: 300,
            deniedShare: 300 / 660,
            deniedKeys: 1,
            sent: expect.any(Number),
            deniedRetries: expect.any(Number),
          },
          deniedMost: [{ key: "203.0.113.7, /", requests: 600, denied: 300 }],
        },
      ],
    });
  });

  it("with the samples of a server, the command compares sets of limits with the limits in force", async () => {
    const from = Date.UTC(2026, 0, 5, 12);
    const header = {
      policy: "api",
      from: new Date(from - 3_600_000).toISOString(),
      to: new Date(from + 3_600_000).toISOString(),
      sample: "1/64",
      arrivals: 20,
      lost: 0,
      dropped: 0,
      requests: 1_280,
      coverage: 1,
      storedAt: new Date(from + 3_600_000).toISOString(),
      ageMs: 7_200_000,
    };
    const arrivals = Array.from({ length: 20 }, (_, index) => [from + index, 1, index < 15 ? "allowed" : "denied"]);
    const limit = { name: "api", limit: 15, windowMs: 60_000, strategy: "sliding-log" };
    const requests: unknown[] = [];
    const server = createServer(({ url, headers }, response) => {
      requests.push([url, headers.authorization]);
      response.end(
        url?.includes("/samples") === true
          ? `${JSON.stringify(header)}\n${JSON.stringify({ id: "k", arrivals })}\n`
          : JSON.stringify({ key: ["ip"], within: "org", limits: { value: [limit], source: "configuration" } }),
      );
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const words = ["--url", `http://127.0.0.1:${port}`, "--policy", "api", "--token", "a-token"];
    const { code, stdout } = await whatIf([...words, "--limits", "10/minute", "--strategy=sliding-log"]);
    server.close();
    expect(code).toBe(0);
    expect(requests).toEqual([
      ["/_headgate/api/policies/api", "Bearer a-token"],
      ["/_headgate/api/samples?policy=api", "Bearer a-token"],
    ]);
    expect(stdout).toMatch(/\n {2}recorded +5 \(25 %\) +1 \(100 %\)\n {2}now +5 \(25 %\).*\n {2}A +10 \(50 %\)/);
    expect(stdout).toContain("2026-01-05 12:00:00 to 2026-01-05 13:00:00 UTC");
    expect(stdout).toContain('1 key in 64 is sampled (SAMPLE = "1/64"). The policy had 1,280 requests in all.');
    expect(stdout).toMatch(/This replays api alone\. Requests that only org\s/);
    expect(stdout).toMatch(/The latest samples were stored 2 h ago\. No isolate reported since/);
  });

  it("an invalid option ends the command with exit code 1 and prints only the error message", async () => {
    expect(await whatIf(["--log", "no.log", "--limits", "5/parsec"])).toEqual({
      code: 1,
      stdout: "",
      stderr: expect.stringMatching(/^--limits\.window: expected .*, got "5\/parsec"\n$/),
    });
  });
});

describe("npm run advise", () => {
  it("the recommended policy is TOML that check-config accepts", async () => {
    const file = join(folder, "keys.json");
    const lines = Array.from({ length: 40_000 }, (_, index) => {
      const at = 1_767_614_400 + Math.floor(index / 10);
      return `{"time":${at},"headers":{"X-Api-Key":"customer-${(index * 7919) % 997}"}}\n`;
    });
    writeFileSync(file, lines.join(""));
    const goal = ["--goal", "deny at most 1 % of requests"];
    const words = ["--log", file, "--key", "header:x-api-key", "--name", "customers", ...goal];
    const { code, stdout, stderr } = await ended("advise", words);
    expect([code, stderr]).toEqual([0, ""]);
    for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(100);
    expect(stdout).toMatch(/\nRecommended: \S+ per .* denies at most 1 %/);
    const toml = stdout.slice(stdout.indexOf("[[vars.POLICIES]]"));
    expect(toml).toMatch(/name = "customers"\nkey = \["header:x-api-key"\]\nstrategy = "/);
    const project = checkout();
    project.configure(toml.trim().split("\n"));
    writeFileSync(join(project.folder, ".dev.vars"), localSecrets);
    const check = runNpm(project.folder, "run", "--silent", "check-config");
    expect([await check.ended, check.output()]).toEqual([
      0,
      expect.stringMatching(/The configuration is valid\..*\n {2}customers: \d+ per /s),
    ]);
    project.remove();
  });

  it.each([
    [
      ["--goal", "deny at most 1 % of keys", "--goal", "x"],
      /^--goal: expected one value, got "deny at most 1 % of keys" and "x"\n$/,
    ],
    [
      ["--goal", `never let one key exceed ${"9".repeat(20)} requests in a second`],
      /^--goal: expected at most 999,999,999,999 requests, got "never/,
    ],
  ])("the options %j end the command with only an error message", async (words, message) => {
    const { code, stdout, stderr } = await ended("advise", ["--log", "no.log", ...words]);
    expect([code, stdout, stderr]).toEqual([1, "", expect.stringMatching(message)]);
    expect(stderr).not.toContain("    at ");
  });

  it("without --whole, a limit is chosen on the first half of a log and measured on the second half", async () => {
    const file = join(folder, "halves.json");
    const lines = Array.from({ length: 20_000 }, (_, index) =>
      JSON.stringify({
        time: 1_767_614_400_001 + index * 1_000,
        ip: `10.0.${index % 4}.${(index * 7) % 250}`,
      }),
    );
    writeFileSync(file, `${lines.join("\n")}\n`);
    const words = ["--log", file, "--goal", "deny at most 2 % of keys", "--json"];
    const [half, whole] = await Promise.all([ended("advise", words), ended("advise", [...words, "--whole"])]);
    expect(JSON.parse(half.stdout)).toMatchObject({
      recommendation: { kind: "recommended" },
      traffic: { requests: 20_000, keys: 500 },
      chosenFrom: { to: "2026-01-05T14:46:39.501Z", requests: 10_000, keys: 500 },
      secondHalf: { requests: 10_000, denied: 0, keys: 500, meetsGoal: true },
    });
    expect(JSON.parse(whole.stdout)).toMatchObject({
      recommendation: { kind: "recommended" },
      chosenFrom: { requests: 20_000 },
      secondHalf: null,
    });
    const text = await ended("advise", words.slice(0, -1));
    expect(text.stdout.replaceAll(/\s+/g, " ")).toContain(
      "Chosen from the first half of the log, until 2026-01-05 14:46:39 UTC. On the second half, which was not used, it denies 0 (0 %) of 10,000 requests and 0 (0 %) of 500 keys, and lets at most 1 request per second reach the origin. The goal is met there, too.",
    );
  });

  it("an unknown goal ends the command with a list of the four forms of a goal", async () => {
    const { code, stderr } = await ended("advise", ["--log", "no.log", "--goal", "be nice"]);
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^--goal: expected "deny at most 0\.1 % of requests".*, got "be nice"\n$/),
    ]);
  });
});
