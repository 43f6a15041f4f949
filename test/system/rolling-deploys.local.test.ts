/**
 * Runs two versions at the same time, as during a deployment. Each version understands the other's calls and stored
 * rows.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { adminToken, callAdmin, change } from "../tools/control-plane/admin-client.ts";
import type { RunningWorkerd } from "../tools/workerd-process.ts";
import { Caller, prepare, startWith, type Version } from "./two-versions.ts";

const limitOf = (strategy: string, fields: object = {}): object => ({
  limit: 100,
  window: "1h",
  strategy,
  ...fields,
});

/** A policy for each strategy and for each option that has its own state. */
const strategies: Readonly<Record<string, object>> = {
  fixed: limitOf("fixed-window"),
  "fixed-clock": limitOf("fixed-window", { align: "clock" }),
  calendar: { limit: 100, window: "1y", strategy: "fixed-window", align: "calendar" },
  log: limitOf("sliding-log"),
  counter: limitOf("sliding-window-counter"),
  buckets: limitOf("sliding-buckets"),
  tokens: { limit: 100, window: "365d", strategy: "token-bucket" },
  interval: limitOf("token-bucket", { refill: "interval" }),
  police: { limit: 100, window: "365d", strategy: "leaky-bucket", mode: "police" },
  slots: limitOf("concurrency"),
};

const key = ["header:x-user"];
const matchingNothing = { match: { path: "/nothing-is-here" }, key };

const policies = [
  ...Object.entries(strategies).map(([name, limit]) => ({
    ...matchingNothing,
    name,
    limits: limit,
    durability: "confirmed",
  })),
  { ...matchingNothing, name: "leased", limits: limitOf("sliding-log"), consistency: "leased" },
  {
    ...matchingNothing,
    name: "eventual",
    limits: limitOf("sliding-log"),
    consistency: "eventual",
    syncEvery: "100ms",
  },
  {
    ...matchingNothing,
    name: "banning",
    limits: { limit: 1, window: "1h", strategy: "sliding-log" },
    ban: { after: 2, within: "1h", for: "1h" },
  },
  {
    name: "tenant",
    match: { path: "/tenant/*" },
    key: ["header:x-tenant"],
    limits: limitOf("sliding-log"),
  },
  {
    name: "user",
    match: { path: "/tenant/*" },
    key,
    limits: { limit: 3, window: "1h", strategy: "sliding-log" },
    denyCache: false,
  },
];

const folder = mkdtempSync(join(tmpdir(), "headgate-versions-"));

beforeAll(() => prepare(folder, policies), 120_000);
afterAll(() => rmSync(folder, { recursive: true }));

describe.each<{ isolates: Version; objects: Version }>([
  { isolates: "current", objects: "previous" },
  { isolates: "previous", objects: "current" },
])("isolates of the $isolates version with objects of the $objects version", ({ isolates, objects }) => {
  let running: RunningWorkerd<Version>;
  let caller: Caller;

  beforeAll(async () => {
    running = await startWith(folder, objects);
    caller = new Caller(running, isolates);
  }, 30_000);
  afterAll(() => running.kill());

  /** A key that no other test uses. */
  const newKey = (): string => crypto.randomUUID();

  it.each(Object.keys(strategies))("check, look, batch and reset work across versions with %s", async (policy) => {
    const user = newKey();
    const check = { policy, key: user, cost: 30 };
    expect(await caller.post("", check)).toMatchObject({
      allowed: true,
      limits: [{ remaining: 70 }],
    });
    const { results } = await caller.post("/batch", {
      checks: [check, { ...check, cost: 41 }, check],
    });
    expect(results?.map(({ allowed }) => allowed)).toEqual([true, false, true]);
    expect(await caller.left(policy, user)).toBe(10);
    expect(await caller.post("", check)).toMatchObject({ allowed: false });
    expect(await caller.forget(policy, user)).toBe(204);
    expect(await caller.left(policy, user)).toBe(100);
  });

  it.each(Object.keys(strategies))("reserve and settle work across versions with %s", async (policy) => {
    const user = newKey();
    const reserve = { policy, key: user, cost: 40, ttlMs: 60_000 };
    const first = await caller.post("/reserve", reserve);
    const second = await caller.post("/reserve", reserve);
    expect(second).toMatchObject({ allowed: true, limits: [{ remaining: 20 }] });
    expect(await caller.post("/settle", { id: first.id, cost: 10 })).toEqual({ settled: true });
    expect(await caller.post("/settle", { id: first.id, cost: 10 })).toEqual({
      settled: false,
    });
    expect(await caller.left(policy, user)).toBe(policy === "slots" ? 60 : 50);
    await caller.post("/settle", { id: second.id, cost: 0 });
    expect(await caller.left(policy, user)).toBe(policy === "slots" ? 100 : 90);
  });

  it.each(["leased", "eventual"])("each %s charge counts once across versions", async (policy) => {
    const user = newKey();
    const checks = Array.from({ length: 40 }, () => caller.post("", { policy, key: user }));
    const answers = await Promise.all(checks);
    expect(answers.filter(({ allowed }) => allowed)).toHaveLength(40);
    const seen = async (): Promise<void> => expect(await caller.left(policy, user)).toBe(60);
    await vi.waitFor(seen, { timeout: 5_000, interval: 50 });
  });

  it("a key that is denied too often is banned across versions", async () => {
    const user = newKey();
    const check = { policy: "banning", key: user, cost: 1 };
    for (const allowed of [true, false, false]) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await caller.post("", check)).toMatchObject({ allowed });
    }
    const { bannedForMs } = await caller.post("", check);
    expect(bannedForMs).toBeGreaterThan(3_500_000);
  });

  it("the charges of a first policy are refunded across versions when the second policy denies", async () => {
    const headers = { "x-tenant": newKey(), "x-user": newKey() };
    const statuses: number[] = [];
    for (let round = 0; round < 3; round++) {
      const requests = Array.from({ length: 20 }, () => caller.request("/tenant/a", headers));
      // oxlint-disable-next-line no-await-in-loop
      statuses.push(...(await Promise.all(requests)));
    }
    expect(statuses.filter((status) => status === 200)).toHaveLength(3);
    expect(statuses.filter((status) => status === 429)).toHaveLength(57);
    const seen = async (): Promise<void> => expect(await caller.left("tenant", headers["x-tenant"])).toBe(97);
    await vi.waitFor(seen, { timeout: 5_000, interval: 50 });
  });
});

it("each version reads what the other version has stored, including open reservations", async () => {
  const user = crypto.randomUUID();
  const names = Object.keys(strategies);
  const open = new Map<string, string>();

  /** Settles the previous reservation, charges 10 units, and reserves 10 more. */
  const play = async (caller: Caller, policy: string): Promise<unknown> => {
    const { settled } = await caller.post("/settle", { id: open.get(policy) ?? "", cost: 0 });
    await caller.post("", { policy, key: user, cost: 10 });
    const reserve = { policy, key: user, cost: 10, ttlMs: 600_000 };
    open.set(policy, String((await caller.post("/reserve", reserve)).id));
    return settled;
  };

  const playAll = async (objects: Version, left: number): Promise<void> => {
    const running = await startWith(folder, objects);
    try {
      const caller = new Caller(running, objects);
      const found = await Promise.all(names.map((policy) => caller.left(policy, user)));
      expect(found).toEqual(names.map(() => left));
      const settled = await Promise.all(names.map((policy) => play(caller, policy)));
      expect(settled).toEqual(names.map(() => left < 100));
    } finally {
      await running.kill();
    }
  };

  await playAll("previous", 100);
  await playAll("current", 80);
  await playAll("previous", 70);
  await playAll("current", 60);
}, 60_000);

it("the previous version reads, enforces and changes a boost that this version has stored with its factor, and this version reads the change", async () => {
  const own = mkdtempSync(join(tmpdir(), "headgate-versions-"));
  const operator = { name: "operator", token: adminToken, may: ["read", "write"] };
  const user = crypto.randomUUID();
  const path = "/rules?policy=fixed";

  const within = async (objects: Version, act: (url: URL, caller: Caller) => Promise<void>): Promise<void> => {
    const running = await startWith(own, objects);
    try {
      await act(new URL(`http://127.0.0.1:${running.ports[objects]}`), new Caller(running, objects));
    } finally {
      await running.kill();
    }
  };

  try {
    prepare(own, policies, { ADMIN_TOKENS: JSON.stringify([operator]) });
    await within("current", async (url) => {
      const boost = { policy: "fixed", kind: "limits", key: user, limits: "200/1h", factor: 2 };
      const { body } = await change(url, "POST", "/rules", { body: boost });
      expect(body).toMatchObject({ factor: 2, state: "applied" });
    });
    await within("previous", async (url, caller) => {
      const { body } = await callAdmin(url, "GET", path);
      expect(body).toMatchObject({ rules: [{ kind: "limits", limits: "200/1h" }] });
      expect(await caller.left("fixed", user)).toBe(200);
      const [{ id }] = (body as { rules: [{ id: string }] }).rules;
      await change(url, "PUT", `/rules/${id}`, { body: { kind: "limits", limits: "300/1h" }, etag: '"1"' });
    });
    await within("current", async (url, caller) => {
      const { body } = await callAdmin(url, "GET", path);
      const [rule] = (body as { rules: object[] }).rules;
      expect(rule).toMatchObject({ kind: "limits", limits: "300/1h", revision: 2 });
      expect(rule).not.toHaveProperty("factor");
      expect(await caller.left("fixed", user)).toBe(300);
    });
  } finally {
    rmSync(own, { recursive: true });
  }
}, 60_000);
