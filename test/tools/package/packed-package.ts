/** Packs the package once for all tests that install it, as `npm publish` would. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  interface ProvidedContext {
    /** The path of the packed package. */
    readonly tarball: string;
  }
}

export function setup(project: TestProject): () => void {
  const folder = mkdtempSync(join(tmpdir(), "headgate-packed-"));
  execFileSync("npm", ["pack", "--pack-destination", folder], { stdio: "pipe" });
  project.provide("tarball", join(folder, readdirSync(folder)[0] ?? ""));
  return () => rmSync(folder, { recursive: true });
}
