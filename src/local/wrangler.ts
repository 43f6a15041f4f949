/** wrangler's command line, of the version that the project depends on. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";

const wranglerBin = fileURLToPath(
  new URL("../../node_modules/wrangler/bin/wrangler.js", import.meta.url),
);

/** Runs wrangler in this terminal and resolves to its exit code. Signals to this process end wrangler too. */
export async function runWrangler(words: readonly string[]): Promise<number> {
  const child = spawn(process.execPath, [wranglerBin, ...words], { stdio: "inherit" });
  const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const;
  for (const signal of signals) process.on(signal, () => child.kill(signal));
  await once(child, "exit");
  // As shells report the end by a signal.
  return child.exitCode ?? 128 + constants.signals[child.signalCode ?? "SIGTERM"];
}
