/** Details of wrangler's development server that its programming interface leaves to the caller. */
import { statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

type Environment = Readonly<Record<string, string | undefined>>;

/** The folder in which local Workers find each other, as `wrangler dev` chooses it, so that they can bind to each other. */
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

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

/**
 * Whether a failed build comes from the file watcher of a bundle that wrangler is replacing. wrangler deletes the
 * folder of the old bundle before it stops that watcher. Its failure says nothing about the new bundle.
 */
export const isRebuildFailure = ({ reason }: { readonly reason: string }): boolean =>
  reason === "Failed to rebuild the Worker";
