import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";

/** Of which jose, for tokens, is 7 KB, and the OpenAPI document 6 KB; Cloudflare takes 3 MB and more. */
it("what is deployed is under 88 KB gzipped", () => {
  const folder = mkdtempSync(join(tmpdir(), "headgate-bundle-"));
  const wrangler = "node_modules/wrangler/bin/wrangler.js";
  execFileSync(process.execPath, [wrangler, "deploy", "--dry-run", "--outdir", folder], {
    stdio: "pipe",
  });
  const sizeBytes = gzipSync(readFileSync(join(folder, "index.js"))).length;
  rmSync(folder, { recursive: true });
  expect(sizeBytes).toBeLessThan(88 * 1024);
});
