/**
 * `npm run bench -- crash`: kills workerd under traffic and restarts it on the same storage, many times. Exits with 1
 * if more requests are admitted above the limit than the setting `durability` promises. Options: --durability
 * confirmed|relaxed for only one setting, --kills <number>, --connections <number>.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { exitWithError } from "../../src/cli/command.ts";
import { randomFrom } from "../random.ts";
import { positiveInteger, readOptions } from "./options.ts";
import { startWorkerd, type Workerd } from "./workerd.ts";

type Durability = "confirmed" | "relaxed";

const values = readOptions("crash", {
  durability: { type: "string", value: "name", about: "confirmed or relaxed. (default: both)" },
  kills: { type: "string", value: "number", default: "20", about: "Kills for each durability." },
  connections: { type: "string", value: "number", default: "16", about: "Concurrent requests." },
});

const durabilities = durabilityOf(values.durability);
const kills = positiveInteger("kills", values.kills);
const connections = positiveInteger("connections", values.connections);

const token = crypto.randomUUID();
/** High enough that the limit is reached only after the last kill. */
const unitsPerKill = 3_000;
const limit = kills * unitsPerKill;
/**
 * A kill may lose the requests that were admitted since the last write: within the last second, or up to 250 ms more if
 * the timer is late.
 */
const gatheredMs = 1_250;
const patienceMs = 120_000;

const next = randomFrom(4);
for (const durability of durabilities) {
  // Runs them one after the other, so that they do not slow each other down.
  // oxlint-disable-next-line no-await-in-loop
  await crash(durability);
}

async function crash(durability: Durability): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-crash-"));
  const policy = {
    name: "crash",
    key: "global",
    limits: [{ limit, window: "1d", strategy: "fixed-window" }],
    onError: "closed",
    durability,
  };
  try {
    const workerd = await startWorkerd(folder, {
      POLICIES: JSON.stringify([policy]),
      CHECK_TOKENS: token,
    });
    try {
      report(durability, await killedInTraffic(workerd));
    } finally {
      await workerd.close();
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

interface Course {
  readonly admitted: number;
  /** For each kill, the number of admitted requests that were not stored. */
  readonly lost: readonly number[];
  /** For each kill, the number of requests that were admitted in the second before the kill. */
  readonly lastSecond: readonly number[];
}

async function killedInTraffic(workerd: Workerd): Promise<Course> {
  const admittedAtMs: number[] = [];
  const traffic = startTraffic(workerd.url, admittedAtMs);
  const lost: number[] = [];
  const lastSecond: number[] = [];
  try {
    for (let kill = 0; kill < kills; kill++) {
      // oxlint-disable no-await-in-loop
      await setTimeout(600 + 900 * next());
      const killedAtMs = performance.now();
      await workerd.kill();
      // Responses that were sent before the kill are still arriving.
      await setTimeout(50);
      const admitted = admittedAtMs.length;
      lastSecond.push(admittedAtMs.filter((atMs) => killedAtMs - atMs <= gatheredMs).length);
      traffic.pause();
      await workerd.start();
      const before = lost.reduce((sum, each) => sum + each, 0);
      lost.push(Math.max(0, admitted - (await spentUnits(workerd)) - before));
      traffic.resume();
      // oxlint-enable no-await-in-loop
    }
    await traffic.denied();
  } finally {
    await traffic.end();
  }
  return { admitted: admittedAtMs.length, lost, lastSecond };
}

/** The spent units that the object reports. */
async function spentUnits(workerd: Workerd): Promise<number> {
  const response = await fetch(new URL("/check?cost=0", workerd.url), {
    headers: { Authorization: `Bearer ${token}` },
  });
  const { limits } = await response.json<{ limits: { remaining: number }[] }>();
  return limit - (limits[0]?.remaining ?? 0);
}

interface Traffic {
  readonly pause: () => void;
  readonly resume: () => void;
  /** Resolves when a request is denied. */
  readonly denied: () => Promise<void>;
  readonly end: () => Promise<void>;
}

function startTraffic(url: URL, admittedAtMs: number[]): Traffic {
  const reached = Promise.withResolvers<void>();
  let going = Promise.withResolvers<void>();
  going.resolve();
  const over = new AbortController();
  const ask = async (): Promise<void> => {
    const response = await fetch(new URL("/check", url), {
      method: "POST",
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: "{}",
    });
    const { allowed } = await response.json<{ allowed?: boolean }>();
    if (allowed === true) admittedAtMs.push(performance.now());
    if (allowed === false) reached.resolve();
  };
  const client = async (): Promise<void> => {
    while (!over.signal.aborted) {
      // oxlint-disable no-await-in-loop
      await going.promise;
      await ask().catch(() => setTimeout(5));
      // oxlint-enable no-await-in-loop
    }
  };
  const clients = Array.from({ length: connections }, client);
  return {
    pause: () => {
      going = Promise.withResolvers<void>();
    },
    resume: () => going.resolve(),
    denied: () =>
      Promise.race([
        reached.promise,
        setTimeout(patienceMs, undefined, { ref: false }).then(() => {
          throw new Error("the limit was not reached");
        }),
      ]),
    end: async () => {
      over.abort();
      going.resolve();
      await Promise.all(clients);
    },
  };
}

function report(durability: Durability, { admitted, lost, lastSecond }: Course): void {
  const mayLose = durability === "confirmed" ? lost.map(() => 0) : lastSecond;
  const isKept =
    admitted <= limit + mayLose.reduce((sum, each) => sum + each, 0) &&
    lost.every((each, kill) => each <= (mayLose[kill] ?? 0));
  const most = Math.max(0, ...lost);
  console.log(`durability  ${durability}
kills       ${kills} with SIGKILL, ${connections} connections
admitted    ${admitted} of ${limit}, ${Math.max(0, admitted - limit)} above the limit
lost        ${lost.join(", ")} units by kill; max ${most}
last second ${lastSecond.join(", ")} units admitted before each kill
${isKept ? promiseOf(durability) : `A kill lost more than ${durability} durability promises.`}`);
  if (!isKept) process.exitCode = 1;
}

function promiseOf(durability: Durability): string {
  return durability === "confirmed"
    ? "The limit was never exceeded."
    : "No kill lost more than the units of the last second.";
}

function durabilityOf(text: string | undefined): readonly Durability[] {
  if (text === undefined) return ["confirmed", "relaxed"];
  if (text === "confirmed" || text === "relaxed") return [text];
  return exitWithError(`--durability: expected "confirmed" or "relaxed", got "${text}"`);
}
