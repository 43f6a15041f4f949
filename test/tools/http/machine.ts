/** The machine and the versions of a run. */
import { cpus, loadavg } from "node:os";
import { readFileSync } from "node:fs";
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
  const file = readFileSync(join("node_modules", name, "package.json"), "utf8");
  return (JSON.parse(file) as { version: string }).version;
}
