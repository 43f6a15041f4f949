/** The machine and the versions of a run. */
import { cpus, loadavg } from "node:os";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Machine } from "./record.ts";

const measured = [
  "hono",
  "hono-rate-limiter",
  "@hono-rate-limiter/cloudflare",
  "miniflare",
  "rate-limiter-flexible",
  "@upstash/ratelimit",
  "ioredis",
  "@hono/node-server",
];

export function machine(generator: string, redis: string | undefined): Machine {
  const processors = cpus();
  return {
    processor: processors[0]?.model.trim() ?? "unknown",
    cores: processors.length,
    node: process.versions.node,
    workerd: versionOf("workerd"),
    generator,
    redis: redis ?? null,
    // Windows reports 0, which is impossible while npm runs.
    loadBefore: loadavg()[0] || null,
    packages: Object.fromEntries(measured.map((name) => [name, versionOf(name)])),
  };
}

function versionOf(name: string): string {
  const folder = ["node_modules", "test/tools/node_modules"].find((each) => existsSync(join(each, name))) ?? "";
  const file = readFileSync(join(folder, name, "package.json"), "utf8");
  return (JSON.parse(file) as { version: string }).version;
}
