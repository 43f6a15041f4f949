/**
 * The control plane is killed, stopped and restored under load. It runs in its own process, so that signals can stop
 * it. Latencies are compared with those of two groups of isolates without a control plane, which receive the same load
 * at the same instants. The difference between the two groups is noise.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { callAdmin, setLimits } from "../tools/control-plane/admin-client.ts";
import { type ControlProcess, type Isolates, startIsolates } from "../tools/control-plane/isolates.ts";
import { latencyAt, Load, warmUp, within } from "../tools/control-plane/lanes.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-control-plane-"));
const names = ["one", "two"];
const plain = ["plain-one", "plain-two"];
const again = ["again-one", "again-two"];
let isolates: Isolates;
let control: ControlProcess;

beforeAll(async () => {
  isolates = await startIsolates(folder, {
    policies: [
      {
        name: "api",
        match: { path: "/traffic" },
        key: "header:x-key",
        limits: "1000000/hour",
        timeout: "5s",
        onError: "closed",
      },
    ],
    names,
    plain: [...plain, ...again],
    isRemote: true,
  });
  if (isolates.control === null) throw new Error("the control plane has a process");
  ({ control } = isolates);
  // When rules exist, beats are due every 5 s.
  await setLimits(isolates.url("one"), "api", "999999/hour");
}, 120_000);
afterAll(async () => {
  await isolates.close();
  rmSync(folder, { recursive: true });
});

const urlsOf = (group: readonly string[]): URL[] => group.map((name) => isolates.url(name));

/** The number of decisions in the statistics; null when the control plane does not answer. */
async function counted(name: string): Promise<number | null> {
  const { status, body } = await callAdmin(isolates.url(name), "GET", "/stats?policy=api");
  if (status !== 200) return null;
  const { points } = body as { points: { outcomes: Record<string, number> }[] };
  return points.flatMap(({ outcomes }) => Object.values(outcomes)).reduce((sum, each) => sum + each, 0);
}

let decided = 0;
let limit = 1_000;

/** Sets new limits by the admin API, and repeats the call until it succeeds. */
async function setLimitsSoon(): Promise<number> {
  limit++;
  const set = (): Promise<void> => setLimits(isolates.url("one"), "api", `${limit}/second`);
  await vi.waitFor(set, { timeout: 10_000, interval: 100 });
  return limit;
}

/** Resolves when every isolate uses this limit. */
const followed = (load: Load, of: number): Promise<void> =>
  vi.waitFor(
    () => {
      for (const url of urlsOf(names)) {
        expect(load.shown.get(url.href)).toContain(`"api";q=${of};`);
      }
    },
    { timeout: 15_000, interval: 20 },
  );

const faults: Readonly<Record<string, () => Promise<void>>> = {
  "is killed for five seconds": async () => {
    await control.kill();
    await setTimeout(5_000);
    await control.restart();
  },
  "hangs for ten seconds": async () => {
    control.pause();
    await setTimeout(10_000);
    control.resume();
  },
  "is killed five times within seconds": async () => {
    for (let kill = 0; kill < 5; kill++) {
      // oxlint-disable no-await-in-loop
      await control.kill();
      await setTimeout(1_000 * Math.random());
      await control.restart();
      await setTimeout(1_000 * Math.random());
      // oxlint-enable no-await-in-loop
    }
  },
};

describe.each(Object.entries(faults))("while the control plane %s", (_, fail) => {
  it("while the control plane fails, no request is refused or slowed; within 10 s of its return, counts are exact and rules apply", async () => {
    const controlled = { name: "controlled", urls: urlsOf(names) };
    decided += warmUp(controlled);
    const load = await Load.start([
      controlled,
      { name: "plain", urls: urlsOf(plain) },
      { name: "plain again", urls: urlsOf(again) },
    ]);
    const excess: number[] = [];
    // Reads the statistics all the time, even while the control plane does not answer.
    const isOver = new AbortController();
    const reading = (async () => {
      while (!isOver.signal.aborted) {
        // oxlint-disable-next-line no-await-in-loop
        const count = await counted("one");
        if (count !== null) excess.push(count - decided - load.started("controlled"));
        // oxlint-disable-next-line no-await-in-loop
        await setTimeout(500);
      }
    })();
    let [failedAtMs, returnedAtMs, followedAfterMs] = [0, 0, 0];
    try {
      await setTimeout(1_000 + 3_000 * Math.random());
      failedAtMs = load.elapsedMs;
      await fail();
      returnedAtMs = load.elapsedMs;
      await followed(load, await setLimitsSoon());
      followedAfterMs = load.elapsedMs - returnedAtMs;
      await setTimeout(500);
    } finally {
      isOver.abort();
      await reading;
      await load.end();
    }

    for (const { name } of load.lanes) {
      expect(load.sent(name).filter(({ status }) => status !== 200)).toEqual([]);
    }
    expect(followedAfterMs).toBeLessThan(10_000);
    const during = (lane: string) => within(load.sent(lane), failedAtMs, returnedAtMs + 1_000);
    const at = (quantile: number) =>
      load.lanes.map(({ name }) => Math.round(100 * latencyAt(quantile, during(name))) / 100);
    const [median, p99] = [at(0.5), at(0.99)];
    console.log(JSON.stringify({ median, p99, followedAfterMs: Math.round(followedAfterMs) }));
    // A request that waited for the control plane would take seconds. The bounds leave room for a busy machine.
    expect(median[0]).toBeLessThan(2 * Math.max(...median.slice(1)) + 10);
    expect(p99[0]).toBeLessThan(3 * Math.max(...p99.slice(1)) + 500);

    decided += load.started("controlled");
    expect(Math.max(...excess)).toBeLessThanOrEqual(0);
    // The isolates keep running, so that every decision arrives with a later beat.
    const arrived = async (): Promise<void> =>
      expect([await counted("one"), await counted("two")]).toEqual([decided, decided]);
    await vi.waitFor(arrived, { timeout: 30_000, interval: 500 });
  });
});
