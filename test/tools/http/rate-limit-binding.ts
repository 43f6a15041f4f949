/**
 * The Workers rate limiting binding as wrangler emulates it, with wrangler's own code: a wrapped binding that calls one
 * object for all keys of a namespace. wrangler's proxy in front of the Worker is omitted.
 */
import { copyFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { Extension, WorkerService } from "./services.ts";

const module = "cloudflare-internal:ratelimit:module";
/** The compatibility date of wrangler's services. */
const compatibilityDate = "2023-07-24";

export const bindingExtensions: readonly Extension[] = [
  { name: "miniflare:shared", file: "binding/index.worker.js", isInternal: false },
  { name: module, file: "binding/ratelimit.worker.js", isInternal: true },
];

export const bindingServices: readonly WorkerService[] = [
  {
    name: "binding-entry",
    modules: { "object-entry.worker.js": "binding/object-entry.worker.js" },
    compatibilityDate,
    bindings: [
      `(name = "MINIFLARE_OBJECT", durableObjectNamespace = (className = "RateLimiterObject", serviceName = "binding-object"))`,
    ],
  },
  {
    name: "binding-object",
    modules: { "ratelimit-object.worker.js": "binding/ratelimit-object.worker.js" },
    compatibilityDate,
    flags: ["nodejs_compat", "experimental"],
    objects: { OBJECTS: "RateLimiterObject" },
  },
];

/** A binding with a limit per minute, the longest period that the binding supports. */
export function rateLimitBinding(name: string, limit: number): string {
  const namespace = JSON.stringify(JSON.stringify({ MINIFLARE_NAMESPACE: name }));
  const inner = [
    `(name = "fetcher", service = (name = "binding-entry", props = (json = ${namespace})))`,
    `(name = "limit", json = "${limit}")`,
    `(name = "period", json = "60")`,
  ];
  return `(name = "${name}", wrapped = (moduleName = "${module}", innerBindings = [${inner.join(", ")}]))`;
}

/** Copies wrangler's code to the path that the configuration expects. */
export function copyBinding(folder: string): void {
  const workers = join(dirname(createRequire(import.meta.url).resolve("miniflare")), "workers");
  mkdirSync(join(folder, "binding"), { recursive: true });
  const files = [
    "shared/index.worker.js",
    "shared/object-entry.worker.js",
    "ratelimit/ratelimit.worker.js",
    "ratelimit/ratelimit-object.worker.js",
  ];
  for (const file of files) {
    copyFileSync(join(workers, file), join(folder, "binding", file.split("/")[1] ?? ""));
  }
}
