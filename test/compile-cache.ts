/**
 * Keeps compiled code for the Node processes that tests start. Many of them load wrangler, and compiling it takes a third of
 * their time.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export function setup(): void {
  const folder = mkdtempSync(join(tmpdir(), "headgate-compiled-"));
  // Node reads the variable when a process starts.
  process.env["NODE_COMPILE_CACHE"] = folder;
  // Workers write at their end, which may come after the teardown.
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
}
