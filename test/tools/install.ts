/**
 * Installs the packages of test/tools, unless those that its lock file pins are already installed. `npm run bench`,
 * `npm run screenshots` and `npm run test:full` do this first. Run it alone with `npx node test/tools/install.ts`.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const folder = import.meta.dirname;
/**
 * A copy of the lock file, which the script `postinstall` of test/tools writes. `npm ci` removes the copy with all
 * packages.
 */
const installed = join(folder, "node_modules/.installed-lock.json");

/** @throws Error if npm fails, for example without a network */
export function installTools(): void {
  const lock = readFileSync(join(folder, "package-lock.json"), "utf8");
  if (existsSync(installed) && readFileSync(installed, "utf8") === lock) return;
  console.error("Installing the packages of test/tools …");
  const { status, stdout, stderr } = spawnSync("npm", ["ci"], { cwd: folder, encoding: "utf8", shell: isWindows });
  if (status !== 0) {
    throw new Error(
      `the packages of test/tools are not installed: "npm ci" in that folder failed. It needs the npm registry once.\n${stdout ?? ""}${stderr ?? ""}`,
    );
  }
}

/** On Windows, npm is a script that only a shell can run. */
const isWindows = process.platform === "win32";

/** The global setup of tests that use these packages. */
export const setup = installTools;

if (import.meta.main) installTools();
