import { execFileSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { checkout, freePort, printed, type Run, runNpm, started, stopped } from "./checkout.ts";

const { folder, configure, checkToken, remove } = checkout();
let port = 0;
let url = "";
let run: Run;

const start = async (): Promise<void> => {
  run = await started(folder, port);
};

interface Process {
  readonly pid: number;
  readonly parent: number;
}

/** What runs; what has ended and only waits to be noticed by its parent does not. */
const running = (): Process[] =>
  execFileSync("ps", ["-A", "-o", "pid=,ppid=,stat="], { encoding: "utf8" })
    .trim()
    .split("\n")
    .map((row) => row.trim().split(/\s+/))
    .filter(([, , state]) => !state?.startsWith("Z"))
    .map(([pid, parent]) => ({ pid: Number(pid), parent: Number(parent) }));

/** npm, and everything that it has started. */
const family = (): Set<number> => {
  const processes = running();
  const members = new Set([run.npm.pid ?? 0]);
  for (const member of members) {
    for (const { pid, parent } of processes) if (parent === member) members.add(pid);
  }
  return members;
};

const survivors = (members: ReadonlySet<number>): number[] =>
  running().flatMap(({ pid }) => (members.has(pid) ? [pid] : []));

const look = async (key: string): Promise<unknown> => {
  const headers = { Authorization: `Bearer ${checkToken()}` };
  const response = await fetch(`${url}/check?key=${key}`, { headers });
  const decision = await response.json<{ limits: { remaining: number }[] }>();
  return decision.limits[0]?.remaining;
};

beforeAll(async () => {
  port = await freePort();
  url = `http://localhost:${port}`;
  await start();
});

afterAll(async () => {
  await stopped(run);
  remove();
});

describe("npm start in a fresh checkout", () => {
  it("makes secrets that only their owner can read", () => {
    expect(checkToken().length).toBeGreaterThanOrEqual(32);
    expect(readFileSync(join(folder, ".dev.vars"), "utf8")).toMatch(/^KEY_SECRET=".{32}"$/m);
    expect(statSync(join(folder, ".dev.vars")).mode & 0o777).toBe(0o600);
  });

  it("says where it runs and where the limits are set, and commands that work as printed", () => {
    const output = run.output();
    expect(output).toContain(`Headgate is running at ${url}`);
    expect(output).toContain("configured in wrangler.toml, under [vars]");
    const commands = output.split("\n").filter((line) => line.startsWith("  curl "));
    const answers = commands.map((command) =>
      execFileSync("sh", ["-c", command], { encoding: "utf8" }),
    );
    expect(answers.map((answer) => answer.split("\r\n")[0])).toEqual([
      "HTTP/1.1 200 OK",
      expect.stringContaining('"remaining":4'),
      expect.stringContaining('"cost":2'),
      "HTTP/1.1 204 No Content",
    ]);
  });

  it("lets five requests in, refuses the sixth, and lets in again after the wait it told", async () => {
    const responses = [];
    for (let request = 0; request < 6; request++) {
      // oxlint-disable-next-line no-await-in-loop
      responses.push(await fetch(`${url}/hello`));
    }
    expect(responses.map((response) => response.status)).toEqual([200, 200, 200, 200, 200, 429]);
    const left = responses.map((response) => response.headers.get("RateLimit")?.slice(0, 13));
    expect(left).toEqual([4, 3, 2, 1, 0, 0].map((each) => `"default";r=${each}`));
    expect(await responses[0]?.text()).toContain("Hello from the demo origin.");
    const waitSeconds = Number(responses[5]?.headers.get("Retry-After"));
    expect(waitSeconds).toBeLessThanOrEqual(10);
    // The wait is what is tested.
    await setTimeout(waitSeconds * 1000);
    expect((await fetch(`${url}/hello`)).status).toBe(200);
  });

  it("lives on with what its demo origin cannot hold", async () => {
    const response = await fetch(`${url}/upload`, {
      method: "POST",
      body: new Uint8Array(5_000_000),
    });
    expect(await response.json()).toMatchObject({ sizeBytes: 5_000_000 });
  });

  it("says clearly that its port is taken", async () => {
    const second = runNpm(folder, "start", "--", "--port", String(port));
    expect(await second.ended).toBe(1);
    expect(second.output()).toContain(`Port ${port} is taken`);
  });

  it("stops everything when npm alone is told to terminate", async () => {
    const members = family();
    expect(members.size).toBeGreaterThan(3);
    process.kill(run.npm.pid ?? 0, "SIGTERM");
    await run.ended;
    // What has been killed is there until it has been waited for.
    await vi.waitFor(() => expect(survivors(members)).toEqual([]), 5_000);
    await expect(fetch(url)).rejects.toThrow("fetch failed");
  });
});

describe("npm start with a configuration of one's own", () => {
  it("uses it, and shows what the Worker logs", async () => {
    configure([
      'ORIGIN = "http://127.0.0.1:9"',
      'LIMITS = ["100/hour", { limit = 200, window = "1m", strategy = "fixed-window", elastic = true }]',
      'STRATEGY = "sliding-log"',
    ]);
    await start();
    const response = await fetch(url);
    await printed(run, '"event":"configuration-warning"');
    expect(response.status).toBe(502);
    expect(response.headers.get("RateLimit-Policy")).toBe(
      '"default.100-per-1h";q=100;w=3600, "default.200-per-1m";q=200;w=60',
    );
    await printed(run, '"event":"origin-unreachable"');
    expect(run.output()).not.toContain("[wrangler:info]");
  });

  it("keeps its counts from one run to the next, and ends on Ctrl-C", async () => {
    expect(await look("127.0.0.1")).toBe(99);
    const members = family();
    process.kill(-(run.npm.pid ?? 0), "SIGINT");
    await run.ended;
    // What has been killed is there until it has been waited for.
    await vi.waitFor(() => expect(survivors(members)).toEqual([]), 5_000);
    await start();
    expect(await look("127.0.0.1")).toBe(99);
  });

  it("says whose decisions are not the object's, since local workerd knows no jurisdictions", async () => {
    await stopped(run);
    configure(
      ["eu", "us"].flatMap((jurisdiction) => [
        "[[vars.POLICIES]]",
        `name = "${jurisdiction}"`,
        'limits = "1/hour"',
        `jurisdiction = "${jurisdiction}"`,
      ]),
    );
    await start();
    expect(run.output()).toContain(
      'knows no jurisdictions: decisions of eu (onError = "local"), us (onError = "local") are by onError',
    );
    const statuses = [await fetch(url), await fetch(url)].map(({ status }) => status);
    expect(statuses).toEqual([200, 429]);
  });

  it("lists what is wrong with it, and answers 500 meanwhile", async () => {
    await stopped(run);
    configure(['LIMITS = "0/hour"', 'STRATEGY = "magic"']);
    await start();
    expect(run.output()).toContain('LIMITS.limit is "0/hour": accepted is an integer');
    expect(run.output()).toContain('STRATEGY is "magic": accepted is one of');
    expect((await fetch(url)).status).toBe(500);
  });
});
