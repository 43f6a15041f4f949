import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";

/**
 * The control plane takes 50 KB of this size, including the OpenAPI document of its API. The other OpenAPI document
 * takes 8 KB, jose 7 KB, Hono 6 KB and the page of an unconfigured Worker 3 KB. Cloudflare accepts at least 3 MB.
 */
it("the deployed bundle is smaller than 188 KB gzipped", () => {
  const folder = mkdtempSync(join(tmpdir(), "headgate-bundle-"));
  const wrangler = "node_modules/wrangler/bin/wrangler.js";
  execFileSync(process.execPath, [wrangler, "deploy", "--dry-run", "--outdir", folder], {
    stdio: "pipe",
  });
  const sizeBytes = gzipSync(readFileSync(join(folder, "index.js"))).length;
  rmSync(folder, { recursive: true });
  expect(sizeBytes).toBeLessThan(188 * 1024);
});
