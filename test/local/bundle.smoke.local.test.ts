import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";

/** jose takes 7 KB of it, and the two OpenAPI documents 18 KB. Cloudflare accepts at least 3 MB. */
it("the deployed bundle is smaller than 164 KB gzipped", () => {
  const folder = mkdtempSync(join(tmpdir(), "headgate-bundle-"));
  const wrangler = "node_modules/wrangler/bin/wrangler.js";
  execFileSync(process.execPath, [wrangler, "deploy", "--dry-run", "--outdir", folder], {
    stdio: "pipe",
  });
  const sizeBytes = gzipSync(readFileSync(join(folder, "index.js"))).length;
  rmSync(folder, { recursive: true });
  expect(sizeBytes).toBeLessThan(164 * 1024);
});
