/**
 * Keeps compiled code for the Node processes that tests start. Many of them load wrangler, and compiling it takes a third of
 * their time.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Node reads the variable when a process starts. */
export function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), "headgate-compiled-"));
  process.env["NODE_COMPILE_CACHE"] = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
