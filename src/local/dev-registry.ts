/** The folder where local Workers find each other, so that another `wrangler dev` can bind to this Worker. */
import { statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

type Environment = Readonly<Record<string, string | undefined>>;

/** The same folder as that of `wrangler dev`, whose programming interface has no default for it. */
export function devRegistryPath(
  env: Environment = process.env,
  home = homedir(),
  platform: NodeJS.Platform = process.platform,
): string {
  const legacy = join(home, ".wrangler");
  const folder = isFolder(legacy) ? legacy : join(configFolder(env, home, platform), ".wrangler");
  return env["WRANGLER_REGISTRY_PATH"] ?? join(folder, "registry");
}

function configFolder(env: Environment, home: string, platform: NodeJS.Platform): string {
  const { XDG_CONFIG_HOME: chosen, APPDATA: appData } = env;
  if (chosen) return chosen;
  if (platform === "darwin") return join(home, "Library", "Preferences");
  if (platform !== "win32") return join(home, ".config");
  return join(appData ?? join(home, "AppData", "Roaming"), "xdg.config");
}

const isFolder = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
