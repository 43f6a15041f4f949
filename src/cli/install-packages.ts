/** Installs the packages of a folder with a lock file of its own, which `npm ci` in the root does not install. */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { CommandError } from "./command.ts";

/** On Windows, npm is a script that only a shell can run. */
const isWindows = process.platform === "win32";

/**
 * Does nothing if the packages that the lock file pins are already installed.
 * @param name the folder from the root of the repository
 * @throws CommandError if npm fails, for example without a network
 */
export function installPackages(name: string): void {
  const folder = join(import.meta.dirname, "../..", name);
  const lock = readFileSync(join(folder, "package-lock.json"), "utf8");
  // The script `postinstall` of the folder writes this copy. `npm ci` removes it with all packages.
  const installed = join(folder, "node_modules/.installed-lock.json");
  if (existsSync(installed) && readFileSync(installed, "utf8") === lock) return;
  console.error(`Installing the packages of ${name} …`);
  const { status, stdout, stderr } = spawnSync("npm", ["ci"], { cwd: folder, encoding: "utf8", shell: isWindows });
  if (status === 0) return;
  throw new CommandError(
    `the packages of ${name} are not installed: "npm ci" in that folder failed. It needs the npm registry once.\n${stdout ?? ""}${stderr ?? ""}`,
  );
}
