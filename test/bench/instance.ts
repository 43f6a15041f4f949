/** A local Headgate under load: the bundle that would be deployed, in workerd, in front of an origin that counts. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";

const compatibilityDate = "2026-11-01";

/** Answers every request with how many it has seen; `/count` without counting. */
const origin = `
let served = 0;
export default {
  fetch(request) {
    if (new URL(request.url).pathname !== "/count") served += 1;
    return new Response(String(served));
  },
};`;

export interface Instance {
  readonly url: URL;
  /** How many requests have reached the origin. */
  readonly served: () => Promise<number>;
  readonly close: () => Promise<void>;
}

export async function startInstance(vars: Readonly<Record<string, string>>): Promise<Instance> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-load-"));
  const wrangler = ["node_modules/wrangler/bin/wrangler.js", "deploy", "--dry-run"];
  execFileSync(process.execPath, [...wrangler, "--outdir", folder], { stdio: "pipe" });
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      port: 0,
      workers: [
        {
          name: "headgate",
          modules: true,
          modulesRoot: folder,
          scriptPath: join(folder, "index.js"),
          compatibilityDate,
          bindings: { ORIGIN: "http://origin.example", KEY_SECRET: crypto.randomUUID(), ...vars },
          durableObjects: { RATE_LIMITER: { className: "RateLimiter", useSQLite: true } },
          outboundService: "origin",
        },
        { name: "origin", modules: true, script: origin, compatibilityDate },
      ],
    }),
  );
  const url = await miniflare.ready;
  return {
    url,
    served: async () => {
      const counter = await miniflare.getWorker("origin");
      return Number(await (await counter.fetch("http://origin.example/count")).text());
    },
    close: async () => {
      await miniflare.dispose();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
