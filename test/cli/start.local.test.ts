import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { checkout, freePort, printed, type Run, runNpm, started, stopped } from "../system/checkout.ts";

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

/** Running processes, without ended processes that their parent has not yet reaped. */
const running = (): Process[] =>
  execFileSync("ps", ["-A", "-o", "pid=,ppid=,stat="], { encoding: "utf8" })
    .trim()
    .split("\n")
    .map((row) => row.trim().split(/\s+/))
    .filter(([, , state]) => !state?.startsWith("Z"))
    .map(([pid, parent]) => ({ pid: Number(pid), parent: Number(parent) }));

/** The process ids of npm and of all its descendants. */
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
  it("npm start generates secrets that only their owner can read", () => {
    expect(checkToken().length).toBeGreaterThanOrEqual(32);
    expect(readFileSync(join(folder, ".dev.vars"), "utf8")).toMatch(/^KEY_SECRET=".{32}"$/m);
    expect(statSync(join(folder, ".dev.vars")).mode & 0o777).toBe(0o600);
  });

  it("a denied client of the demo is allowed again after Retry-After", async () => {
    const responses = [];
    for (let request = 0; request < 6; request++) {
      // oxlint-disable-next-line no-await-in-loop
      responses.push(await fetch(`${url}/hello`));
    }
    expect(responses[5]?.status).toBe(429);
    const waitSeconds = Number(responses[5]?.headers.get("Retry-After"));
    // The test also verifies this wait.
    await setTimeout(waitSeconds * 1000);
    expect((await fetch(`${url}/hello`)).status).toBe(200);
  });

  it("npm start keeps running after a request body that its demo origin does not store", async () => {
    const response = await fetch(`${url}/upload`, {
      method: "POST",
      body: new Uint8Array(5_000_000),
    });
    expect(await response.json()).toMatchObject({ sizeBytes: 5_000_000 });
  });

  it("npm start rejects a port that is in use and an invalid port", async () => {
    const second = runNpm(folder, "start", "--", "--port", String(port));
    expect(await second.ended).toBe(1);
    expect(second.output()).toContain(`Port ${port} is in use`);
    const third = runNpm(folder, "start", "--", "--port", "65536");
    expect(await third.ended).toBe(1);
    expect(third.output()).toContain('--port: expected a port from 1 to 65535, got "65536"');
  });

  it("npm start -- --help prints its options", async () => {
    const help = runNpm(folder, "run", "--silent", "start", "--", "--help");
    expect([await help.ended, help.output()]).toEqual([
      0,
      expect.stringMatching(/^Usage: npm start -- \[options\]\n[^]+--port <port> [^]+--env <name>/),
    ]);
  });
});

describe("an edit while npm start runs", () => {
  const origin = createServer((_, response) => response.end("Hello from an origin of one's own."));

  const inEffect = async (vars: string[], text: string): Promise<void> => {
    configure(vars);
    await printed(run, text);
  };

  beforeAll(async () => {
    origin.listen(0, "127.0.0.1");
    await once(origin, "listening");
  });
  afterAll(() => origin.close());

  const ownOrigin = (): string => {
    const { port: originPort } = origin.address() as AddressInfo;
    return `ORIGIN = "http://127.0.0.1:${originPort}"`;
  };

  it("an edit that replaces the demo origin and limits takes effect, and every request during the edit gets a response", async () => {
    const polling = new AbortController();
    const statuses: number[] = [];
    const pollingEnded = (async () => {
      while (!polling.signal.aborted) {
        // oxlint-disable-next-line no-await-in-loop
        statuses.push((await fetch(`${url}/meanwhile`)).status);
        // oxlint-disable-next-line no-await-in-loop
        await setTimeout(50);
      }
    })();
    const limits = ['LIMITS = "1000/hour"', 'STRATEGY = "fixed-window"'];
    await inEffect([ownOrigin(), ...limits], "In effect now: default 1000 per 1h, in front of http");
    polling.abort();
    await pollingEnded;
    expect(statuses.length).toBeGreaterThan(5);
    expect(statuses.filter((status) => status !== 200 && status !== 429)).toEqual([]);
    const response = await fetch(url);
    expect(response.headers.get("RateLimit-Policy")).toBe('"default";q=1000;w=3600');
    expect(await response.text()).toBe("Hello from an origin of one's own.");
  });

  it("an edit of the units of a limit keeps the units that were spent before the edit", async () => {
    const before = (await look("127.0.0.1")) as number;
    expect((await fetch(url)).status).toBe(200);
    const limits = ['LIMITS = "900/hour"', 'STRATEGY = "fixed-window"'];
    await inEffect([ownOrigin(), ...limits], "In effect now: default 900 per 1h");
    expect(await look("127.0.0.1")).toBe(before - 1 - 100);
  });

  it("an invalid edit leaves the last valid configuration in effect and prints its problems", async () => {
    const isServing = async (): Promise<void> => {
      const response = await fetch(url);
      expect(response.status).toBe(200);
      expect(response.headers.get("RateLimit-Policy")).toBe('"default";q=900;w=3600');
    };
    await inEffect(['LIMITS = "800/'], "Invalid TOML");
    expect(run.output()).toContain("so the previous one stays in effect");
    await isServing();
    await inEffect(['LIMITS = "0/hour"'], "LIMITS.limit: expected an integer");
    await isServing();
    await inEffect([ownOrigin(), 'LIMITS = "800/hour"'], "In effect now: default 800 per 1h");
    const response = await fetch(url);
    expect(response.headers.get("RateLimit-Policy")).toBe('"default";q=800;w=3600');
  });

  it("an edit of a secret takes effect when another file replaces .dev.vars", async () => {
    const file = join(folder, ".dev.vars");
    const token = "another-token-of-the-tests-in-32-bytes";
    const text = readFileSync(file, "utf8").replace(checkToken(), token);
    writeFileSync(`${file}.tmp`, text);
    renameSync(`${file}.tmp`, file);
    await printed(run, "; CHECK_TOKENS changed.");
    const headers = { Authorization: `Bearer ${token}` };
    expect((await fetch(`${url}/check?key=127.0.0.1`, { headers })).status).toBe(200);
  });

  it("an edit with which the Worker cannot run is undone", async () => {
    const file = join(folder, "wrangler.toml");
    const text = readFileSync(file, "utf8");
    writeFileSync(file, text.replace('class_name = "RateLimiter"', 'class_name = "Nothing"'));
    await printed(run, "The Worker could not be built.");
    expect((await fetch(url)).headers.get("RateLimit-Policy")).toBe('"default";q=800;w=3600');
  });

  it("every process ends when npm alone is terminated", async () => {
    const members = family();
    expect(members.size).toBeGreaterThan(3);
    process.kill(run.npm.pid ?? 0, "SIGTERM");
    await run.ended;
    // A killed process exists until its parent has reaped it.
    await vi.waitFor(() => expect(survivors(members)).toEqual([]), 5_000);
    await expect(fetch(url)).rejects.toThrow("fetch failed");
  });
});

describe("npm start with a user's configuration", () => {
  it("npm start uses the configuration and prints what the Worker logs", async () => {
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

  it("npm start keeps counters from one run to the next and ends on Ctrl-C", async () => {
    expect(await look("127.0.0.1")).toBe(99);
    const members = family();
    process.kill(-(run.npm.pid ?? 0), "SIGINT");
    await run.ended;
    // A killed process exists until its parent has reaped it.
    await vi.waitFor(() => expect(survivors(members)).toEqual([]), 5_000);
    await start();
    expect(await look("127.0.0.1")).toBe(99);
  });

  it("npm start lists the runtime rules that an earlier run stored", async () => {
    expect(run.output()).not.toContain("runtime rule");
    const token = /^ADMIN_TOKENS="(.+)"$/m.exec(readFileSync(join(folder, ".dev.vars"), "utf8"))?.[1] ?? "";
    const response = await fetch(`${url}/_headgate/api/rules`, {
      method: "POST",
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: JSON.stringify({ policy: "default", key: "198.51.100.7", kind: "block", note: "abuse", for: "1h" }),
    });
    expect(response.status).toBe(201);
    await stopped(run);
    await start();
    expect(run.output()).toMatch(
      /^ {2}rules {10}1 runtime rule of earlier runs in effect; delete .*:\n +default: block for the key \w{8}…, until 20/m,
    );
  });

  it("npm start warns which policies are decided by onError, because local workerd does not support jurisdictions", async () => {
    configure(
      ["eu", "us"].flatMap((jurisdiction) => [
        "[[vars.POLICIES]]",
        `name = "${jurisdiction}"`,
        'limits = "1/hour"',
        `jurisdiction = "${jurisdiction}"`,
      ]),
    );
    await printed(run, "In effect now: eu 1 per 1h; us 1 per 1h, in front of the demo origin.");
    expect(run.output()).toContain(
      'so onError decides for these policies: eu (onError = "local"), us (onError = "local").',
    );
    const statuses = [await fetch(url), await fetch(url)].map(({ status }) => status);
    expect(statuses).toEqual([200, 429]);
  });

  it("npm start prints the problems of an invalid configuration and answers 500 until an edit corrects it", async () => {
    await stopped(run);
    configure(['LIMITS = "0/hour"', 'STRATEGY = "magic"']);
    await start();
    expect(run.output()).toContain("LIMITS.limit: expected an integer");
    expect(run.output()).toContain("STRATEGY: expected one of");
    expect((await fetch(url)).status).toBe(500);
    configure(['LIMITS = "5000/hour"']);
    await printed(run, "In effect now: default 5000 per 1h, in front of the demo origin.");
    expect((await fetch(url)).status).toBe(200);
  });
});
