import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startWorkerd, type Workerd } from "../tools/workerd.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-killed-"));
const token = "the-tests-token";
let workerd: Workerd;

beforeAll(async () => {
  workerd = await startWorkerd(folder, { LIMITS: "10/hour", CHECK_TOKENS: token });
  return workerd.close;
});

afterAll(() => rmSync(folder, { recursive: true }));

async function remaining(method: "GET" | "POST", key: string): Promise<number | undefined> {
  const query = method === "GET" ? `?key=${key}` : "";
  const response = await fetch(new URL(`/check${query}`, workerd.url), {
    method,
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    ...(method === "POST" && { body: JSON.stringify({ key }) }),
  });
  const decision = await response.json<{ limits: { remaining: number }[] }>();
  return decision.limits[0]?.remaining;
}

it("workerd keeps counters when it is killed and restarted", async () => {
  expect(await remaining("POST", "198.51.100.1")).toBe(9);
  expect(await remaining("POST", "198.51.100.1")).toBe(8);
  // Spends are stored up to a second after the response.
  await setTimeout(1_500);
  await workerd.kill();
  await expect(fetch(workerd.url)).rejects.toThrow("fetch failed");
  await workerd.start();
  expect(await remaining("GET", "198.51.100.1")).toBe(8);
  expect(await remaining("POST", "198.51.100.1")).toBe(7);
});

it("the origin's request count starts from zero at each start", async () => {
  const before = await workerd.served();
  expect((await fetch(workerd.url)).status).toBe(200);
  expect(await workerd.served()).toBe(before + 1);
  await workerd.start();
  expect(await workerd.served()).toBe(0);
});

it("workerd ends with the process that started it, however that process ends", async () => {
  const script = `
    import { startWorkerd } from "./test/tools/workerd.ts";
    const workerd = await startWorkerd(process.argv[1], { LIMITS: "1/s" });
    console.log(workerd.url.href);
    setInterval(() => {}, 60_000);`;
  const other = join(folder, "other");
  const starter = spawn(process.execPath, ["--input-type=module-typescript", "-e", script, other], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [url] = (await once(starter.stdout, "data")) as [Buffer];
  expect((await fetch(String(url).trim())).status).toBe(200);
  starter.kill("SIGKILL");
  await once(starter, "close");
  await expect.poll(() => fetch(String(url).trim()).catch(() => "gone"), { timeout: 5_000 }).toBe("gone");
});
